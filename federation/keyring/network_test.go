package keyring

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hearth/federation/remote"
	"hearth/storage/matrix"
)

// authority signs the certificates of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(t.TempDir(), "ca.pem")}
	der := a.issue(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der.Certificate[0]})
	if err := os.WriteFile(a.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// issue signs a certificate; the first one is the authority's own.
func (a *authority) issue(t *testing.T, c *x509.Certificate) tls.Certificate {
	t.Helper()
	start := time.Now()
	c.NotBefore, c.NotAfter = start.Add(-time.Hour), start.Add(time.Hour)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert == nil {
		a.key = key
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// serve runs a peer as a TLS server on 127.0.0.x under a certificate for host,
// and names it "host:port".
func (a *authority) serve(t *testing.T, c *clock, host, addr string) *peer {
	t.Helper()
	l, err := net.Listen("tcp", addr+":0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	p := newPeer(c, matrix.ServerName(host+":"+port))
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, text []byte, err error) {
		if err != nil {
			http.Error(w, `{"errcode":"M_UNKNOWN"}`, http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(text)
	}
	mux.HandleFunc("GET /_matrix/key/v2/server", func(w http.ResponseWriter, r *http.Request) {
		text, err := p.answer(r.Context())
		reply(w, text, err)
	})
	mux.HandleFunc("POST /_matrix/key/v2/query", func(w http.ResponseWriter, r *http.Request) {
		query, err := io.ReadAll(r.Body)
		if err == nil {
			query, err = p.notarize(query)
		}
		reply(w, query, err)
	})
	srv := httptest.NewUnstartedServer(mux)
	_ = srv.Listener.Close()
	srv.Listener = l
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that are meant to fail
	srv.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.issue(t, &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{host}})}}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return p
}

// hosts resolves the names of a test.
type hosts map[string]string

func (h hosts) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if a, ok := h[host]; ok {
		return []netip.Addr{netip.MustParseAddr(a)}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (h hosts) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// TestOverTLS fetches from real servers: from one that answers, while another
// one does not; through a notary; and not from one with a wrong certificate.
func TestOverTLS(t *testing.T) {
	t.Parallel()
	c, ca, dir := newClock(), newAuthority(t), t.TempDir()
	good := ca.serve(t, c, "good.example", "127.0.0.1")
	slow := ca.serve(t, c, "slow.example", "127.0.0.1")
	notary := ca.serve(t, c, "notary.example", "127.0.0.1")
	posing := ca.serve(t, c, "posing.example", "127.0.0.1")
	slow.gate = make(chan struct{})
	port := func(p *peer) int { n, _ := p.name.Port(); return n }
	lost := newPeer(c, "lost.example:1") // whose statement the notary has, and nobody listens
	stolen := newPeer(c, matrix.ServerName(fmt.Sprintf("stolen.example:%d", port(posing))))
	posing.change = func(s *statementJSON) { s.Server = stolen.name }
	notary.knows = map[matrix.ServerName][]byte{lost.name: lost.statement()}

	open := func() (*Ring, func()) {
		client, err := remote.New(remote.Options{Server: us, AllowPrivate: true, CAFile: ca.file, Resolver: hosts{
			"good.example": "127.0.0.1", "slow.example": "127.0.0.1", "notary.example": "127.0.0.1",
			"lost.example": "127.0.0.1", "stolen.example": "127.0.0.1",
		}})
		if err != nil {
			t.Fatal(err)
		}
		store := openStore(t, c, dir)
		r := ringOn(t, store, c, client, notary.name)
		return r, func() {
			r.Close()
			client.Close()
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	r, closeRing := open()
	fl, err := r.start(r.directErrand(slow.name), stranger)
	if err != nil {
		t.Fatal(err)
	}
	want(t, r, good.name, "ed25519:1", c.now(), good.pub("ed25519:1"), nil)
	want(t, r, lost.name, "ed25519:1", c.now(), lost.pub("ed25519:1"), nil)
	want(t, r, stolen.name, "ed25519:1", c.now(), nil, ErrUnknownKey)
	if n := posing.timesAsked(); n != 0 {
		t.Errorf("a server with a certificate for another name was asked %d times", n)
	}
	select {
	case <-fl.done:
		t.Error("the slow server has answered")
	default:
	}
	good.rotate("ed25519:2")
	want(t, r, good.name, "ed25519:2", c.now(), good.pub("ed25519:2"), nil)
	close(slow.gate)
	want(t, r, slow.name, "ed25519:1", c.now(), slow.pub("ed25519:1"), nil)
	closeRing()

	good.set(func() { good.down = true })
	before := good.timesAsked()
	r, closeRing = open()
	defer closeRing()
	want(t, r, good.name, "ed25519:2", c.now(), good.pub("ed25519:2"), nil)
	if good.timesAsked() != before {
		t.Error("asked again after a restart")
	}
}
