package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gorilla/mux"

	"hearth/storage/matrix"
)

// Route is one endpoint of a surface's table.
type Route struct {
	Method  string // GET serves HEAD too
	Path    string // a template: "/_matrix/client/v3/devices/{deviceId}"
	Handler Handler
	// Limit names the rate limit that counts the request: by user where the
	// endpoint needs a token, else by address. Empty: none.
	Limit string
	// MaxBody bounds the request body in bytes. Zero: [DefaultMaxBody].
	MaxBody int64
	// BodyOptional makes an absent body count as {}.
	BodyOptional bool
	// Locked lets users in who may only log out, see [Caller].
	Locked bool
	// LongPoll keeps the route's duration out of the latency metrics.
	LongPoll bool
}

// DefaultMaxBody is the size limit of request bodies, in bytes, where a route names none.
const DefaultMaxBody = 1 << 20

// route is a Route with what the kernel keeps beside it.
type route struct {
	Route
	metrics routeMetrics
}

// table finds routes. Matching costs a regular expression per candidate, so
// candidates are first narrowed by the path's leading segments.
type table struct {
	groups map[string]*group
}

type group struct {
	router    *mux.Router
	templates map[*mux.Route]*template
}

// template holds the routes that share a path.
type template struct {
	path    string
	methods map[string]*route
}

// leading is how many path segments choose the group: "/_matrix/client/v3/rooms".
const leading = 4

// newTable groups the routes. In a group literal segments win over variables.
func newTable(routes []*route) *table {
	byPath := map[string]*template{}
	for _, r := range routes {
		t := byPath[r.Path]
		if t == nil {
			t = &template{path: r.Path, methods: map[string]*route{}}
			byPath[r.Path] = t
		}
		if t.methods[r.Method] != nil {
			panic(fmt.Sprintf("web: two routes for %s %s", r.Method, r.Path))
		}
		t.methods[r.Method] = r
	}
	for _, t := range byPath { // net/http leaves the body of the answer out
		if get := t.methods[http.MethodGet]; get != nil && t.methods[http.MethodHead] == nil {
			t.methods[http.MethodHead] = get
		}
	}
	templates := make([]*template, 0, len(byPath))
	for _, t := range byPath {
		templates = append(templates, t)
	}
	slices.SortFunc(templates, moreLiteral)

	tb := &table{groups: map[string]*group{}}
	for _, t := range templates {
		key := groupKey(t.path)
		if strings.Contains(key, "{") {
			key = ""
		}
		g := tb.groups[key]
		if g == nil {
			g = &group{
				router:    mux.NewRouter().UseEncodedPath().SkipClean(true),
				templates: map[*mux.Route]*template{},
			}
			tb.groups[key] = g
		}
		methods := make([]string, 0, len(t.methods))
		for m := range t.methods {
			methods = append(methods, m)
		}
		// Path before Methods: mux forgets a method mismatch when a later
		// route's method fits, even if its path does not.
		mr := g.router.Path(t.path).Methods(methods...).Handler(http.NotFoundHandler())
		if err := mr.GetError(); err != nil {
			panic(fmt.Sprintf("web: route %s: %v", t.path, err))
		}
		g.templates[mr] = t
	}
	return tb
}

// moreLiteral orders templates so that at the first difference a literal
// segment comes before a variable.
func moreLiteral(a, b *template) int {
	as, bs := strings.Split(a.path, "/"), strings.Split(b.path, "/")
	for i := range min(len(as), len(bs)) {
		av, bv := strings.Contains(as[i], "{"), strings.Contains(bs[i], "{")
		if av != bv {
			if bv {
				return -1
			}
			return 1
		}
		if c := cmp.Compare(as[i], bs[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(as), len(bs))
}

// groupKey is the path up to its fifth slash.
func groupKey(path string) string {
	seen := 0
	for i := range len(path) {
		if path[i] == '/' {
			if seen == leading {
				return path[:i]
			}
			seen++
		}
	}
	return path
}

// find returns the route of the request and its path variables, still encoded.
// If only the method is wrong it returns the methods that are right.
func (t *table) find(r *http.Request) (found *route, vars map[string]string, allow []string) {
	for _, key := range [2]string{groupKey(r.URL.EscapedPath()), ""} {
		g := t.groups[key]
		if g == nil {
			continue
		}
		var m mux.RouteMatch
		if g.router.Match(r, &m) && m.MatchErr == nil {
			return g.templates[m.Route].methods[r.Method], m.Vars, nil
		}
		if errors.Is(m.MatchErr, mux.ErrMethodMismatch) {
			allow = append(allow, g.allowed(r)...)
		}
	}
	return nil, nil, allow
}

// allowed finds the methods that the path has, by trying them.
func (g *group) allowed(r *http.Request) []string {
	var methods []string
	try := *r
	for _, m := range [...]string{"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"} {
		try.Method = m
		var match mux.RouteMatch
		if g.router.Match(&try, &match) && match.MatchErr == nil {
			methods = append(methods, m)
		}
	}
	return methods
}

// pinPath makes r.URL.EscapedPath return the path as the client sent it. It
// would otherwise, for a path with an unusual byte in it, encode the decoded
// path anew, and so turn an encoded slash elsewhere into a separator.
func pinPath(r *http.Request) {
	if r.URL.RawPath == "" || r.URL.EscapedPath() == r.URL.RawPath {
		return
	}
	var b strings.Builder
	for i := range len(r.URL.RawPath) {
		switch c := r.URL.RawPath[i]; {
		case c == '%', c == '/', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.IndexByte("-._~!$&'()*+,;=:@", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	r.URL.RawPath = b.String()
}

// unescapeVars decodes path variables in place. What is not text can name
// nothing here, and is refused before anything sees it.
func unescapeVars(vars map[string]string) error {
	for name, enc := range vars {
		v := enc
		if strings.IndexByte(enc, '%') >= 0 {
			var err error
			if v, err = url.PathUnescape(enc); err != nil {
				return matrix.Errorf(matrix.InvalidParam, "%s in the path: bad percent-encoding", name)
			}
		}
		if !utf8.ValidString(v) || strings.IndexByte(v, 0) >= 0 {
			return matrix.Errorf(matrix.InvalidParam, "%s in the path: not text", name)
		}
		vars[name] = v
	}
	return nil
}
