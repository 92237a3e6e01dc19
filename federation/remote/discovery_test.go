package remote

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"hearth/storage/matrix"
)

// names is a resolver that knows what a test tells it. Every address it gives
// is made up; world.dial leads all of them to one listener.
type names struct {
	hosts map[string]string     // host to address
	srv   map[string][]*net.SRV // "_service._tcp.name" to records
	fail  map[string]error      // look-ups that fail
	mu    sync.Mutex            // guards asked
	asked []string              // hosts and services, in order
}

func (n *names) note(what string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, what)
	return n.fail[what]
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if err := n.note(host); err != nil {
		return nil, err
	}
	if a, ok := n.hosts[host]; ok {
		return []netip.Addr{netip.MustParseAddr(a)}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (n *names) LookupSRV(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	key := "_" + service + "._" + proto + "." + name
	if err := n.note(key); err != nil {
		return "", nil, err
	}
	if r, ok := n.srv[key]; ok {
		return name, r, nil
	}
	return "", nil, &net.DNSError{Err: "no such host", Name: key, IsNotFound: true}
}

// seen is what arrived at a listener of the made-up network.
type seen struct{ Addr, SNI, Host, Path string }

// world is a network of made-up addresses, all of which lead to one TLS
// server that has a certificate for whatever name is asked of it.
type world struct {
	*names
	client *Client
	now    time.Time

	mu       sync.Mutex // guards what follows
	seen     []seen
	dialed   []string
	answers  map[string]http.HandlerFunc // host to /.well-known/matrix/server
	certFor  func(name string) string
	federate http.HandlerFunc
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		names:   &names{hosts: map[string]string{}, srv: map[string][]*net.SRV{}, fail: map[string]error{}},
		now:     time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		answers: map[string]http.HandlerFunc{},
		certFor: func(name string) string { return name },
	}
	ca := newAuthority(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	via := sync.Map{} // the client's local address to the made-up address it dialled
	srv := &http.Server{
		Handler:           http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.serve(rw, r, &via) }),
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // handshakes that are meant to fail
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			name := h.ServerName
			if name == "" { // an IP address was dialled
				addr, _ := via.Load(h.Conn.RemoteAddr().String())
				name, _, _ = net.SplitHostPort(addr.(string))
			}
			return ca.issue(t, w.certFor(name)), nil
		}},
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.client, err = New(Options{
		Server:   "us.example",
		Signer:   func() matrix.Signer { return matrix.Signer{Server: "us.example", KeyID: "ed25519:1", Key: key} },
		CAFile:   ca.file,
		Resolver: w.names,
		Now:      func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	w.client.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		w.mu.Lock()
		w.dialed = append(w.dialed, addr)
		w.mu.Unlock()
		conn, err := (&net.Dialer{}).DialContext(ctx, network, l.Addr().String())
		if err == nil {
			via.Store(conn.LocalAddr().String(), addr)
		}
		return conn, err
	}
	return w
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request, via *sync.Map) {
	addr, _ := via.Load(r.RemoteAddr)
	w.mu.Lock()
	w.seen = append(w.seen, seen{addr.(string), r.TLS.ServerName, r.Host, r.URL.Path})
	answer, fed := w.answers[r.Host], w.federate
	w.mu.Unlock()
	switch {
	case !strings.HasPrefix(r.URL.Path, "/.well-known/"):
		if fed != nil {
			fed(rw, r)
			return
		}
		_, _ = rw.Write([]byte(`{}`))
	case answer != nil:
		answer(rw, r)
	default:
		http.NotFound(rw, r)
	}
}

func (w *world) last() seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[len(w.seen)-1]
}

func (w *world) wellKnownRequests() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.seen {
		if strings.HasPrefix(s.Path, "/.well-known/") {
			n++
		}
	}
	return n
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) call(t *testing.T, server matrix.ServerName) error {
	t.Helper()
	_, err := w.client.Do(t.Context(), Request{Method: "GET", Destination: server, Path: "/_matrix/federation/v1/version"})
	return err
}

func says(server string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(rw, `{"m.server":%q}`, server) }
}

// authority issues certificates of a test.
type authority struct {
	file string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), //nolint:forbidigo // certificates are checked against the wall clock
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{file: filepath.Join(t.TempDir(), "ca.pem"), key: key}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) issue(t *testing.T, name string) *tls.Certificate {
	t.Helper()
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter}
	if ip := net.ParseIP(name); ip != nil {
		tmpl.IPAddresses = []net.IP{ip}
	} else {
		tmpl.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		t.Error(err)
		return nil
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
}

// TestResolve follows each branch of "Resolving server names": where the
// connection goes, which name its certificate is checked for, which Host is sent.
func TestResolve(t *testing.T) {
	t.Parallel()
	srv := func(target string, port uint16) []*net.SRV { return []*net.SRV{{Target: target, Port: port}} }
	for name, c := range map[string]struct {
		server    matrix.ServerName
		wellKnown string // m.server of the server's host
		srv       map[string][]*net.SRV
		fail      map[string]error
		want      seen // Addr, SNI, Host
		refused   bool
	}{
		"1 IPv4 literal":           {server: "203.0.113.9", want: seen{Addr: "203.0.113.9:8448", Host: "203.0.113.9"}},
		"1 IPv4 literal with port": {server: "203.0.113.9:99", want: seen{Addr: "203.0.113.9:99", Host: "203.0.113.9:99"}},
		"1 IPv6 literal":           {server: "[2001:db8::1]", want: seen{Addr: "[2001:db8::1]:8448", Host: "[2001:db8::1]"}},
		"1 IPv6 literal with port": {server: "[2001:db8::1]:99", want: seen{Addr: "[2001:db8::1]:99", Host: "[2001:db8::1]:99"}},
		"2 explicit port":          {server: "a.example:99", wellKnown: "b.example", want: seen{Addr: "198.51.100.1:99", SNI: "a.example", Host: "a.example:99"}},
		"2 explicit port 443":      {server: "a.example:443", want: seen{Addr: "198.51.100.1:443", SNI: "a.example", Host: "a.example:443"}},
		"2 port that cannot exist": {server: "a.example:99999", refused: true},
		"3.1 to an IP literal":     {server: "a.example", wellKnown: "203.0.113.9", want: seen{Addr: "203.0.113.9:8448", Host: "203.0.113.9"}},
		"3.1 to IP literal, port":  {server: "a.example", wellKnown: "[2001:db8::1]:99", want: seen{Addr: "[2001:db8::1]:99", Host: "[2001:db8::1]:99"}},
		"3.2 to host with port":    {server: "a.example", wellKnown: "b.example:99", want: seen{Addr: "198.51.100.2:99", SNI: "b.example", Host: "b.example:99"}},
		"3.3 to host with SRV": {
			server: "a.example", wellKnown: "b.example",
			srv:  map[string][]*net.SRV{"_matrix-fed._tcp.b.example": srv("c.example.", 77), "_matrix._tcp.b.example": srv("a.example.", 78)},
			want: seen{Addr: "198.51.100.3:77", SNI: "b.example", Host: "b.example"},
		},
		"3.4 to host with deprecated SRV": {
			server: "a.example", wellKnown: "b.example",
			srv:  map[string][]*net.SRV{"_matrix._tcp.b.example": srv("c.example.", 78), "_matrix-fed._tcp.a.example": srv("c.example.", 1)},
			want: seen{Addr: "198.51.100.3:78", SNI: "b.example", Host: "b.example"},
		},
		"3.5 to host alone": {server: "a.example", wellKnown: "b.example", want: seen{Addr: "198.51.100.2:8448", SNI: "b.example", Host: "b.example"}},
		"4 SRV": {
			server: "a.example",
			srv:    map[string][]*net.SRV{"_matrix-fed._tcp.a.example": srv("c.example.", 77), "_matrix._tcp.a.example": srv("b.example.", 78)},
			want:   seen{Addr: "198.51.100.3:77", SNI: "a.example", Host: "a.example"},
		},
		"4 SRV, second record after one that does not resolve": {
			server: "a.example",
			srv:    map[string][]*net.SRV{"_matrix-fed._tcp.a.example": {{Target: "gone.example.", Port: 1}, {Target: "c.example.", Port: 77}}},
			want:   seen{Addr: "198.51.100.3:77", SNI: "a.example", Host: "a.example"},
		},
		"5 deprecated SRV": {
			server: "a.example",
			srv:    map[string][]*net.SRV{"_matrix._tcp.a.example": srv("c.example.", 78)},
			want:   seen{Addr: "198.51.100.3:78", SNI: "a.example", Host: "a.example"},
		},
		"5 SRV look-up that fails": {
			server: "a.example",
			srv:    map[string][]*net.SRV{"_matrix._tcp.a.example": srv("c.example.", 78)},
			fail:   map[string]error{"_matrix-fed._tcp.a.example": errors.New("server failure")},
			want:   seen{Addr: "198.51.100.3:78", SNI: "a.example", Host: "a.example"},
		},
		"6 host alone":               {server: "a.example", want: seen{Addr: "198.51.100.1:8448", SNI: "a.example", Host: "a.example"}},
		"6 capitals":                 {server: "A.Example", want: seen{Addr: "198.51.100.1:8448", SNI: "A.Example", Host: "A.Example"}},
		"a bad well-known is none":   {server: "a.example", wellKnown: "b/example", want: seen{Addr: "198.51.100.1:8448", SNI: "a.example", Host: "a.example"}},
		"SRV that says: no service":  {server: "a.example", srv: map[string][]*net.SRV{"_matrix-fed._tcp.a.example": srv(".", 0)}, refused: true},
		"a host that does not exist": {server: "gone.example", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.hosts = map[string]string{"a.example": "198.51.100.1", "A.Example": "198.51.100.1", "b.example": "198.51.100.2", "c.example": "198.51.100.3"}
			w.srv, w.fail = c.srv, c.fail
			if c.wellKnown != "" {
				w.answers["a.example"] = says(c.wellKnown)
			}
			err := w.call(t, c.server)
			if (err != nil) != c.refused {
				t.Fatalf("got error %v, want refused %t", err, c.refused)
			}
			if c.refused {
				return
			}
			c.want.Path = "/_matrix/federation/v1/version"
			if got := w.last(); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// A certificate for another name ends every kind of delegation.
func TestResolveChecksCertificate(t *testing.T) {
	t.Parallel()
	for _, server := range []matrix.ServerName{"a.example", "a.example:99", "203.0.113.9"} {
		w := newWorld(t)
		w.hosts["a.example"] = "198.51.100.1"
		w.certFor = func(string) string { return "evil.example" }
		if err := w.call(t, server); err == nil {
			t.Errorf("%s: a certificate of another name was taken", server)
		}
	}
}

func TestWellKnownCache(t *testing.T) {
	t.Parallel()
	body := `{"m.server":"b.example:99"}`
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kept   time.Duration
	}{
		"without headers":  {says("b.example:99"), 24 * time.Hour},
		"max-age":          {cached(body, "Cache-Control", "public, max-age=7200"), 2 * time.Hour},
		"max-age too long": {cached(body, "Cache-Control", "max-age=99999999"), 48 * time.Hour},
		"no-store":         {cached(body, "Cache-Control", "no-store"), time.Minute},
		"expires":          {cached(body, "Expires", "Thu, 01 Jan 2026 03:00:00 GMT"), 3 * time.Hour},
		"not found":        {http.NotFound, time.Minute},
		"bad JSON":         {cached(`{"m.server":`, "Cache-Control", "max-age=7200"), time.Minute},
		"no m.server":      {cached(`{}`, "Cache-Control", "max-age=7200"), time.Minute},
		"too large":        {cached(`{"x":"`+strings.Repeat("x", wellKnownBytes)+`","m.server":"b.example:99"}`, "X", "x"), time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.hosts = map[string]string{"a.example": "198.51.100.1", "b.example": "198.51.100.2"}
			w.answers["a.example"] = c.answer
			for i, wait := range []time.Duration{0, c.kept - time.Second, 2 * time.Second} {
				w.pass(wait)
				if err := w.call(t, "a.example"); err != nil {
					t.Fatal(err)
				}
				want := 1
				if i == 2 {
					want = 2
				}
				if got := w.wellKnownRequests(); got != want {
					t.Fatalf("step %d: got %d well-known requests, want %d", i, got, want)
				}
			}
		})
	}
}

func cached(body, header, value string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set(header, value)
		_, _ = rw.Write([]byte(body))
	}
}

// Failures are asked again ever more rarely, and a good answer outlives them.
func TestWellKnownFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hosts = map[string]string{"a.example": "198.51.100.1", "b.example": "198.51.100.2"}
	w.answers["a.example"] = cached(`{"m.server":"b.example:99"}`, "Cache-Control", "max-age=60")
	step := func(wait time.Duration, requests int, addr string) {
		t.Helper()
		w.pass(wait)
		if err := w.call(t, "a.example"); err != nil {
			t.Fatal(err)
		}
		if got := w.wellKnownRequests(); got != requests {
			t.Fatalf("got %d well-known requests, want %d", got, requests)
		}
		if target, err := w.client.Resolve(t.Context(), "a.example"); err != nil || target.Endpoints[0].Host != addr {
			t.Fatalf("got %+v, %v, want %s", target, err, addr)
		}
	}
	step(0, 1, "b.example")
	w.mu.Lock()
	delete(w.answers, "a.example")
	w.mu.Unlock()
	step(61*time.Second, 2, "b.example") // fails: the good answer stays
	step(61*time.Second, 3, "b.example") // after one minute
	step(61*time.Second, 3, "b.example") // now two
	step(61*time.Second, 4, "b.example")
	step(47*time.Hour, 5, "b.example")
	step(61*time.Minute, 6, "a.example") // 48 hours after the good answer
	step(17*time.Minute, 7, "a.example")
	step(33*time.Minute, 8, "a.example")
	step(59*time.Minute, 8, "a.example") // an hour at most
	step(2*time.Minute, 9, "a.example")
}

func TestWellKnownRedirects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hosts = map[string]string{"a.example": "198.51.100.1", "b.example": "198.51.100.2", "loop.example": "198.51.100.4", "plain.example": "198.51.100.5"}
	redirect := func(to string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, to, http.StatusFound) }
	}
	w.answers["a.example"] = redirect("https://b.example/.well-known/matrix/server")
	w.answers["b.example"] = says("b.example:99")
	w.answers["loop.example"] = redirect("https://loop.example/.well-known/matrix/server")
	w.answers["plain.example"] = redirect("http://b.example/.well-known/matrix/server")
	for server, want := range map[matrix.ServerName]string{"a.example": "b.example:99", "loop.example": "loop.example", "plain.example": "plain.example"} {
		if got, err := w.client.Resolve(t.Context(), server); err != nil || got.Host != want {
			t.Errorf("%s: got %+v, %v, want %s", server, got, err, want)
		}
	}
}

// Addresses are checked after resolution: names are free to lead anywhere.
func TestPrivateAddressesAreRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := l.Addr().(*net.TCPAddr).Port
	n := &names{hosts: map[string]string{
		"loop.example": "127.0.0.1", "private.example": "10.0.0.1", "link.example": "169.254.169.254",
		"mapped.example": "::ffff:127.0.0.1", "six.example": "::1", "ula.example": "fd00::1", "any.example": "0.0.0.0",
	}}
	c, err := New(Options{Server: "us.example", Resolver: n})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"loop.example", "private.example", "link.example", "mapped.example", "six.example", "ula.example", "any.example", "127.0.0.1", "[::1]"} {
		server := matrix.ServerName(fmt.Sprintf("%s:%d", host, port))
		_, err := c.Do(t.Context(), Request{Method: "GET", Destination: server, Path: "/x"})
		if err == nil || !strings.Contains(err.Error(), "prohibited") {
			t.Errorf("%s: got %v, want a refusal of the address", server, err)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hosts["a.example"] = "198.51.100.1"
	w.client.opt.MaxResponse = 1000
	answer := func(f http.HandlerFunc) error {
		w.mu.Lock()
		w.federate = f
		w.mu.Unlock()
		return w.call(t, "a.example:1")
	}
	var e *Error
	err := answer(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusTooManyRequests)
		_, _ = rw.Write([]byte(`{"errcode":"M_LIMIT_EXCEEDED","error":"slow","retry_after_ms":1500}`))
	})
	if !errors.As(err, &e) || e.Status != 429 || e.Code != matrix.LimitExceeded || e.RetryAfter != 1500*time.Millisecond {
		t.Errorf("got %#v", err)
	}
	err = answer(func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "https://b.example/", http.StatusFound)
	})
	if !errors.As(err, &e) || e.Status != http.StatusFound {
		t.Errorf("a redirect: got %v, want it as an error", err)
	}
	err = answer(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(rw, `{"errcode":"M_%s","error":"%s"}`, strings.Repeat("é", 200), strings.Repeat("é", 200))
	})
	if !errors.As(err, &e) || len(e.Code) > 70 || len(e.Message) > 260 || !utf8.ValidString(err.Error()) {
		t.Errorf("a long error: got %v", err)
	}
	if err = answer(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(make([]byte, 1001)) }); err == nil {
		t.Error("an answer over the limit was taken")
	}
	err = answer(func(rw http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "" {
			t.Errorf("asks for compression: %q", got)
		}
		rw.Header().Set("Content-Length", "10")
		_, _ = rw.Write([]byte("half"))
		_ = http.NewResponseController(rw).Flush()
		panic(http.ErrAbortHandler)
	})
	if err == nil {
		t.Error("half an answer was taken")
	}
	if _, err := w.client.Do(t.Context(), Request{Method: "GET", Destination: "us.example", Path: "/x"}); err == nil {
		t.Error("a request to ourselves was made")
	}
}

// TestLoopbackOnly: a client of tests asks no resolver and connects to no other
// machine, whatever a server is called.
func TestLoopbackOnly(t *testing.T) {
	t.Parallel()
	resolver := &names{hosts: map[string]string{"elsewhere.test": "127.0.0.1"}}
	c, err := New(Options{Server: "us.test", AllowPrivate: true, LoopbackOnly: true, Resolver: resolver})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[matrix.ServerName]string{
		"elsewhere.test":      "no name is looked up here",
		"elsewhere.test:8448": "no name is looked up here",
		"192.0.2.1:8448":      "is not on this machine",
		"[2001:db8::1]:8448":  "is not on this machine",
		"10.1.2.3":            "is not on this machine",
	} {
		_, err := c.ServerKeys(t.Context(), name)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error that %s", name, err, want)
		}
	}
	if len(resolver.asked) != 0 {
		t.Errorf("asked for %v", resolver.asked)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.Close()
		}
	}()
	if _, err := c.ServerKeys(t.Context(), matrix.ServerName(listener.Addr().String())); err == nil || strings.Contains(err.Error(), "not on this machine") {
		t.Errorf("loopback: got %v, want a connection that ends", err)
	}
}

// TestAnswersOfTransactions: only what a homeserver would answer says that a
// transaction has arrived.
func TestAnswersOfTransactions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hosts["a.example"] = "198.51.100.1"
	for text, good := range map[string]bool{
		`{"pdus":{}}`: true, `{}`: true, `{"pdus":{"$1":{"error":"no"}}}`: true, "{}\n": true, `{"a":1,"a":2}`: true,
		"": false, "<html>It works</html>": false, "[]": false, "null": false, `"ok"`: false, `{"pdus":`: false, `{} {}`: false,
	} {
		w.mu.Lock()
		w.federate = func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte(text)) }
		w.mu.Unlock()
		if _, err := w.client.SendTransaction(t.Context(), "a.example:1", "1", []byte(`{}`)); (err == nil) != good {
			t.Errorf("200 with %q: got %v", text, err)
		}
	}
}

// TestManyDeadEndpoints: a server with endless records in DNS, none of which
// answers, does not keep a dial alive long after the request that began it.
func TestManyDeadEndpoints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		records := make([]*net.SRV, 1000)
		for i := range records {
			records[i] = &net.SRV{Target: "dead.example.", Port: 1}
		}
		n := &names{hosts: map[string]string{"dead.example": "198.51.100.1"}, srv: map[string][]*net.SRV{"_matrix-fed._tcp.a.example": records}}
		c, err := New(Options{Server: "us.example", Resolver: n})
		if err != nil {
			t.Fatal(err)
		}
		c.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		began := time.Now()
		target, err := c.viaSRV(t.Context(), "a.example")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.connect(context.WithoutCancel(t.Context()), target.Endpoints); err == nil {
			t.Fatal("connected")
		}
		if took := time.Since(began); took > connectTries*c.connectTimeout {
			t.Errorf("gave up after %s", took)
		}
	})
}
