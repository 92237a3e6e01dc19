package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"hearth/server/testserver"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// endpoint is one row of the table from which bad requests are made.
type endpoint struct {
	method, path string            // the route's template
	vars         map[string]string // valid path variables
	query        string            // a valid query
	body         string            // a valid body; empty: the endpoint takes none
	noBody       string            // what an absent body is answered; empty: M_NOT_JSON
	public       bool              // needs no access token
	fields       []field           // of the body
	params       []param           // of the query and the path
	empty        map[string]string // what an empty path variable is answered where the path is another endpoint's then
}

// field is one key of a body.
type field struct {
	at     string // JSON pointer
	kind   kind
	absent string // what a request without it is answered; empty: anything but a 5xx
	bad    []bad  // values of the right type that are wrong all the same
}

// param is one query parameter or, in braces, path variable.
type param struct {
	name string
	bad  []bad // values, as they stand in the URL
}

// bad is a wrong value and its answer, "400 M_BAD_JSON". Several may be right,
// separated by "|".
type bad struct{ value, want string }

type kind int

const (
	kindString kind = iota
	kindInt
	kindBool
	kindObject
	kindArray
	kindAny // part of a content that may be anything
)

// Answers that the kernel gives before the endpoint sees anything.
const (
	badJSON      = "400 M_BAD_JSON"
	notJSON      = "400 M_NOT_JSON"
	invalidParam = "400 M_INVALID_PARAM"
	missingParam = "400 M_MISSING_PARAM"
	tooLarge     = "413 M_TOO_LARGE"
	refused      = "4xx" // some refusal: for values that are wrong in two ways at once
	anything     = ""    // anything but a 5xx
)

// attempt is one bad request.
type attempt struct {
	what         string
	method, path string
	token        *matrix.Token // nil: the caller's own
	body         any
	want         string
}

// attempts are all bad requests of an endpoint.
func (e endpoint) attempts() []attempt {
	var all []attempt
	add := func(what, path string, body any, want string) {
		all = append(all, attempt{what: what, method: e.method, path: path, body: body, want: want})
	}
	for _, a := range e.badBodies() {
		add(a.value, e.url("", ""), a.body, a.want)
	}
	for _, f := range e.fields {
		for _, m := range f.mutations(e.body) {
			add(f.at+" "+m.value, e.url("", ""), m.body, m.want)
		}
	}
	var body any
	if e.body != "" {
		body = e.body
	}
	for _, p := range e.params {
		for _, b := range p.bad {
			add(fmt.Sprintf("%s=%.60s", p.name, b.value), e.url(p.name, b.value), body, b.want)
		}
	}
	for name := range e.vars {
		for _, b := range badPathVariables {
			if other, ok := e.empty[name]; ok && b.value == "" {
				b.want = other
			}
			add(fmt.Sprintf("{%s}=%.60s", name, b.value), e.url("{"+name+"}", b.value), body, b.want)
		}
	}
	if !e.public {
		none, wrong, long := matrix.Token(""), matrix.Token("wrong"), matrix.Token(strings.Repeat("x", 5000))
		for token, want := range map[*matrix.Token]string{&none: "401 M_MISSING_TOKEN", &wrong: "401 M_UNKNOWN_TOKEN", &long: "401 M_UNKNOWN_TOKEN"} {
			all = append(all, attempt{what: fmt.Sprintf("token of %d bytes", len(token.Reveal())), method: e.method, path: e.url("", ""), token: token, body: body, want: want})
		}
	}
	all = append(all, attempt{what: "wrong method", method: "PATCH", path: e.url("", ""), body: body, want: "405 M_UNRECOGNIZED"})
	return all
}

// badPathVariables are wrong in every path.
var badPathVariables = []bad{
	{"%ff", invalidParam},
	{"a%00b", invalidParam},
	{"%c3%28", invalidParam},
	{"%ed%a0%80", invalidParam}, // a surrogate in UTF-8
	{"a/b/c/d", "404 M_UNRECOGNIZED"},
	{"", "404 M_UNRECOGNIZED"},
	{strings.Repeat("x", 20_000), refused},
	{strings.Repeat("%41", 5_000), refused},
}

// url fills the template, with one variable or query parameter replaced.
func (e endpoint) url(name, value string) string {
	path := e.path
	for v, good := range e.vars {
		if name == "{"+v+"}" {
			good = value
		}
		path = strings.ReplaceAll(path, "{"+v+"}", good)
	}
	query := e.query
	if name != "" && !strings.HasPrefix(name, "{") {
		var kept []string
		for _, pair := range strings.Split(e.query, "&") {
			if k, _, _ := strings.Cut(pair, "="); k != name && pair != "" {
				kept = append(kept, pair)
			}
		}
		query = strings.Join(append(kept, name+"="+value), "&")
	}
	if query != "" {
		path += "?" + query
	}
	return path
}

// mutation is a bad body.
type mutation struct {
	value string // what is wrong, for people
	body  any
	want  string
}

// badBodies are wrong whatever the endpoint wants.
func (e endpoint) badBodies() []mutation {
	if e.body == "" {
		return nil
	}
	noBody := e.noBody
	if noBody == "" {
		noBody = notJSON
	}
	return []mutation{
		{"no body", nil, noBody},
		{"blank body", "  \n", noBody},
		{"cut body", e.body[:len(e.body)-1], notJSON},
		{"body and more", e.body + "x", notJSON},
		{"two bodies", e.body + e.body, notJSON},
		{"array", "[" + e.body + "]", badJSON},
		{"string", `"x"`, badJSON},
		{"number", "1", badJSON},
		{"huge number", "1" + strings.Repeat("0", 400), badJSON},
		{"null", "null", badJSON},
		{"huge exponent", hole(e.body, "/zzz", "1e309"), badJSON},
		{"hugest exponent", hole(e.body, "/zzz", "[-1E+999999999999999999999]"), badJSON},
		{"very long number", hole(e.body, "/zzz", `{"a":"\\\"","b":-`+strings.Repeat("9", 5000)+"}"), badJSON},
		{"not UTF-8", hole(e.body, "/zzz", "\"\xff\xfe\""), notJSON},
		{"key not UTF-8", "{\"\xc3\x28\":1," + e.body[1:], notJSON},
		{"lone surrogate", hole(e.body, "/zzz", `"\ud800"`), notJSON},
		{"control character", hole(e.body, "/zzz", "\"\x01\""), notJSON},
		{"comment", hole(e.body, "/zzz", "1/**/"), notJSON},
		{"leading zero", hole(e.body, "/zzz", "01"), notJSON},
		{"NaN", hole(e.body, "/zzz", "NaN"), notJSON},
		{"duplicate unknown key", hole(e.body, "/zzz", `1,"zzz":1`), badJSON},
		{"deep nesting", hole(e.body, "/zzz", strings.Repeat("[", 101)+strings.Repeat("]", 101)), badJSON},
		{"deep nesting of objects", hole(e.body, "/zzz", strings.Repeat(`{"a":`, 100_000)+"1"+strings.Repeat("}", 100_000)), badJSON + "|" + tooLarge},
		{"unclosed nesting", strings.Repeat("[", 500_000), badJSON + "|" + tooLarge},
		{"too large", hole(e.body, "/zzz", `"`+strings.Repeat("x", 9<<20)+`"`), tooLarge},
	}
}

// mutations are bodies in which this field is wrong.
func (f field) mutations(body string) []mutation {
	var all []mutation
	add := func(value, raw, want string) { all = append(all, mutation{value, hole(body, f.at, raw), want}) }
	all = append(all, mutation{"missing", without(body, f.at), f.absent})
	add("null", "null", anything)
	for k, raw := range map[kind]string{kindString: `"x"`, kindInt: "1", kindBool: "true", kindObject: "{}", kindArray: "[]"} {
		if k != f.kind && f.kind != kindAny {
			add("wrong type "+raw, raw, badJSON)
		}
	}
	good := value(body, f.at)
	add("twice", fmt.Sprintf("%s,%q:%s", good, f.at[strings.LastIndexByte(f.at, '/')+1:], good), badJSON)
	switch f.kind {
	case kindString:
		add("not UTF-8", "\"\xff\"", notJSON)
		add("lone surrogate", `"\udc00"`, notJSON)
		add("NUL", `"a\u0000b"`, anything)
		add("very long", `"`+strings.Repeat("x", 900_000)+`"`, refused)
	case kindInt:
		for _, raw := range []string{"1.5", "1e400", "-1e400", "9223372036854775808", "1" + strings.Repeat("0", 400)} {
			add(raw[:min(len(raw), 24)], raw, badJSON)
		}
		add("negative", "-1", anything)
	case kindObject:
		add("deep", strings.Repeat(`{"a":`, 101)+"1"+strings.Repeat("}", 101), badJSON)
	case kindArray:
		add("deep", strings.Repeat("[", 101)+strings.Repeat("]", 101), badJSON)
		add("mixed", `[{},1,"x",null]`, badJSON)
	}
	for _, b := range f.bad {
		add(fmt.Sprintf("%.60s", b.value), b.value, b.want)
	}
	return all
}

const holeMark = "\u2063hole\u2063"

// hole puts raw text, which need not be JSON, where the pointer shows.
func hole(body, at, raw string) string {
	return strings.Replace(edit(body, at, func(m map[string]any, key string) { m[key] = holeMark }), `"`+holeMark+`"`, raw, 1)
}

// without removes what the pointer shows.
func without(body, at string) string {
	return edit(body, at, func(m map[string]any, key string) { delete(m, key) })
}

// value is the JSON that the pointer shows.
func value(body, at string) string {
	var good any
	edit(body, at, func(m map[string]any, key string) { good = m[key] })
	b, err := json.Marshal(good)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func edit(body, at string, fn func(m map[string]any, key string)) string {
	var root map[string]any
	if err := json.Unmarshal([]byte(body), &root); err != nil {
		panic(fmt.Sprintf("%s: %v", body, err))
	}
	steps := strings.Split(at, "/")[1:]
	m := root
	for _, s := range steps[:len(steps)-1] {
		m = m[unescape(s)].(map[string]any)
	}
	fn(m, unescape(steps[len(steps)-1]))
	b, err := json.Marshal(root)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func unescape(s string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(s) }

// TestBadInput sends every endpoint every bad request that its row makes: each
// is answered by the code the specification has for it, none by a 5xx, and
// none of those refused stores anything.
func TestBadInput(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t, testserver.Config(allEndpoints))
	hs.Register("alice")
	watch := storagetest.NewWatch(t, hs.Dir(), volatileColumns...)
	n := 0
	for _, e := range endpoints(hs) {
		t.Run(e.method+" "+e.path, func(t *testing.T) {
			n += len(e.attempts())
			runBadInput(t, hs, watch, e)
		})
	}
	t.Logf("%d bad requests", n)
}

func runBadInput(t *testing.T, hs *testserver.Server, watch *storagetest.Watch, e endpoint) {
	alice := hs.Login("alice")
	before := watch.Take()
	for _, a := range e.attempts() {
		token := alice.Token
		if a.token != nil {
			token = *a.token
		}
		got, err := hs.Do(t.Context(), token, a.method, a.path, a.body)
		if err != nil {
			t.Errorf("%s: %v", a.what, err)
			continue
		}
		if !matches(got, a.want) {
			t.Errorf("%s: got %.200s, want %s", a.what, got, a.want)
		}
		if got.Status >= 400 && got.Status != 401 {
			wantErrorBody(t, a.what, got)
		}
		after := watch.Take()
		if changed := before.Changed(after); len(changed) > 0 && got.Status >= 400 {
			t.Errorf("%s: answered %d and changed %v", a.what, got.Status, changed)
		}
		before = after
		if got.Status < 300 { // it may have ended the session
			alice = hs.Login("alice")
			before = watch.Take()
		}
	}
}

// matches compares an answer with "status code", alternatives separated by "|".
func matches(a *testserver.Answer, want string) bool {
	if a.Status >= 500 {
		return false
	}
	switch want {
	case anything:
		return true
	case refused:
		return a.Status >= 400
	}
	return slices.Contains(strings.Split(want, "|"), strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, a.Code())))
}

// wantErrorBody checks the standard error response.
func wantErrorBody(t *testing.T, what string, a *testserver.Answer) {
	t.Helper()
	var body struct {
		Code  string `json:"errcode"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(a.Body, &body); err != nil || !strings.HasPrefix(body.Code, "M_") || body.Error == "" {
		t.Errorf("%s: not a standard error: %.200s", what, a)
	}
	if ct := a.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("%s: content type %q", what, ct)
	}
}
