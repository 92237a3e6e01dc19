package acceptance

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"hearth/server/config"
	"hearth/server/testserver"
	"hearth/storage/matrix"
	"hearth/storage/storagetest/faultvfs"
)

// testDurable is T1.
func testDurable(t *testing.T) {
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	tablet := hs.Login("bob")
	bob.Sync()
	for i := range 20 {
		m := testserver.Messages{
			bob.UserID:                {"*": number(i)},
			"@carol:elsewhere.test":   {"*": number(i)},
			"@dora:elsewhere.test":    {"PHONE": number(i)},
			"@erna:somewhere.test:80": {"PHONE": number(i)},
		}
		alice.SendToDevices("m.test", fmt.Sprint(i), m)
		hs.Crash() // right after the 200: nothing else gave it a reason to be on disk
		bob.Sync().HasToDevice("m.test", number(i))
		tablet.Sync().HasToDevice("m.test", number(i))
		if got := len(queued(t, hs)); got != 2*(i+1) {
			t.Fatalf("%d EDUs in the outbox after %d requests, want two of each", got, i+1)
		}
		alice.SendToDevices("m.test", fmt.Sprint(i), m) // the transaction is recorded
		bob.Sync().NoToDevice()
		if got := len(queued(t, hs)); got != 2*(i+1) {
			t.Fatalf("%d EDUs after the retry of request %d", got, i+1)
		}
	}
}

// testOneUnit is T3, as far as HTTP shows it: a sender whose device is deleted
// between authentication and write sends nothing. That a failure anywhere in
// the unit leaves nothing is T2.
func testOneUnit(t *testing.T) {
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	for i := range 10 {
		phone := hs.Login("alice")
		req := startRequest(t, hs, phone, testserver.ToDevicePath("m.test", fmt.Sprint(i)),
			testserver.Messages{
				bob.UserID:              {"*": number(i)},
				"@carol:elsewhere.test": {"*": number(i)},
			}.Body())
		phone.Must(http.MethodPost, "/_matrix/client/v3/logout", `{}`)
		if status, code := req.finish(); status != http.StatusUnauthorized || code != matrix.UnknownToken {
			t.Fatalf("got %d %s, want 401 M_UNKNOWN_TOKEN", status, code)
		}
		bob.Sync().NoToDevice()
		if got := queued(t, hs); len(got) != 0 {
			t.Fatalf("%d EDUs of a device that was gone", len(got))
		}
	}
	alice.SendToDevice("m.test", bob, `{}`)
	bob.Sync().HasToDevice("m.test", `{}`)
}

// halfRequest is a request whose header the server has read and authenticated,
// and whose body it now waits for.
type halfRequest struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
	body string
}

// startRequest sends a request's header and waits for the server to ask for the
// body, which it does after authentication.
func startRequest(t *testing.T, hs *testserver.Server, c *testserver.Client, path, body string) *halfRequest {
	t.Helper()
	addr := strings.TrimPrefix(hs.URL(), "http://")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		path, addr, c.Token.Reveal(), len(body))
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for want := "HTTP/1.1 100 Continue"; ; want = "" {
		line, err := r.ReadString('\n')
		if line = strings.TrimSpace(line); err != nil || want != "" && line != want {
			t.Fatalf("got %q, %v, want %q", line, err, want)
		}
		if line == "" {
			return &halfRequest{t: t, conn: conn, r: r, body: body}
		}
	}
}

// finish sends the body and reads the answer.
func (h *halfRequest) finish() (status int, code matrix.Code) {
	h.t.Helper()
	if _, err := h.conn.Write([]byte(h.body)); err != nil {
		h.t.Fatal(err)
	}
	resp, err := http.ReadResponse(h.r, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	a := &testserver.Answer{Status: resp.StatusCode, Body: readAll(h.t, resp.Body)}
	return a.Status, a.Code()
}

// testFederationDisabled is T11.
func testFederationDisabled(t *testing.T) {
	hs := testserver.New(t, testserver.Config(func(c *config.Config) { c.Security.Federation.Enabled = false }))
	alice, bob := hs.Register("alice"), hs.Register("bob")
	m := testserver.Messages{
		bob.UserID:              {"*": `{"n":1}`},
		"@carol:elsewhere.test": {"*": fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 70_000))},
	}
	alice.SendToDevices("m.test", "1", m)
	alice.SendToDevices("m.test", "1", m)
	wantContents(t, bob, `{"n":1}`)
	if got := queued(t, hs); len(got) != 0 {
		t.Fatalf("%d EDUs queued though federation is disabled", len(got))
	}
}

// testPositionsRise is T13: after a crash, a failed commit and a restored
// backup, what is new comes after every token that was ever handed out.
func testPositionsRise(t *testing.T) {
	disk, err := faultvfs.New()
	if err != nil {
		t.Fatal(err)
	}
	hs := testserver.New(t, testserver.VFS(disk.Name()), testserver.QuietLog())
	alice, bob := hs.Register("alice"), hs.Register("bob")
	highest := int64(0)
	next := func(what string) {
		t.Helper()
		alice.SendToDevice("m.test", bob, fmt.Sprintf(`{"after":%q}`, what))
		bob.Sync().HasToDevice("m.test", fmt.Sprintf(`{"after":%q}`, what))
		pos := position(t, bob.Since())
		if pos <= highest {
			t.Fatalf("after %s: position %d, but %d was handed out before", what, pos, highest)
		}
		highest = pos
	}
	for range 5 {
		next("start")
		hs.Restart()
		next("restart")
		hs.Crash()
		next("crash")
		failCommit(t, hs, disk, alice, bob)
		next("a failed commit")
	}
	backup := hs.Backup()
	next("backup")
	old := bob.Since()
	hs.Restore(backup)
	alice.SendToDevice("m.test", bob, `{"n":1}`)
	// The old token is of a history that is gone: a full sync, nothing acknowledged.
	for range 2 {
		bob.Rewind(old)
		if s := bob.Sync(); s.Raw["device_lists"] != nil || !strings.HasSuffix(contents(s.ToDevice.Events), `{"n":1}`) {
			t.Fatalf("got %s, device lists %s", contents(s.ToDevice.Events), s.Raw["device_lists"])
		}
	}
	bob.Drain()
	next("restoring a backup")
}
