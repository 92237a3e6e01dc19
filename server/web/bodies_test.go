package web_test

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"hearth/server/web"
)

// TestLargeBodies: what other servers' requests take in memory is bounded, in
// all and by address, until they are answered. Small ones always have a place.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	const piece = 256 << 10
	started, release := make(chan struct{}), make(chan struct{})
	s := newKernel(t, web.Options{
		Peers: &guard{}, LargeBodies: 6 * piece, // an address has two
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}, web.Route{Method: "PUT", Path: "/_matrix/federation/v1/put/{id}", MaxBody: 8 * piece,
		Handler: web.Federation(func(_ context.Context, c *web.Call, _ struct{}) (web.Empty, error) {
			if c.Vars["id"] == "slow" {
				started <- struct{}{}
				<-release
			}
			return web.Empty{}, nil
		})})
	put := func(id, from string, size int, chunked bool) *http.Response {
		body := `{"x":"` + strings.Repeat("x", size) + `"}`
		if chunked {
			body = strings.Repeat(" ", size) + "{}"
		}
		res, _ := rawDo(t, s, "PUT", "/_matrix/federation/v1/put/"+id, body, signedBy("a.test", "good"), "X-Forwarded-For: "+from)
		return res
	}
	want := func(what string, res *http.Response, status int) {
		t.Helper()
		if res.StatusCode != status {
			t.Errorf("%s: got %d, want %d", what, res.StatusCode, status)
		}
		if status == http.StatusTooManyRequests && res.Header.Get("Retry-After") == "" {
			t.Errorf("%s: not said when to try again", what)
		}
	}
	done := make(chan *http.Response, 3)
	slow := func(from string) {
		go func() { done <- put("slow", from, 2*piece, false) }()
		<-started
	}
	want("more than an address may have", put("1", "192.0.2.1", 3*piece, false), 429)
	slow("192.0.2.1")
	want("another large one of the same address", put("1", "192.0.2.1", piece, false), 429)
	want("a small one of the same address", put("1", "192.0.2.1", 60<<10, false), 200)
	want("a large one of another address", put("1", "192.0.2.2", 2*piece, true), 200)
	slow("2001:db8::1")
	want("of the same network", put("1", "2001:db8::2", piece, false), 429)
	slow("192.0.2.3")
	want("no memory left", put("1", "192.0.2.4", piece, false), 429)
	want("a small one then", put("1", "192.0.2.4", 60<<10, false), 200)
	close(release)
	for range 3 {
		want("slow", <-done, 200)
	}
	want("afterwards", put("1", "192.0.2.1", 2*piece, false), 200)
	want("afterwards, of another address", put("1", "2001:db8::2", 2*piece, false), 200)
}
