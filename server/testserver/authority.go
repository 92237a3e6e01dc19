package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a certificate authority of a test's own, and the one certificate
// that it has issued: for 127.0.0.1, which all servers of a network share.
type Authority struct {
	CAFile, CertFile, KeyFile string // PEM

	pool     *x509.CertPool
	pair     tls.Certificate
	template x509.Certificate
	caKey    *ecdsa.PrivateKey
}

// NewAuthority makes an authority whose files end with the test.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	dir := tb.TempDir()
	a := &Authority{
		CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
		pool: x509.NewCertPool(),
	}
	// From long ago to long after, because tests move the clock.
	a.template = x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Hearth tests"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a.caKey = newECDSA(tb)
	ca := issue(tb, &a.template, &a.template, &a.caKey.PublicKey, a.caKey)
	writePEM(tb, a.CAFile, "CERTIFICATE", ca)
	parsed, err := x509.ParseCertificate(ca)
	if err != nil {
		tb.Fatal(err)
	}
	a.pool.AddCert(parsed)
	a.pair = a.Renew(tb, 2)
	return a
}

// Renew issues a new certificate with this serial number in place of the one in
// the files, and returns it. Links and peers go on with their first one.
func (a *Authority) Renew(tb testing.TB, serial int64) tls.Certificate {
	tb.Helper()
	key, leaf := newECDSA(tb), a.template
	leaf.SerialNumber, leaf.IsCA, leaf.KeyUsage = big.NewInt(serial), false, x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage, leaf.IPAddresses = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []net.IP{net.IPv4(127, 0, 0, 1)}
	cert := issue(tb, &leaf, &a.template, &key.PublicKey, a.caKey)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	writePEM(tb, a.CertFile, "CERTIFICATE", cert)
	writePEM(tb, a.KeyFile, "EC PRIVATE KEY", der)
	return tls.Certificate{Certificate: [][]byte{cert}, PrivateKey: key}
}

// Trust makes clients of a site accept the authority's certificate.
func (a *Authority) Trust(s *Site) { s.http.Transport.(*http.Transport).TLSClientConfig = a.client() }

func (a *Authority) client() *tls.Config {
	return &tls.Config{RootCAs: a.pool, MinVersion: tls.VersionTLS12}
}

func (a *Authority) server() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.pair}, MinVersion: tls.VersionTLS12}
}

func issue(tb testing.TB, c, parent *x509.Certificate, pub, key any) []byte {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, parent, pub, key)
	if err != nil {
		tb.Fatal(err)
	}
	return der
}

func newECDSA(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func writePEM(tb testing.TB, file, kind string, der []byte) {
	tb.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		tb.Fatal(err)
	}
}
