package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// ask gets a path at an address and returns status and body.
func (r *running) ask(t *testing.T, addr, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
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
	return res.StatusCode, string(text)
}

var federationPaths = []string{
	"/_matrix/key/v2/server",
	"/_matrix/key/v2/query/test",
	"/_matrix/federation/v1/version",
	"/.well-known/matrix/server",
}

// TestFederationListeners: the server-server API is where the configuration
// puts it, and what others read at port 443 is also beside the clients' API.
func TestFederationListeners(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Server.Delegate = "matrix.test:443"
	r := start(t, cfg)
	for _, path := range federationPaths {
		if status, text := r.ask(t, r.Addrs().Client[0], path); status != 200 {
			t.Errorf("%s: got %d %s", path, status, text)
		}
	}
	r.stop(t)
	cfg.Listen.Federation = []string{"127.0.0.1:0"}
	r = start(t, cfg)
	for _, path := range federationPaths {
		if status, text := r.ask(t, r.Addrs().Federation[0], path); status != 200 {
			t.Errorf("%s: got %d %s", path, status, text)
		}
		want := 404
		if strings.HasPrefix(path, "/.well-known/") {
			want = 200
		}
		if status, text := r.ask(t, r.Addrs().Client[0], path); status != want {
			t.Errorf("%s at the clients' listener: got %d %s, want %d", path, status, text, want)
		}
	}
}

func TestWithoutFederation(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Server.Delegate = "matrix.test:443"
	cfg.Security.Federation.Enabled = false
	cfg.Listen.Federation = []string{"127.0.0.1:0"}
	r := start(t, cfg)
	for _, addr := range append(r.Addrs().Client, r.Addrs().Federation...) {
		for _, path := range federationPaths {
			if status, text := r.ask(t, addr, path); status != 404 || !strings.Contains(text, "M_UNRECOGNIZED") {
				t.Errorf("%s: got %d %s", path, status, text)
			}
		}
	}
}
