package web_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"hearth/server/web"
)

func TestMain(m *testing.M) {
	// net/http keeps a connection that it has refused for half a second.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

func TestTokens(t *testing.T) {
	t.Parallel()
	s := newKernel(t, web.Options{})
	const path = "/_matrix/client/v3/devices/D"
	for _, tt := range []struct {
		name, query, header string
		status              int
		want                string
	}{
		{"header", "", "Authorization: Bearer good", 200, ""},
		{"lower case", "", "authorization: bearer good", 200, ""},
		{"query", "?access_token=good", "X: y", 200, ""},
		{"header wins", "?access_token=bad", "Authorization: Bearer good", 200, ""},
		{"other scheme beside query", "?access_token=good", "Authorization: Basic x", 200, ""},
		{"none", "", "X: y", 401, "M_MISSING_TOKEN"},
		{"empty", "?access_token=", "Authorization: Bearer", 401, "M_MISSING_TOKEN"},
		{"other scheme", "", "Authorization: Basic good", 401, "M_MISSING_TOKEN"},
		{"unknown", "", "Authorization: Bearer bad", 401, "M_UNKNOWN_TOKEN"},
		{"unknown in query", "?access_token=bad", "X: y", 401, "M_UNKNOWN_TOKEN"},
	} {
		res, body := rawDo(t, s, "GET", path+tt.query, "", tt.header)
		if res.StatusCode != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s: got %d %s, want %d %s", tt.name, res.StatusCode, body, tt.status, tt.want)
		}
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	s := newKernel(t, web.Options{},
		web.Route{Method: "GET", Path: "/panic", Handler: answersPanic()})
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"OPTIONS", "/_matrix/client/v3/devices/D", 204},
		{"OPTIONS", "/nothing", 204},
		{"GET", "/nothing", 404},
		{"POST", "/_matrix/client/v3/devices/D", 405},
		{"GET", "/_matrix/client/versions", 200},
		{"PUT", put + "a/1", 400},
		{"GET", "/panic", 500},
	} {
		res, _ := do(t, s, tt.method, tt.path, "")
		if res.StatusCode != tt.status || res.Header.Get("Access-Control-Allow-Origin") != "*" ||
			!strings.Contains(res.Header.Get("Access-Control-Allow-Methods"), "PUT") ||
			!strings.Contains(res.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("%s %s: got %d %v", tt.method, tt.path, res.StatusCode, res.Header)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	s := newKernel(t, web.Options{})
	seen := map[string]bool{}
	for _, tt := range []struct {
		sent  string
		taken bool
	}{{"", false}, {"", false}, {"abc-1.2:3", true}, {"a b", false}, {"<x>", false}, {strings.Repeat("x", 65), false}} {
		res, _ := do(t, s, "GET", "/health", "", "X-Request-Id", tt.sent)
		got := res.Header.Get("X-Request-Id")
		if got == "" || seen[got] || (got == tt.sent) != tt.taken {
			t.Errorf("sent %q, got %q", tt.sent, got)
		}
		seen[got] = true
	}
}

func answersPanic() web.Handler {
	return web.Public(func(context.Context, *web.Call, web.NoBody) (web.Empty, error) { panic("at the disco") })
}

func TestPanicFailsOneRequest(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.ErrorLevel)
	s := newKernel(t, web.Options{Log: zap.New(core)},
		web.Route{Method: "GET", Path: "/panic", Handler: answersPanic()},
		web.Route{Method: "GET", Path: "/panic-late", Handler: web.PublicStream(func(w http.ResponseWriter, _ *http.Request, _ *web.Call) error {
			_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
			panic("too late")
		})})
	res, body := do(t, s, "GET", "/panic", "")
	if want := `{"errcode":"M_UNKNOWN","error":"Internal server error"}`; res.StatusCode != 500 || body != want {
		t.Errorf("got %d %s, want 500 %s", res.StatusCode, body, want)
	}
	if err := getErr(t, s, "/panic-late"); err == nil {
		t.Error("half a response looks whole")
	}
	if res, _ := do(t, s, "GET", "/health", ""); res.StatusCode != 200 {
		t.Errorf("the next request got %d", res.StatusCode)
	}
	entries := logs.FilterMessage("panic in a request").All()
	if len(entries) != 2 || logs.Len() != 2 {
		t.Fatalf("got %d lines, %v", logs.Len(), logs.All())
	}
	if stack, _ := entries[0].ContextMap()["stack"].(string); !strings.Contains(stack, "answersPanic") {
		t.Errorf("the stack does not show where: %s", stack)
	}
}

func TestRateLimits(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	opt := web.Options{
		Now:            func() time.Time { return time.UnixMilli(now.Load()) },
		Limits:         map[string]web.Limit{"sending": {PerSecond: 0.5, Burst: 2}, "login": {PerSecond: 1, Burst: 1}},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}
	s := newKernel(t, opt,
		web.Route{Method: "POST", Path: "/send", Limit: web.LimitSending, Handler: web.Authed(empty)},
		web.Route{Method: "POST", Path: "/login", Limit: web.LimitLogin, Handler: web.Public(empty)})
	want := func(status int, path, ip string) (*http.Response, string) {
		t.Helper()
		res, body := do(t, s, "POST", path, "", "X-Forwarded-For", ip)
		if res.StatusCode != status {
			t.Errorf("%s from %s: got %d %s, want %d", path, ip, res.StatusCode, body, status)
		}
		return res, body
	}
	want(200, "/send", "192.0.2.1")
	want(200, "/send", "192.0.2.2")
	res, body := want(429, "/send", "192.0.2.3") // by user, not by address
	if wantBody := `{"errcode":"M_LIMIT_EXCEEDED","error":"Too many requests","retry_after_ms":2000}`; body != wantBody || res.Header.Get("Retry-After") != "2" {
		t.Errorf("got %s, Retry-After %q, want %s", body, res.Header.Get("Retry-After"), wantBody)
	}
	now.Add(1999)
	want(429, "/send", "")
	now.Add(1)
	want(200, "/send", "")
	want(429, "/send", "")

	want(200, "/login", "192.0.2.1")
	want(429, "/login", "192.0.2.1")
	want(429, "/login", "203.0.113.9, 192.0.2.1") // what the client wrote itself does not count
	want(200, "/login", "192.0.2.2")
	want(200, "/login", "2001:db8::1")
	want(429, "/login", "2001:db8::2") // one customer
	want(200, "/login", "2001:db8:0:1::1")
}

func TestUntrustedProxy(t *testing.T) {
	t.Parallel()
	ips := make(chan string, 2)
	route := web.Route{Method: "GET", Path: "/ip", Handler: web.Public(func(_ context.Context, c *web.Call, _ web.NoBody) (web.Empty, error) {
		ips <- c.RemoteIP
		return web.Empty{}, nil
	})}
	s := newKernel(t, web.Options{}, route)
	do(t, s, "GET", "/ip", "", "X-Forwarded-For", "192.0.2.1")
	if got := <-ips; got != "127.0.0.1" {
		t.Errorf("a stranger's X-Forwarded-For was believed: %s", got)
	}
}

func TestAccessLogTellsNoSecrets(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(zapcore.AddSync(&out)), zapcore.DebugLevel))
	s := newKernel(t, web.Options{Log: log},
		web.Route{Method: "GET", Path: "/fails", Handler: answers(nil, errors.New("disk on fire"))})
	const secret = "hunter2"
	do(t, s, "PUT", put+"m.test/1?q="+secret+"&access_token="+secret, `{"messages":{},"s":"`+secret+`"}`, "X-Secret", secret)
	do(t, s, "GET", "/_matrix/client/v3/devices/D?access_token="+secret, "", "Authorization", "Bearer "+secret)
	do(t, s, "GET", "/fails?q="+secret, "")
	do(t, s, "GET", "/nothing?q="+secret, "")
	s.Close()
	text := out.String()
	if strings.Contains(text, secret) {
		t.Errorf("the log tells a secret: %s", text)
	}
	for _, want := range []string{`"route":"/_matrix/client/v3/sendToDevice/{eventType}/{txnId}"`, `"user":"@a:test"`,
		`"errcode":"M_UNKNOWN_TOKEN"`, `"level":"error"`, "disk on fire", `"path":"/nothing"`, `"request_id"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log does not tell %s: %s", want, text)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	s := newKernel(t, web.Options{Health: func(context.Context) error { return errors.New("disk full") }})
	res, body := do(t, s, "GET", "/health", "")
	if res.StatusCode != 503 || body != `{"status":"degraded"}` {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
}

// TestSlowClients: one who sends no body and one who reads no response are let
// go, while a poll that waits longer than both are given is answered.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	cut := make(chan error, 1)
	release := make(chan struct{})
	waiting := make(chan struct{})
	s := newKernel(t, web.Options{BodyTimeout: 30 * time.Millisecond, WriteTimeout: 30 * time.Millisecond},
		web.Route{Method: "POST", Path: "/poll", Handler: web.Authed(func(ctx context.Context, _ *web.Call, _ struct{}) (web.Empty, error) {
			close(waiting)
			select {
			case <-release:
				return web.Empty{}, nil
			case <-ctx.Done():
				return web.Empty{}, ctx.Err()
			}
		})},
		web.Route{Method: "GET", Path: "/endless", Handler: web.PublicStream(func(w http.ResponseWriter, _ *http.Request, _ *web.Call) error {
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					cut <- err
					return nil
				}
			}
		})})
	polled := make(chan int, 1)
	go func() {
		res, _ := do(t, s, "POST", "/poll", "{}")
		polled <- res.StatusCode
	}()
	<-waiting

	reader := dial(t, s)
	fmt.Fprint(reader, "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
	if err := <-cut; !isTimeout(err) {
		t.Errorf("the slow reader ended with %v", err)
	}
	sender := dial(t, s)
	fmt.Fprintf(sender, "PUT %sa/1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\nContent-Length: 100\r\n\r\n{", put)
	res, err := http.ReadResponse(bufio.NewReader(sender), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusRequestTimeout || !res.Close {
		t.Errorf("the slow sender got %d, close %v", res.StatusCode, res.Close)
	}
	close(release)
	if got := <-polled; got != 200 {
		t.Errorf("the long poll got %d", got)
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func dial(t *testing.T, s *httptest.Server) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
