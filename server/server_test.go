package server_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"

	"hearth/server"
	"hearth/server/config"
	"hearth/storage"
	"hearth/storage/matrix"
)

func TestMain(m *testing.M) {
	// net/http keeps a connection that it has refused for half a second.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// testConfig is a server on a free port with open registration.
func testConfig(t *testing.T) config.Config {
	t.Helper()
	cfg := config.Default()
	cfg.Server.Name = "test"
	cfg.Server.DataDir = filepath.Join(t.TempDir(), "data")
	cfg.Listen.Client = []string{"127.0.0.1:0"}
	cfg.Registration.Mode = "open"
	cfg.RateLimits.Enabled = false
	return cfg
}

// running is a server that runs until stop.
type running struct {
	*server.Server
	client *http.Client
	url    string
	cancel context.CancelFunc
	done   chan error
}

func start(t *testing.T, cfg config.Config) *running {
	t.Helper()
	srv, err := server.Open(t.Context(), cfg, zaptest.NewLogger(t, zaptest.Level(zapcore.ErrorLevel)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &running{Server: srv, client: &http.Client{Transport: &http.Transport{}}, cancel: cancel, done: make(chan error, 1)}
	r.url = "http://" + srv.Addrs().Client[0]
	go func() { r.done <- srv.Run(ctx) }()
	t.Cleanup(func() { r.stop(t) })
	return r
}

// stop ends the server as a signal would, and closes it.
func (r *running) stop(t *testing.T) {
	t.Helper()
	if r.done == nil {
		return
	}
	r.cancel()
	err := <-r.done
	r.done = nil
	r.client.CloseIdleConnections()
	if err := errors.Join(err, r.Close()); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// do sends a request and decodes the answer into a map.
func (r *running) do(t *testing.T, method, path, token, body string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	out := map[string]any{}
	if err := json.UnmarshalRead(res.Body, &out); err != nil {
		t.Fatalf("%s %s: %d: %v", method, path, res.StatusCode, err)
	}
	return res.StatusCode, out
}

// register makes a user and returns its access token.
func (r *running) register(t *testing.T, name string) string {
	t.Helper()
	status, out := r.do(t, "POST", "/_matrix/client/v3/register", "", `{"username":"`+name+`","password":"correct horse","auth":{"type":"m.login.dummy"}}`)
	token, ok := out["access_token"].(string)
	if status != 200 || !ok {
		t.Fatalf("register: %d %v", status, out)
	}
	return token
}

func TestServesAndStops(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Listen.Federation = []string{"127.0.0.1:0"}
	r := start(t, cfg)
	if status, out := r.do(t, "GET", "/health", "", ""); status != 200 || out["status"] != "ok" {
		t.Errorf("/health: %d %v", status, out)
	}
	if status, _ := r.do(t, "GET", "/_matrix/client/versions", "", ""); status != 200 {
		t.Errorf("/versions: %d", status)
	}
	if status, out := r.do(t, "GET", "/_matrix/client/v3/sync", "", ""); status != 401 || out["errcode"] != "M_MISSING_TOKEN" {
		t.Errorf("/sync: %d %v", status, out)
	}
	r.url = "http://" + r.Addrs().Federation[0]
	if status, out := r.do(t, "GET", "/_matrix/client/versions", "", ""); status != 404 || out["errcode"] != "M_UNRECOGNIZED" {
		t.Errorf("client API on the federation listener: %d %v", status, out)
	}
	r.stop(t)
	if entries, _ := filepath.Glob(filepath.Join(cfg.Server.DataDir, "control*")); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// TestShutdown: a long poll is answered at once, and a request that has begun
// is finished.
func TestShutdown(t *testing.T) {
	t.Parallel()
	r := start(t, testConfig(t))
	token := r.register(t, "alice")
	_, first := r.do(t, "GET", "/_matrix/client/v3/sync", token, "")
	since, _ := first["next_batch"].(string)

	polled := make(chan string, 1)
	go func() {
		status, out := r.do(t, "GET", "/_matrix/client/v3/sync?timeout=170000&since="+since, token, "")
		polled <- fmt.Sprint(status, out["next_batch"])
	}()
	// A request whose body is still under way: the server has asked for it.
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", r.Addrs().Client[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	body := `{"display_name":"slow"}`
	fmt.Fprintf(conn, "POST /_matrix/client/v3/user/@alice:test/filter HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", token, len(body))
	answers := bufio.NewReader(conn)
	asked, err := http.ReadResponse(answers, nil)
	if err != nil || asked.StatusCode != http.StatusContinue {
		t.Fatalf("the body was not asked for: %v, %v", asked, err)
	}
	_ = asked.Body.Close()
	waitFor(t, func() bool { return r.Store().Stats().Waiters == 1 })
	r.cancel()
	if got := <-polled; got != fmt.Sprint(200, since) {
		t.Errorf("the long poll got %s, want 200 %s", got, since)
	}
	fmt.Fprint(conn, body)
	res, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatalf("the running request: %v", err)
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || res.StatusCode != 200 || !strings.Contains(string(text), "filter_id") {
		t.Errorf("the running request got %d %s, %v", res.StatusCode, text, err)
	}
	r.stop(t)
}

// waitFor polls what has no event to wait for.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("gave up waiting")
		}
	}
}

func TestOneServerPerDirectory(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	start(t, cfg)
	_, err := server.Open(t.Context(), cfg, nil)
	if !errors.Is(err, storage.ErrLocked) {
		t.Errorf("got %v, want %v", err, storage.ErrLocked)
	}
}

// TestOpenFailsWhole: a listener that cannot be bound leaves nothing open.
func TestOpenFailsWhole(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listen.Client = append(cfg.Listen.Client, l.Addr().String())
	if _, err := server.Open(t.Context(), cfg, nil); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Fatalf("got %v, want an error that names %s", err, l.Addr())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, cfg) // the directory is free again
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Metrics.Listen = "127.0.0.1:0"
	r := start(t, cfg)
	r.register(t, "alice")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Addrs().Metrics+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`hearth_http_requests_total{code="200",method="POST",route="/_matrix/client/v3/register"} 1`,
		"hearth_store_units_total ", "hearth_store_write_seconds_bucket{le=", "hearth_inbox_evicted_total 0", "go_goroutines",
		"hearth_inbound_transactions_total 0", "hearth_outbox_given_up_total 0", "hearth_outbox_items 0",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

func TestUnixListener(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "hearth") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg, path := testConfig(t), filepath.Join(dir, "s")
	cfg.Listen.Client = []string{"unix:" + path}
	// A socket that a crash left behind.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	r := start(t, cfg)
	if got, want := r.Addrs().Client[0], "unix:"+path; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var d net.Dialer
	r.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, "unix", path)
	}
	r.url = "http://unix"
	if status, _ := r.do(t, "GET", "/_matrix/client/versions", "", ""); status != 200 {
		t.Errorf("got %d", status)
	}
	other := testConfig(t)
	other.Listen.Client = cfg.Listen.Client
	if _, err := server.Open(t.Context(), other, nil); err == nil {
		t.Error("two servers on one socket")
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	pool := x509.NewCertPool()
	cfg.TLS.Cert, cfg.TLS.Key = writeCertificate(t, pool)
	r := start(t, cfg)
	tr := r.client.Transport.(*http.Transport)
	tr.TLSClientConfig, tr.ForceAttemptHTTP2 = &tls.Config{RootCAs: pool}, true
	r.url = "https://" + r.Addrs().Client[0]
	if status, _ := r.do(t, "GET", "/_matrix/client/versions", "", ""); status != 200 {
		t.Errorf("got %d", status)
	}
	token := r.register(t, "alice") // a body over HTTP/2
	if status, _ := r.do(t, "GET", "/_matrix/client/v3/account/whoami", token, ""); status != 200 {
		t.Errorf("whoami: got %d", status)
	}
	bad := testConfig(t)
	bad.TLS.Cert, bad.TLS.Key = cfg.TLS.Key, cfg.TLS.Cert
	if _, err := server.Open(t.Context(), bad, nil); err == nil || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("got %v", err)
	}
}

func writeCertificate(t *testing.T, pool *x509.CertPool) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool.AppendCertsFromPEM(certPEM)
	if err := errors.Join(os.WriteFile(cert, certPEM, 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600)); err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// TestAdmin runs the commands against a running server and against its data.
func TestAdmin(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Registration.Mode = "closed"
	if _, err := server.Attach(t.Context(), cfg, nil); err == nil {
		t.Fatal("attached to nothing")
	}
	r := start(t, cfg)
	first, err := r.FirstRunToken(t.Context())
	if err != nil || first == "" {
		t.Fatalf("first-run token %q, %v", first.Reveal(), err)
	}
	useAdmin(t, cfg, "online")
	status, out := r.do(t, "POST", "/_matrix/client/v3/login", "",
		`{"type":"m.login.password","identifier":{"type":"m.id.user","user":"online"},"password":"another password"}`)
	if status != 200 {
		t.Errorf("log in: %d %v", status, out)
	}
	if again, err := r.FirstRunToken(t.Context()); err != nil || again != "" {
		t.Errorf("with an administrator there is a first-run token, %v", err)
	}
	r.stop(t)
	useAdmin(t, cfg, "offline")
}

func useAdmin(t *testing.T, cfg config.Config, name string) {
	t.Helper()
	a, err := server.Attach(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx := t.Context()
	id, err := a.AddUser(ctx, server.NewUser{Name: name, Password: "some password", Admin: true})
	if want := matrix.UserID("@" + name + ":test"); err != nil || id != want {
		t.Fatalf("got %s, %v, want %s", id, err, want)
	}
	for _, u := range []server.NewUser{{Name: name, Password: "some password"}, {Name: "@x:elsewhere", Password: "some password"}, {Name: "x y", Password: "some password"}, {Name: "x", Password: "short"}} {
		if id, err := a.AddUser(ctx, u); err == nil {
			t.Errorf("%s: made %s", u.Name, id)
		}
	}
	var seen []server.User
	if err := a.ListUsers(ctx, func(u server.User) { seen = append(seen, u) }); err != nil {
		t.Fatal(err)
	}
	if last := seen[len(seen)-1]; last.ID != id || !last.Admin || last.Deactivated || last.Created.Year() < 2020 {
		t.Errorf("got %+v", last)
	}
	if err := a.ResetPassword(ctx, server.NewPassword{Name: name, Password: "another password", Logout: true}); err != nil {
		t.Error(err)
	}
	if err := a.ResetPassword(ctx, server.NewPassword{Name: "nobody", Password: "another password"}); err == nil || !strings.Contains(err.Error(), "@nobody:test") {
		t.Errorf("got %v", err)
	}
	token, err := a.AddToken(ctx, server.NewToken{Uses: 3, Lifetime: config.Duration(time.Hour)})
	if err != nil || token == "" {
		t.Fatalf("got %q, %v", token, err)
	}
	list, err := a.ListTokens(ctx)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, got := range list {
		if got.Token == token {
			found = got.Allowed == 3 && got.Used == 0 && got.Valid && got.ExpiresIn > config.Duration(59*time.Minute)
		}
	}
	if !found {
		t.Errorf("%+v does not hold %s", list, token)
	}
	if err := a.RevokeToken(ctx, token); err != nil {
		t.Error(err)
	}
	if err := a.RevokeToken(ctx, token); err == nil {
		t.Error("revoked a token twice")
	}
}

// TestControlNeedsTheSecret: whoever cannot read the file cannot give orders.
func TestControlNeedsTheSecret(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	r := start(t, cfg)
	file := filepath.Join(cfg.Server.DataDir, "control.json")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("control file: %v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var c struct{ Network, Address, Secret string }
	if err := json.Unmarshal(text, &c, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	var d net.Dialer
	r.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, c.Network, c.Address)
	}
	r.url = "http://control"
	for token, want := range map[string]int{"": 403, "wrong": 403, c.Secret: 200} {
		if status, out := r.do(t, "POST", "/token-list", token, "{}"); status != want {
			t.Errorf("with %q: got %d %v, want %d", token, status, out, want)
		}
	}
	if status, _ := r.do(t, "POST", "/no-such", c.Secret, "{}"); status != 404 {
		t.Errorf("unknown command: %d", status)
	}
}
