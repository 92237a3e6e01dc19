package web_test

import (
	"context"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/remote"
	"hearth/server/web"
	"hearth/storage/matrix"
)

// guard lets in whom a test says, and keeps what it was asked.
type guard struct {
	mu    sync.Mutex // guards asked
	asked []string
}

func (g *guard) note(what ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, strings.Join(what, " "))
}

func (g *guard) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := g.asked
	g.asked = nil
	return asked
}

func (g *guard) CheckRequest(_ context.Context, x remote.XMatrix) error {
	g.note("check", string(x.Origin), string(x.Key))
	if x.Key == "ed25519:unknown" {
		return matrix.Errorf(matrix.Unauthorized, "unknown key")
	}
	return nil
}

func (g *guard) VerifyRequest(_ context.Context, x remote.XMatrix, method, uri string, body []byte) error {
	g.note("verify", string(x.Key), method, uri, string(body))
	if x.Key == "ed25519:forged" {
		return matrix.Errorf(matrix.Unauthorized, "bad signature")
	}
	return nil
}

// seenCall is what an endpoint was told.
type seenCall struct {
	Origin string `json:"origin"`
	Raw    string `json:"raw"`
	Var    string `json:"var"`
}

type signedBody struct {
	Number int            `json:"number"`
	Raw    jsontext.Value `json:"raw"`
}

func newFederation(t *testing.T, opt web.Options) (*httptest.Server, *guard) {
	t.Helper()
	g := &guard{}
	opt.Peers = g
	tell := func(c *web.Call, text string) seenCall {
		g.note("handle")
		return seenCall{string(c.Origin), text, c.Vars["id"]}
	}
	s := newKernel(t, opt,
		web.Route{Method: "PUT", Path: "/_matrix/federation/v1/put/{id}", MaxBody: 200, Limit: web.LimitFederation,
			Handler: web.Federation(func(_ context.Context, c *web.Call, in signedBody) (seenCall, error) {
				return tell(c, string(in.Raw)), nil
			})},
		web.Route{Method: "GET", Path: "/_matrix/federation/v1/get/{id}",
			Handler: web.Federation(func(_ context.Context, c *web.Call, _ web.NoBody) (seenCall, error) {
				return tell(c, ""), nil
			})})
	return s, g
}

// signedBy is the header of a request signed with a key.
func signedBy(origin, key string) string {
	return `Authorization: X-Matrix origin="` + origin + `",destination="us.test",key="ed25519:` + key + `",sig="` + strings.Repeat("A", 86) + `"`
}

func TestFederation(t *testing.T) {
	t.Parallel()
	s, g := newFederation(t, web.Options{})
	const path = "/_matrix/federation/v1/put/"
	good, unknown, forged := signedBy("a.test", "good"), signedBy("a.test", "unknown"), signedBy("a.test", "forged")
	big := `{"raw":"` + strings.Repeat("x", 300) + `"}`
	checked := func(key string) string { return "check a.test ed25519:" + key }
	verified := func(key, rest string) string { return "verify ed25519:" + key + " " + rest }
	for _, tt := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		want                     string
		asked                    []string
	}{
		{"good", "PUT", path + "a%2Fb?x=%20&y=+", ` {"raw" : [1.50 ], "other":1}`, []string{good}, 200, `{"origin":"a.test","raw":"[1.50 ]","var":"a/b"}`,
			[]string{checked("good"), verified("good", "PUT "+path+`a%2Fb?x=%20&y=+  {"raw" : [1.50 ], "other":1}`), "handle"}},
		{"through a proxy", "PUT", "http://us.test" + path + "1?x", `{}`, []string{good}, 200, "a.test",
			[]string{checked("good"), verified("good", "PUT "+path+"1?x {}"), "handle"}},
		{"without a body", "GET", "/_matrix/federation/v1/get/1", "", []string{good}, 200, "a.test",
			[]string{checked("good"), verified("good", "GET /_matrix/federation/v1/get/1 "), "handle"}},
		{"a body that none was wanted of", "GET", "/_matrix/federation/v1/get/1", "{}", []string{good}, 200, "a.test",
			[]string{checked("good"), verified("good", "GET /_matrix/federation/v1/get/1 {}"), "handle"}},
		{"not signed", "PUT", path + "1", "{}", []string{"X: y"}, 401, "M_UNAUTHORIZED", nil},
		{"an access token", "PUT", path + "1", "{}", []string{"Authorization: Bearer good"}, 401, "M_UNAUTHORIZED", nil},
		{"a bad header", "PUT", path + "1", "{}", []string{"Authorization: X-Matrix origin=a"}, 401, "M_UNAUTHORIZED", nil},
		{"an unknown key: the body is not read", "PUT", path + "1", big, []string{unknown}, 401, "unknown key", []string{checked("unknown")}},
		{"the second signature's key is known", "PUT", path + "1", "{}", []string{unknown, good}, 200, "a.test",
			[]string{checked("unknown"), checked("good"), verified("good", "PUT "+path+"1 {}"), "handle"}},
		{"too many signatures", "PUT", path + "1", "{}", []string{unknown, unknown, unknown, unknown, good}, 401, "unknown key",
			[]string{checked("unknown"), checked("unknown"), checked("unknown"), checked("unknown")}},
		{"forged: nothing is decoded", "PUT", path + "1", `{"number":"x"}`, []string{forged}, 401, "bad signature",
			[]string{checked("forged"), verified("forged", "PUT "+path+`1 {"number":"x"}`)}},
		{"too large", "PUT", path + "1", big, []string{good}, 413, "M_TOO_LARGE", []string{checked("good")}},
		{"of a wrong type", "PUT", path + "1", `{"number":"x"}`, []string{good}, 400, "M_BAD_JSON",
			[]string{checked("good"), verified("good", "PUT "+path+`1 {"number":"x"}`)}},
		{"no body where one is wanted", "PUT", path + "1", "", []string{good}, 400, "M_NOT_JSON",
			[]string{checked("good"), verified("good", "PUT "+path+"1 ")}},
	} {
		res, body := rawDo(t, s, tt.method, tt.path, tt.body, tt.header...)
		if res.StatusCode != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s: got %d %s, want %d %s", tt.name, res.StatusCode, body, tt.status, tt.want)
		}
		if asked := g.take(); !slices.Equal(asked, tt.asked) {
			t.Errorf("%s: got %q, want %q", tt.name, asked, tt.asked)
		}
	}
}

// An address is counted whatever servers it speaks for.
func TestFederationRateLimitOfAddress(t *testing.T) {
	t.Parallel()
	s, _ := newFederation(t, web.Options{Limits: map[string]web.Limit{web.LimitFederation: {PerSecond: 1e-9, Burst: 10}}})
	send := func(origin string) int {
		t.Helper()
		res, _ := rawDo(t, s, "PUT", "/_matrix/federation/v1/put/1", "{}", "X-Forwarded-For: x", signedBy(origin, "good"))
		return res.StatusCode
	}
	for range 5 {
		if got := send("a.test"); got != 200 {
			t.Fatalf("got %d", got)
		}
	}
	for i := range 5 {
		if got := send("b.test"); got != 200 {
			t.Fatalf("the other server's request %d: got %d", i, got)
		}
	}
	if got := send("c.test"); got != 429 {
		t.Errorf("the address has sent enough: got %d", got)
	}
}

// The same origin is counted wherever its requests come from.
func TestFederationRateLimitOfOrigin(t *testing.T) {
	t.Parallel()
	s, _ := newFederation(t, web.Options{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Limits:         map[string]web.Limit{web.LimitFederation: {PerSecond: 1e-9, Burst: 3}},
	})
	send := func(origin, from string) int {
		t.Helper()
		res, _ := rawDo(t, s, "PUT", "/_matrix/federation/v1/put/1", "{}", "X-Forwarded-For: "+from, signedBy(origin, "good"))
		return res.StatusCode
	}
	for _, from := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
		if got := send("a.test", from); got != 200 {
			t.Fatalf("got %d", got)
		}
	}
	if got := send("a.test", "192.0.2.4"); got != 429 {
		t.Errorf("got %d", got)
	}
	if got := send("b.test", "192.0.2.4"); got != 200 {
		t.Errorf("another server: got %d", got)
	}
}
