package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"hearth/server/web"
	"hearth/storage"
)

// pipes is a listener of connections without any buffer: what is written has
// been read by the other side.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// dialer serves a kernel on pipes and returns how to connect.
func dialer(t *testing.T) func() net.Conn {
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: newKernel(t, web.Options{}).Config.Handler}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(p) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	return func() net.Conn {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _ = ours.Close() })
		p.conns <- theirs
		return ours
	}
}

// TestRefusedWhileSending: a client that sends its whole body before it reads
// learns why it was refused, and may go on with the next request.
func TestRefusedWhileSending(t *testing.T) {
	t.Parallel()
	dial := dialer(t)
	const size = 600 << 10 // net/http alone reads no more than 256 KiB
	long := strings.Repeat("x", size)
	sized := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", size, long)
	chunked := fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", size, long)
	for _, tt := range []struct {
		name, head, body string
		status           int
	}{
		{"announced", "PUT " + put + "t/1", sized, 413},
		{"chunked", "PUT " + put + "t/1", chunked, 413},
		{"no token", "PUT " + put + "t/1", sized, 401},
		{"no endpoint", "POST /nothing", sized, 404},
	} {
		conn := dial()
		token := "Authorization: Bearer good\r\n"
		if tt.status == 401 {
			token = ""
		}
		if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: t\r\n%s%s", tt.head, token, tt.body); err != nil {
			t.Errorf("%s: the body was not taken: %v", tt.name, err)
			continue
		}
		in := bufio.NewReader(conn)
		wantStatus(t, tt.name, in, tt.status, false)
		go func() { _, _ = fmt.Fprint(conn, "GET /health HTTP/1.1\r\nHost: t\r\n\r\n") }()
		wantStatus(t, tt.name+", next request", in, 200, false)
	}
}

// wantStatus reads an answer, and whether the connection ends with it.
func wantStatus(t *testing.T, what string, in *bufio.Reader, status int, closes bool) {
	t.Helper()
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	_, err = io.Copy(io.Discard, res.Body)
	if res.StatusCode != status || res.Close != closes || err != nil {
		t.Errorf("%s: got %d, closes %v, %v; want %d, closes %v", what, res.StatusCode, res.Close, err, status, closes)
	}
	_ = res.Body.Close()
}

// TestRefusedWithoutReading: what is not worth reading to its end is answered
// all the same, and the connection ends.
func TestRefusedWithoutReading(t *testing.T) {
	t.Parallel()
	dial := dialer(t)
	head := func(length int, more string) string {
		return fmt.Sprintf("PUT %st/1 HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer good\r\nContent-Length: %d\r\n%s\r\n", put, length, more)
	}
	for name, sent := range map[string]string{
		"a body that never comes":  head(600<<10, ""),
		"one that is far too long": head(5<<20, "") + strings.Repeat("x", 5<<20),
		"one that awaits a go":     head(600<<10, "Expect: 100-continue\r\n"), // an answer of 100 would be taken for the one
	} {
		conn := dial()
		go func() { _, _ = fmt.Fprint(conn, sent) }() // breaks off when the connection ends
		wantStatus(t, name, bufio.NewReader(conn), 413, true)
	}
}

// TestHead: what can be got can be asked about, and the answer has no body.
func TestHead(t *testing.T) {
	t.Parallel()
	s := newKernel(t, web.Options{},
		web.Route{Method: "GET", Path: "/long", Handler: answers(written{n: 100_000}, nil)},
		web.Route{Method: "GET", Path: "/stream", Handler: web.PublicStream(func(w http.ResponseWriter, _ *http.Request, _ *web.Call) error {
			_, err := io.WriteString(w, "streamed")
			return err
		})})
	for path, length := range map[string]int64{
		"/health": 15, "/long": -1, "/stream": 8, "/_matrix/client/v3/devices/D": 31, "/nothing": 59,
	} {
		want, text := do(t, s, http.MethodGet, path, "")
		res, body := do(t, s, http.MethodHead, path, "")
		if res.StatusCode != want.StatusCode || body != "" || text == "" || res.ContentLength != length && length >= 0 {
			t.Errorf("HEAD %s: got %d, %q, length %d; GET has %d, %d bytes", path, res.StatusCode, body, res.ContentLength, want.StatusCode, len(text))
		}
		if got, want := res.Header.Get("Content-Type"), want.Header.Get("Content-Type"); got != want {
			t.Errorf("HEAD %s: content type %q, want %q", path, got, want)
		}
	}
	if res, _ := do(t, s, http.MethodHead, put+"t/1", ""); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("HEAD of what has no GET: %d", res.StatusCode)
	}
}

// steps is a clock that stands still until it is told.
type steps struct{ seconds atomic.Int64 }

func (s *steps) now() time.Time { return time.Unix(1_700_000_000+s.seconds.Load(), 0) }
func (s *steps) step()          { s.seconds.Add(1) }

// TestFailuresAreLoggedBounded: what fails again and again fills no disk with
// lines, and what the store reports itself has none at all.
func TestFailuresAreLoggedBounded(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.ErrorLevel)
	clock := &steps{}
	fail := func(err error) web.Handler {
		return web.Public(func(context.Context, *web.Call, web.NoBody) (web.Empty, error) { return web.Empty{}, err })
	}
	s := newKernel(t, web.Options{Log: zap.New(core), Now: clock.now},
		web.Route{Method: "GET", Path: "/fails", Handler: fail(errors.New("boom"))},
		web.Route{Method: "GET", Path: "/full", Handler: fail(fmt.Errorf("put: %w", storage.ErrReadOnly))})
	count := func(path string, n int) int {
		t.Helper()
		for range n {
			if res, _ := do(t, s, http.MethodGet, path, ""); res.StatusCode != 500 {
				t.Fatalf("%s: %d", path, res.StatusCode)
			}
		}
		return len(logs.TakeAll())
	}
	if n := count("/full", 50); n != 0 {
		t.Errorf("%d lines of what the store has told", n)
	}
	if n := count("/fails", 50); n != 20 {
		t.Errorf("%d lines of 50 failures at once, want 20", n)
	}
	clock.step()
	do(t, s, http.MethodGet, "/fails", "")
	lines := logs.TakeAll()
	if len(lines) != 1 || lines[0].ContextMap()["unlogged"] != int64(30) {
		t.Errorf("a second later: %v", lines)
	}
}
