package keyring

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/remote"
	"hearth/storage/matrix"
)

// signedRequest signs as another server does, by the text of the specification
// and not by our code. Server-Server API, "Request Authentication".
func signedRequest(t *testing.T, origin, dest matrix.ServerName, id string, key ed25519.PrivateKey, method, uri, body string) remote.XMatrix {
	t.Helper()
	request := map[string]any{"method": method, "uri": uri, "origin": origin, "destination": dest}
	if body != "" {
		request["content"] = jsontext.Value(body)
	}
	text, err := json.Marshal(request)
	if err == nil {
		text, err = matrix.SignJSON(text, matrix.Signer{Server: origin, KeyID: matrix.KeyID(id), Key: key})
	}
	var signed struct {
		Signatures map[matrix.ServerName]map[string]string `json:"signatures"`
	}
	if err == nil {
		err = json.Unmarshal(text, &signed)
	}
	if err != nil {
		t.Fatal(err)
	}
	header := fmt.Sprintf(`X-Matrix origin="%s",destination="%s",key="%s",sig="%s"`, origin, dest, id, signed.Signatures[origin][id])
	x, err := remote.ParseAuthorization(header)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestVerifyRequest(t *testing.T) {
	t.Parallel()
	c := newClock()
	p, other := newPeer(c, "peer.test"), newPeer(c, "other.example")
	r := openRing(t, c, newNetwork(p, other))
	const uri, body = "/_matrix/federation/v1/send/1%2F2?a=%20&b", `{"pdus": [], "edus":[{"x":1.5,"ü":"\u00fc"}]}`
	key := p.keys["ed25519:1"]
	good := signedRequest(t, p.name, us, "ed25519:1", key, "PUT", uri, body)
	ours := signedRequest(t, us, us, string(r.Signer().KeyID), r.Signer().Key, "PUT", uri, body)
	for name, k := range map[string]struct {
		x      remote.XMatrix
		change func(*remote.XMatrix)
		method string
		uri    string
		body   string
		want   string // code; empty: it is good
	}{
		"good":                            {x: good},
		"without destination":             {x: good, change: func(x *remote.XMatrix) { x.Destination = "" }},
		"same JSON":                       {x: good, body: `{"edus":[{"ü":"ü","x":1.50}],"pdus":[]}`},
		"for another server":              {x: signedRequest(t, p.name, other.name, "ed25519:1", key, "PUT", uri, body), want: "M_UNAUTHORIZED"},
		"for another server, not named":   {x: signedRequest(t, p.name, other.name, "ed25519:1", key, "PUT", uri, body), change: func(x *remote.XMatrix) { x.Destination = "" }, want: "M_UNAUTHORIZED"},
		"from ourselves":                  {x: ours, want: "M_UNAUTHORIZED"},
		"from another server than signed": {x: good, change: func(x *remote.XMatrix) { x.Origin = other.name }, want: "M_UNAUTHORIZED"},
		"unknown key":                     {x: good, change: func(x *remote.XMatrix) { x.Key = "ed25519:2" }, want: "M_UNAUTHORIZED"},
		"from nowhere":                    {x: good, change: func(x *remote.XMatrix) { x.Origin = "nowhere.example" }, want: "M_UNAUTHORIZED"},
		"other method":                    {x: good, method: "POST", want: "M_UNAUTHORIZED"},
		"other path":                      {x: good, uri: "/_matrix/federation/v1/send/1/2?a=%20&b", want: "M_UNAUTHORIZED"},
		"other query":                     {x: good, uri: "/_matrix/federation/v1/send/1%2F2?a=+&b", want: "M_UNAUTHORIZED"},
		"other body":                      {x: good, body: `{"pdus":[],"edus":[]}`, want: "M_UNAUTHORIZED"},
		"a key twice in the body":         {x: good, body: `{"pdus":[],"pdus":[]}`, want: "M_BAD_JSON"},
		"no JSON":                         {x: good, body: `{"pdus":[]`, want: "M_NOT_JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			x, method, target, content := k.x, "PUT", uri, body
			if k.change != nil {
				k.change(&x)
			}
			if k.method != "" {
				method = k.method
			}
			if k.uri != "" {
				target = k.uri
			}
			if k.body != "" {
				content = k.body
			}
			err := r.VerifyRequest(t.Context(), x, method, target, []byte(content))
			var told *matrix.Error
			if errors.As(err, &told) {
				if string(told.Code) != k.want || told.Code == matrix.Unauthorized && told.Status != 401 {
					t.Errorf("got %v, status %d, want %s", err, told.Status, k.want)
				}
			} else if err != nil || k.want != "" {
				t.Errorf("got %v, want %s", err, k.want)
			}
		})
	}
	get := signedRequest(t, p.name, us, "ed25519:1", key, "GET", "/_matrix/federation/v1/x", "")
	if err := r.VerifyRequest(t.Context(), get, "GET", "/_matrix/federation/v1/x", nil); err != nil {
		t.Errorf("without a body: %v", err)
	}
}

// A request needs a key that its server says it uses now; asked once more, the
// server may say that it still does.
func TestRequestWithExpiredKey(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	r := openRing(t, c, newNetwork(p))
	key := p.keys["ed25519:1"]
	x := signedRequest(t, p.name, us, "ed25519:1", key, "GET", "/", "")
	verify := func() error { return r.VerifyRequest(t.Context(), x, "GET", "/", nil) }
	if err := verify(); err != nil {
		t.Fatal(err)
	}
	c.pass(25 * time.Hour)
	if err := verify(); err != nil || p.timesAsked() != 2 {
		t.Errorf("past valid_until_ts, the server says it anew: %v, asked %d times", err, p.timesAsked())
	}
	p.set(func() { p.down = true })
	c.pass(25 * time.Hour)
	var told *matrix.Error
	if err := verify(); !errors.As(err, &told) || told.Status != 401 {
		t.Errorf("past valid_until_ts, the server is gone: %v", err)
	}
	p.set(func() { p.down = false })
	p.rotate("ed25519:2")
	c.pass(lastBackoff)
	for range 20 {
		if err := verify(); !errors.As(err, &told) || told.Status != 401 {
			t.Errorf("retired: %v", err)
		}
	}
	if n := p.timesAsked(); n > 3+askBurst {
		t.Errorf("asked %d times", n)
	}
}

// A key that is said to be good for years is good for requests only as long as
// the server repeats it; what it signed once is not disowned by its silence.
func TestRequestWithLongLivedKey(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	p.life = 3650 * 24 * time.Hour
	r := openRing(t, c, newNetwork(p))
	x := signedRequest(t, p.name, us, "ed25519:1", p.keys["ed25519:1"], "GET", "/", "")
	if err := r.CheckRequest(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	p.set(func() { p.down = true })
	c.pass(8 * 24 * time.Hour)
	var told *matrix.Error
	if err := r.CheckRequest(t.Context(), x); !errors.As(err, &told) || told.Status != 401 {
		t.Errorf("got %v", err)
	}
	want(t, r, p.name, "ed25519:1", c.now(), p.pub("ed25519:1"), nil)
}

func TestBusyRequest(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	r := openRing(t, c, newNetwork(p))
	x := signedRequest(t, p.name, us, "ed25519:1", p.keys["ed25519:1"], "GET", "/", "")
	r.fetches.mu.Lock()
	r.fetches.taken[stranger] = places[stranger]
	r.fetches.mu.Unlock()
	var told *matrix.Error
	if err := r.CheckRequest(t.Context(), x); !errors.As(err, &told) || told.Code != matrix.LimitExceeded || told.RetryAfter != retryBusy {
		t.Errorf("got %v", err)
	}
	r.fetches.mu.Lock()
	r.fetches.taken[stranger] = 0
	r.fetches.mu.Unlock()
	if err := r.CheckRequest(t.Context(), x); err != nil {
		t.Errorf("once there is place again: %v", err)
	}
}

// landed waits until nothing is being fetched.
func landed(r *Ring) {
	for running := 1; running > 0; {
		r.fetches.mu.Lock()
		running = len(r.fetches.running)
		r.fetches.mu.Unlock()
		runtime.Gosched()
	}
}

// A server that was set up again has another key under the same ID. It is
// asked, and then its requests count and those with the old key do not. A
// signature that is wrong is no way to have it asked all the time.
func TestRequestAfterReinstallation(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	r := openRing(t, c, newNetwork(p))
	verify := func(key ed25519.PrivateKey) error {
		x := signedRequest(t, p.name, us, "ed25519:1", key, "GET", "/", "")
		err := r.VerifyRequest(t.Context(), x, "GET", "/", nil)
		landed(r)
		return err
	}
	old := p.keys["ed25519:1"]
	if err := verify(old); err != nil {
		t.Fatal(err)
	}
	p.set(func() { p.addKey("ed25519:1") })
	var told *matrix.Error
	if err := verify(p.keys["ed25519:1"]); !errors.As(err, &told) || told.Status != 401 {
		t.Errorf("before anybody asked: got %v", err)
	}
	if err := verify(p.keys["ed25519:1"]); err != nil {
		t.Errorf("the server was not asked anew: %v", err)
	}
	for range 20 {
		if err := verify(old); !errors.As(err, &told) || told.Status != 401 {
			t.Errorf("with the old key: got %v", err)
		}
	}
	if n := p.timesAsked(); n > askBurst {
		t.Errorf("asked %d times", n)
	}
}

// A key that its server no longer names makes no requests, but what it signed
// stays good.
func TestRequestWithKeyNoLongerNamed(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	p.life = 3 * 24 * time.Hour
	r := openRing(t, c, newNetwork(p))
	gone := p.keys["ed25519:1"]
	x := signedRequest(t, p.name, us, "ed25519:1", gone, "GET", "/", "")
	if err := r.VerifyRequest(t.Context(), x, "GET", "/", nil); err != nil {
		t.Fatal(err)
	}
	signed := c.now()
	p.set(func() { delete(p.keys, "ed25519:1"); p.addKey("ed25519:2") })
	c.pass(time.Hour)
	x2 := signedRequest(t, p.name, us, "ed25519:2", p.keys["ed25519:2"], "GET", "/", "")
	if err := r.VerifyRequest(t.Context(), x2, "GET", "/", nil); err != nil {
		t.Fatalf("with the new key: %v", err)
	}
	var told *matrix.Error
	if err := r.VerifyRequest(t.Context(), x, "GET", "/", nil); !errors.As(err, &told) || told.Status != 401 {
		t.Errorf("with the key that is gone: got %v", err)
	}
	want(t, r, p.name, "ed25519:1", signed, public(gone), nil)
}
