package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// Addrs are the addresses that a server is bound to, as the configuration
// writes them ("127.0.0.1:8008", "unix:/run/hearth.sock"), ports filled in.
type Addrs struct {
	Client     []string `json:"client"`
	Federation []string `json:"federation"`
	Metrics    string   `json:"metrics"`
}

// listen binds one address. A Unix socket that nobody answers at is left over
// from a crash and is replaced; others than the owner and group are kept out.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	path, unix := strings.CutPrefix(addr, "unix:")
	if !unix {
		l, err := lc.Listen(ctx, "tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", addr, err)
		}
		return l, nil
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", addr, err), l.Close())
	}
	return l, nil
}

func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return nil //nolint:nilerr // Listen says it better
	}
	var d net.Dialer
	if conn, err := d.DialContext(ctx, "unix", path); err == nil {
		_ = conn.Close()
		return errors.New("another process listens there")
	}
	return os.Remove(path)
}

func addrOf(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	return l.Addr().String()
}

// certificate is a key pair on disk that may be renewed while the server runs.
type certificate struct {
	certFile, keyFile string
	now               func() time.Time

	mu      sync.Mutex // guards all below
	loaded  *tls.Certificate
	modTime time.Time
	checked time.Time
}

// recheck is how often the files are looked at.
const recheck = time.Minute

// tlsConfig returns nil where no certificate is configured.
func tlsConfig(certFile, keyFile string, now func() time.Time) (*tls.Config, error) {
	if certFile == "" {
		return nil, nil //nolint:nilnil // plain HTTP
	}
	c := &certificate{certFile: certFile, keyFile: keyFile, now: now}
	if _, err := c.get(nil); err != nil {
		return nil, fmt.Errorf("TLS certificate: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}, nil
}

// get serves tls.Config.GetCertificate. While a renewed pair cannot be read,
// because it is half written, the last good one serves.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if age := now.Sub(c.checked); c.loaded != nil && 0 <= age && age < recheck {
		return c.loaded, nil
	}
	c.checked = now
	info, err := os.Stat(c.certFile)
	if err == nil && c.loaded != nil && info.ModTime().Equal(c.modTime) {
		return c.loaded, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(c.certFile, c.keyFile); err == nil {
			c.loaded, c.modTime = &pair, info.ModTime()
		}
	}
	if c.loaded != nil {
		return c.loaded, nil
	}
	return nil, err
}
