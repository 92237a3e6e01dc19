package acceptance

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"hearth/server/config"
	"hearth/server/testserver"
)

// TestBadPeers sends what no server should. Each is refused with a clear error,
// delivers nothing, and hurts nobody else.
func TestBadPeers(t *testing.T) {
	t.Parallel()
	var clock hands
	hs := testserver.Network(t, 1, testserver.Clock(clock.now, nil), testserver.QuietLog())[0]
	peer := testserver.NewPeer(t, hs.Authority(), clock.now())
	bob := hs.Register("bob")
	good := peer.Transaction(peer.Direct("u", "bad", bob, `{"bad":1}`))
	for _, bad := range []struct {
		name, body string
		change     func(*http.Request)
		want       string // status and code
	}{
		{"101 EDUs", peer.Transaction(repeat(peer.Direct("u", "bad", bob, `{}`), 101)...), nil, "400 M_BAD_JSON"},
		{"invalid UTF-8", strings.Replace(good, `"bad":1`, "\"b\xff\":1", 1), nil, "400 M_NOT_JSON"},
		{"no JSON", "{", nil, "400 M_NOT_JSON"},
		{"no object", "[]", nil, "400 M_BAD_JSON"},
		{"more than JSON", good + "{}", nil, "400 M_NOT_JSON"},
		{"key twice", `{"origin":1,` + good[1:], nil, "400 M_BAD_JSON"},
		{"deep", peer.Transaction(strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)), nil, "400 M_NOT_JSON"},
		{"nested", peer.Transaction(strings.Repeat("[", 200) + strings.Repeat("]", 200)), nil, "400 M_BAD_JSON"},
		{"no origin", `{"pdus":[],"edus":[]}`, nil, "400 M_MISSING_PARAM"},
		{"another's origin", strings.Replace(good, string(peer.Name), "other.test", 1), nil, "403 M_FORBIDDEN"},
		{"huge", peer.Transaction(`"` + strings.Repeat("x", 20<<20) + `"`), func(r *http.Request) {
			r.Header.Set("Expect", "100-continue") // it is refused for the size it names, before anything of it is sent
		}, "413 M_TOO_LARGE"},
		{"compression bomb", string(bomb(t)), func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, "400 M_NOT_JSON"},
		{"unsigned", good, func(r *http.Request) { r.Header.Del("Authorization") }, "401 M_UNAUTHORIZED"},
		{"no signature", good, func(r *http.Request) {
			r.Header.Set("Authorization", regexp.MustCompile(`sig="[^"]*"`).ReplaceAllString(r.Header.Get("Authorization"), `sig="?"`))
		}, "401 M_UNAUTHORIZED"},
		{"wrong destination", good, func(r *http.Request) {
			r.Header.Set("Authorization", peer.Authorize("other.test", r.Method, r.URL.RequestURI(), []byte(good)))
		}, "401 M_UNAUTHORIZED"},
		{"other body signed", good, func(r *http.Request) {
			r.Header.Set("Authorization", peer.Authorize(hs.Name(), r.Method, r.URL.RequestURI(), []byte(`{}`)))
		}, "401 M_UNAUTHORIZED"},
		{"other transaction signed", good, func(r *http.Request) {
			r.Header.Set("Authorization", peer.Authorize(hs.Name(), r.Method, r.URL.RequestURI()+"1", []byte(good)))
		}, "401 M_UNAUTHORIZED"},
		{"unknown key", good, func(r *http.Request) {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), string(peer.KeyID), "ed25519:other", 1))
		}, "401 M_UNAUTHORIZED"},
		{"another server's name", good, func(r *http.Request) {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), string(peer.Name), "127.0.0.1:1", 1))
		}, "401 M_UNAUTHORIZED"},
	} {
		a, err := peer.Try(hs, "bad", []byte(bad.body), bad.change)
		if err != nil {
			t.Errorf("%s: %v", bad.name, err)
			continue
		}
		if got := fmt.Sprint(a.Status, " ", a.Code()); got != bad.want {
			t.Errorf("%s: got %s, want %s", bad.name, a, bad.want)
		}
	}
	// Slow bodies hold nobody up: not even the same server.
	for range 20 {
		r, w := io.Pipe()
		defer func() { _ = w.Close() }()
		go func() {
			_, _ = peer.Try(hs, "slow", nil, func(req *http.Request) { req.Body, req.ContentLength = r, 1000 })
		}()
		if _, err := w.Write([]byte(`{"origin":`)); err != nil {
			t.Fatal(err)
		}
	}
	bob.Sync().NoToDevice()
	if a := peer.Send(hs, "bad", peer.Transaction(repeat(peer.Direct("u", "good", bob, `{"n":1}`), 100)...)); a.Status != http.StatusOK {
		t.Fatalf("got %s", a)
	}
	bob.Sync().HasToDevice("m.test", `{"n":1}`)
}

// TestTooMuchToRemember: a server that sends more than can be remembered is told
// to wait, before anything of it is applied, and what it sent before is still
// known.
func TestTooMuchToRemember(t *testing.T) {
	t.Parallel()
	hs := testserver.Network(t, 1, testserver.QuietLog(),
		testserver.Config(func(c *config.Config) { c.Federation.MaxRememberedBytesPerServer = 1 << 20 }))[0]
	peer := testserver.NewPeer(t, hs.Authority(), time.Now())
	bob := hs.Register("bob")
	body := func(txn int) string {
		edus := make([]string, 100)
		for i := range edus {
			edus[i] = peer.Direct("u", fmt.Sprintf("%d-%d", txn, i), bob, number(txn))
		}
		return peer.Transaction(edus...)
	}
	taken := 0
	refused := func() bool {
		t.Helper()
		a := peer.Send(hs, fmt.Sprint(taken), body(taken))
		if a.Status == http.StatusOK {
			return false
		}
		if a.Status != http.StatusTooManyRequests || a.Code() != "M_LIMIT_EXCEEDED" || a.Header.Get("Retry-After") == "" {
			t.Fatalf("got %s, want 429 M_LIMIT_EXCEEDED that says when to come back", a)
		}
		return true
	}
	for !refused() {
		if taken++; taken > 80 {
			t.Fatalf("%d transactions of 100 EDUs are remembered in a megabyte", taken)
		}
	}
	if got := len(bob.Sync().ToDevice.Events) + len(bob.Drain()); got != taken*100 || taken < 20 {
		t.Fatalf("%d messages of %d transactions", got, taken)
	}
	hs.Restart()
	for txn := range taken {
		if a := peer.Send(hs, fmt.Sprint(txn), body(txn)); a.Status != http.StatusOK {
			t.Fatalf("transaction %d again: %s", txn, a)
		}
	}
	if !refused() {
		t.Fatal("taken, and nothing has expired")
	}
	bob.Sync().NoToDevice()
}

// TestPeerClocks: a peer whose clock is wrong, and one whose keys run out.
func TestPeerClocks(t *testing.T) {
	t.Parallel()
	var clock hands
	hs := testserver.Network(t, 1, testserver.Clock(clock.now, nil), testserver.QuietLog())[0]
	peer := testserver.NewPeer(t, hs.Authority(), clock.now())
	bob := hs.Register("bob")
	// What the peer says of the time is not believed, and not needed.
	for i, ts := range []string{"0", "-1", "99999999999999"} {
		body := strings.Replace(peer.Transaction(peer.Direct("u", fmt.Sprint(i), bob, number(i))), `"origin_server_ts":1`, `"origin_server_ts":`+ts, 1)
		if a := peer.Send(hs, "t"+ts, body); a.Status != http.StatusOK {
			t.Fatalf("at %s: got %s", ts, a)
		}
		wantContents(t, bob, number(i))
	}
	// Its key runs out, and it says nothing newer: refused. Then it does.
	peer.ValidUntil(clock.now())
	clock.forward(48 * time.Hour)
	late := peer.Transaction(peer.Direct("u", "late", bob, `{"late":1}`))
	if a := peer.Send(hs, "late", late); a.Status != http.StatusUnauthorized || a.Code() != "M_UNAUTHORIZED" {
		t.Fatalf("with an expired key: got %s, want 401 M_UNAUTHORIZED", a)
	}
	bob.Sync().NoToDevice()
	peer.ValidUntil(clock.now().Add(24 * time.Hour))
	clock.forward(2 * time.Hour) // past the time for which the failure is remembered
	if a := peer.Send(hs, "late", late); a.Status != http.StatusOK {
		t.Fatalf("with a renewed key: got %s", a)
	}
	wantContents(t, bob, `{"late":1}`)
}

func repeat(s string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = s
	}
	return all
}

// bomb is 64 MiB of blanks in 64 KiB.
func bomb(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	blanks := bytes.Repeat([]byte(" "), 1<<20)
	for range 64 {
		if _, err := w.Write(blanks); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
