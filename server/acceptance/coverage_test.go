package acceptance

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// module is a part of the specification with its endpoints, one a line:
// "served GET /path" or "later GET /path".
type module struct{ name, endpoints string }

// unspecified are the endpoints that are in no list of the specification.
var unspecified = []string{
	"GET /health",
	"GET /_matrix/static/client/login/",               // login fallback
	"GET /_matrix/client/v3/auth/{type}/fallback/web", // user-interactive fallback
	"POST /_matrix/client/v3/auth/{type}/fallback/web",
	"GET /_synapse/admin/v1/register", // shared-secret registration
	"POST /_synapse/admin/v1/register",
	// An empty state key may be left out, and its slash too.
	"PUT /_matrix/client/v3/rooms/{roomId}/state/{eventType}",
	"PUT /_matrix/client/v3/rooms/{roomId}/state/{eventType}/",
	"GET /_matrix/client/v3/rooms/{roomId}/state/{eventType}",
	"GET /_matrix/client/v3/rooms/{roomId}/state/{eventType}/",
}

// split lists the endpoints of all modules, "GET /path", and says which come
// from where.
func split(t *testing.T) (served []string, later map[string]string) {
	t.Helper()
	later = map[string]string{}
	seen := map[string]bool{}
	for _, m := range specified {
		for line := range strings.Lines(strings.TrimSpace(m.endpoints)) {
			f := strings.Fields(line)
			if len(f) != 3 || f[0] != "served" && f[0] != "later" || seen[f[1]+" "+f[2]] {
				t.Fatalf("%s: bad line %q", m.name, line)
			}
			route := f[1] + " " + f[2]
			seen[route] = true
			if f[0] == "served" {
				served = append(served, route)
			} else {
				later[route] = m.name
			}
		}
	}
	return served, later
}

// TestCoverage: the table of the specification's endpoints and the router say
// the same, and what is still to come is answered as unknown.
func TestCoverage(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t, testserver.Config(allEndpoints))
	served, later := split(t)
	// What the specification has, counted apart from the table.
	if n := len(served) + len(later); n != 199 {
		t.Errorf("the table has %d endpoints, the specification 199", n)
	}
	routes := hs.Routes()
	for _, r := range routes {
		switch {
		case slices.Contains(served, r), slices.Contains(unspecified, r):
		case later[r] != "":
			t.Errorf("%s is served, but the table says it comes with %s", r, later[r])
		default:
			t.Errorf("%s is served, but neither specified nor listed as ours", r)
		}
	}
	for _, r := range slices.Concat(served, unspecified) {
		if !slices.Contains(routes, r) {
			t.Errorf("%s is not served, but the table says so", r)
		}
	}
	alice := hs.Register("alice")
	for r, from := range later {
		wantUnknown(t, alice, r, from, routes)
	}
}

// values stand in for path variables.
var values = strings.NewReplacer("{userId}", "@alice:test", "{roomId}", "!room:test", "{roomIdOrAlias}", "!room:test",
	"{roomAlias}", "%23room:test", "{eventId}", "$event", "{serverName}", "test", "{kind}", "override", "{", "", "}", "")

// wantUnknown sends a request to an endpoint that is not there yet. Where its
// path has another method that is there, the method is what is wrong.
// Client-Server API, "Common error codes".
func wantUnknown(t *testing.T, c *testserver.Client, route, from string, routes []string) {
	t.Helper()
	method, path, _ := strings.Cut(route, " ")
	want := http.StatusNotFound
	if slices.ContainsFunc(routes, func(r string) bool { _, p, _ := strings.Cut(r, " "); return p == path }) {
		want = http.StatusMethodNotAllowed
	}
	a, err := c.Do(t.Context(), method, values.Replace(path), map[string]any{})
	if err != nil {
		t.Errorf("%s (comes with %s): %v", route, from, err)
	} else if a.Status != want || a.Code() != matrix.Unrecognized {
		t.Errorf("%s (comes with %s): got %s, want %d %s", route, from, a, want, matrix.Unrecognized)
	}
}
