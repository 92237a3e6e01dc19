package web_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/web"
	"hearth/storage/matrix"
)

func nested(depth int) string {
	return `{"messages":{},"x":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}"
}

func TestBodies(t *testing.T) {
	t.Parallel()
	s := newKernel(t, web.Options{})
	const ok = `"in":1}`
	for _, tt := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"good", `{"messages":{"@b:test":{"*":{"a":1.5e3}}},"n":1}`, 200, ok},
		{"unknown key", `{"messages":{"@b:test":{}},"else":[null]}`, 200, ok},
		{"white space", " \r\n\t{\"messages\":{\"@b:test\":{}}} \n", 200, ok},
		{"brackets in a string", `{"messages":{"@b:test":{}},"s":"` + strings.Repeat(`[{\"`, 200) + `"}`, 200, ok},
		{"deep enough", nested(web.MaxDepth - 1), 200, `"in":0}`},
		{"empty", ``, 400, "M_NOT_JSON"},
		{"blank", "  \n", 400, "M_NOT_JSON"},
		{"no JSON", `hello`, 400, "M_NOT_JSON"},
		{"cut", `{"messages":{`, 400, "M_NOT_JSON"},
		{"two values", `{"messages":{}}{}`, 400, "M_NOT_JSON"},
		{"trailing comma", `{"messages":{},}`, 400, "M_NOT_JSON"},
		{"single quotes", `{'messages':{}}`, 400, "M_NOT_JSON"},
		{"not UTF-8", "{\"messages\":{},\"s\":\"\xff\"}", 400, "M_NOT_JSON"},
		{"not UTF-8 in a skipped value", "{\"messages\":{},\"x\":[\"\xff\"]}", 400, "M_NOT_JSON"},
		{"lone surrogate", `{"messages":{},"x":"\ud800"}`, 400, "M_NOT_JSON"},
		{"byte order mark", "\xef\xbb\xbf{\"messages\":{}}", 400, "M_NOT_JSON"},
		{"control character", "{\"messages\":{},\"s\":\"\x01\"}", 400, "M_NOT_JSON"},
		{"NUL", "{\"messages\":{}}\x00", 400, "M_NOT_JSON"},
		{"duplicate key", `{"messages":{},"messages":{}}`, 400, "M_BAD_JSON"},
		{"duplicate key, escaped", `{"messages":{},"\u006dessages":{}}`, 400, "M_BAD_JSON"},
		{"duplicate key in content", `{"messages":{"@b:test":{"*":{"a":1,"a":2}}}}`, 400, "M_BAD_JSON"},
		{"duplicate key in a skipped value", `{"messages":{},"x":{"a":1,"a":2}}`, 400, "M_BAD_JSON"},
		{"duplicate map key", `{"messages":{"@b:test":{},"@b:test":{}}}`, 400, "M_BAD_JSON"},
		{"null", `null`, 400, "M_BAD_JSON"},
		{"array", `[]`, 400, "M_BAD_JSON"},
		{"string", `"x"`, 400, "M_BAD_JSON"},
		{"number", `1`, 400, "M_BAD_JSON"},
		{"missing", `{}`, 400, "M_MISSING_PARAM"},
		{"null for a required key", `{"messages":null}`, 400, "M_MISSING_PARAM"},
		{"wrong type", `{"messages":[]}`, 400, "M_BAD_JSON"},
		{"wrong type inside", `{"messages":{"@b:test":1}}`, 400, "M_BAD_JSON"},
		{"bad identifier as a key", `{"messages":{"b":{}}}`, 400, "M_BAD_JSON"},
		{"string for a number", `{"messages":{},"n":"1"}`, 400, "M_BAD_JSON"},
		{"fraction for an integer", `{"messages":{},"n":1.5}`, 400, "M_BAD_JSON"},
		{"integer out of range", `{"messages":{},"n":9223372036854775808}`, 400, "M_BAD_JSON"},
		{"number out of range", `{"messages":{},"f":1e999}`, 400, "M_BAD_JSON"},
		{"number of a thousand digits", `{"messages":{},"n":` + strings.Repeat("9", 1000) + `}`, 400, "M_BAD_JSON"},
		{"number out of range where it is only stored", `{"messages":{"@b:test":{"*":{"a":[-1e309]}}}}`, 400, "M_BAD_JSON"},
		{"number of a thousand digits where it is only stored", `{"messages":{"@b:test":{"*":{"a\"":` + strings.Repeat("9", 1000) + `}}}}`, 400, "M_BAD_JSON"},
		{"number out of range in a skipped value", `{"messages":{},"x":[1,1E+400]}`, 400, "M_BAD_JSON"},
		{"largest number", `{"messages":{"@b:test":{"*":{"a":1.7976931348623157e308,"b":1e-999}}},"x":"9e999"}`, 200, ok},
		{"too deep", nested(web.MaxDepth), 400, "M_BAD_JSON"},
		{"very deep", nested(1500), 400, "M_BAD_JSON"},
		{"too large", `{"s":"` + strings.Repeat("x", 4096) + `"}`, 413, "M_TOO_LARGE"},
	} {
		for _, chunked := range []bool{false, true} {
			res, got := doChunked(t, s, http.MethodPut, put+"t/1", tt.body, chunked)
			if res.StatusCode != tt.status || !strings.Contains(got, tt.want) {
				t.Errorf("%s (chunked %v): got %d %s, want %d %s", tt.name, chunked, res.StatusCode, got, tt.status, tt.want)
			}
			if ct := res.Header.Get("Content-Type"); ct != "application/json" {
				t.Errorf("%s: content type %q", tt.name, ct)
			}
		}
	}
}

// TestErrorsDoNotLeakGoTypes looks at what an error says of the body.
func TestErrorsDoNotLeakGoTypes(t *testing.T) {
	t.Parallel()
	s := newKernel(t, web.Options{})
	_, got := do(t, s, http.MethodPut, put+"t/1", `{"messages":{},"n":"secret-value"}`)
	if want := `{"errcode":"M_BAD_JSON","error":"Wrong value at /n"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, got = do(t, s, http.MethodPut, put+"t/1", `{"`+strings.Repeat("é", 500)+`":{"a":1,"a":2}}`)
	if len(got) > 300 || !strings.Contains(got, "…") {
		t.Errorf("a long key is repeated: %s", got)
	}
}

func TestOptionalBody(t *testing.T) {
	t.Parallel()
	s := newKernel(t, web.Options{})
	for body, want := range map[string]int{"": 200, " ": 200, "{}": 200, "[]": 400, "x": 400} {
		if res, got := do(t, s, http.MethodPost, "/_matrix/client/v3/optional", body); res.StatusCode != want {
			t.Errorf("%q: got %d %s, want %d", body, res.StatusCode, got, want)
		}
	}
}

// written writes n bytes of JSON in small pieces, and then fails if told so.
type written struct {
	n   int
	err error
}

func (w written) WriteJSON(out io.Writer) error {
	for i := range w.n {
		if _, err := fmt.Fprintf(out, "%c", 'a'+i%26); err != nil {
			return err
		}
	}
	return w.err
}

type teapot struct{}

func (teapot) Status() int { return http.StatusTeapot }

type closer struct {
	N      int `json:"n"`
	closed chan struct{}
}

func (c closer) Close() error { close(c.closed); return nil }

func answers(out any, err error) web.Handler {
	return web.Public(func(context.Context, *web.Call, web.NoBody) (any, error) { return out, err })
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	closed := closer{1, make(chan struct{})}
	boom := fmt.Errorf("secret detail")
	s := newKernel(t, web.Options{},
		web.Route{Method: "GET", Path: "/empty", Handler: answers(web.Empty{}, nil)},
		web.Route{Method: "GET", Path: "/raw", Handler: answers(jsontext.Value(`{"a": 1}`), nil)},
		web.Route{Method: "GET", Path: "/short", Handler: answers(written{n: 10}, nil)},
		web.Route{Method: "GET", Path: "/long", Handler: answers(written{n: 100_000}, nil)},
		web.Route{Method: "GET", Path: "/fails", Handler: answers(written{10, boom}, nil)},
		web.Route{Method: "GET", Path: "/fails-late", Handler: answers(written{100_000, boom}, nil)},
		web.Route{Method: "GET", Path: "/teapot", Handler: answers(teapot{}, nil)},
		web.Route{Method: "GET", Path: "/closer", Handler: answers(closed, nil)},
		web.Route{Method: "GET", Path: "/cannot", Handler: answers(make(chan int), nil)},
		web.Route{Method: "GET", Path: "/internal", Handler: answers(nil, boom)},
		web.Route{Method: "GET", Path: "/wrapped", Handler: answers(nil, fmt.Errorf("get: %w", matrix.Errorf(matrix.Forbidden, "no")))},
		web.Route{Method: "GET", Path: "/extra", Handler: answers(nil, &matrix.Error{Status: 401, Code: matrix.UnknownToken, Message: "no", Extra: map[string]any{"soft_logout": true}})},
	)
	const internal = `{"errcode":"M_UNKNOWN","error":"Internal server error"}`
	for _, tt := range []struct {
		path   string
		status int
		want   string
		length int64
	}{
		{"/empty", 200, `{}`, 2},
		{"/raw", 200, `{"a": 1}`, 8},
		{"/short", 200, "abcdefghij", 10},
		{"/long", 200, "", -1},
		{"/fails", 500, internal, int64(len(internal))},
		{"/teapot", 418, "{}", 2},
		{"/closer", 200, `{"n":1}`, 7},
		{"/cannot", 500, internal, int64(len(internal))},
		{"/internal", 500, internal, int64(len(internal))},
		{"/wrapped", 403, `{"errcode":"M_FORBIDDEN","error":"no"}`, 38},
		{"/extra", 401, `{"errcode":"M_UNKNOWN_TOKEN","error":"no","soft_logout":true}`, 61},
	} {
		res, got := do(t, s, http.MethodGet, tt.path, "")
		if res.StatusCode != tt.status || tt.want != "" && got != tt.want || res.ContentLength != tt.length {
			t.Errorf("%s: got %d %s (length %d), want %d %s (%d)", tt.path, res.StatusCode, got, res.ContentLength, tt.status, tt.want, tt.length)
		}
		if tt.path == "/long" && len(got) != 100_000 {
			t.Errorf("/long: got %d bytes", len(got))
		}
	}
	<-closed.closed
	if err := getErr(t, s, "/fails-late"); err == nil {
		t.Error("a response that failed half-way looks whole")
	}
}
