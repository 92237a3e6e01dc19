package acceptance

import (
	"crypto/tls"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"hearth/server/testserver"
)

// TestCertificateIsReadAgain: a certificate whose files are replaced is served
// without a restart, to who connects from then on. While the new files do not
// belong together, because one of them is not written yet, the old pair serves.
func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	var clock hands
	hs := testserver.Network(t, 1, testserver.Clock(clock.now, nil), testserver.QuietLog())[0]
	a := hs.Authority()
	peer := testserver.NewPeer(t, a, clock.now())
	bob := hs.Register("bob")
	served := func() int64 {
		t.Helper()
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // what is served is looked at
		conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(hs.URL(), "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	want := func(when string, serial int64) {
		t.Helper()
		if got := served(); got != serial {
			t.Errorf("%s: certificate %d, want %d", when, got, serial)
		}
	}
	want("at first", 2)
	a.Renew(t, 3)
	later(t, a.CertFile, time.Hour)
	want("at once", 2) // the files are not looked at for each connection
	clock.forward(2 * time.Minute)
	want("two minutes later", 3)
	good, err := os.ReadFile(a.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	a.Renew(t, 4)
	later(t, a.CertFile, 2*time.Hour)
	newer, err := os.ReadFile(a.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{good, newer[:len(newer)/2], nil} {
		if err := os.WriteFile(a.KeyFile, text, 0o600); err != nil {
			t.Fatal(err)
		}
		clock.forward(2 * time.Minute)
		want("with a key that does not belong to it", 3)
	}
	if err := os.WriteFile(a.KeyFile, newer, 0o600); err != nil {
		t.Fatal(err)
	}
	clock.forward(2 * time.Minute)
	want("once the key is there, too", 4)
	clock.forward(-time.Hour)
	a.Renew(t, 5)
	later(t, a.CertFile, 3*time.Hour)
	want("after the clock was set back", 5)
	if got := peer.Send(hs, "1", peer.Transaction(peer.Direct("u", "1", bob, `{"n":1}`))); got.Status != http.StatusOK {
		t.Fatalf("with the new certificate: %s", got)
	}
	bob.Sync().HasToDevice("m.test", `{"n":1}`)
}

// later makes a file's time differ from before, however coarse the clock of
// files is.
func later(t *testing.T, file string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(by)
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
}
