package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/web"
	"hearth/storage/matrix"
)

// people is an Authenticator with one user, whose token is "good".
type people struct{}

func (people) Authenticate(_ context.Context, t matrix.Token) (web.Caller, error) {
	if t.Reveal() != "good" {
		return web.Caller{}, matrix.Errorf(matrix.UnknownToken, "Unknown access token")
	}
	return web.Caller{User: "@a:test", UserNum: 1, Device: "D", DeviceNum: 2}, nil
}

type putIn struct {
	Messages map[matrix.UserID]map[string]jsontext.Value `json:"messages"`
	N        int64                                       `json:"n"`
	F        float64                                     `json:"f"`
	S        string                                      `json:"s"`
}

func (in putIn) Validate() error {
	if in.Messages == nil {
		return matrix.Errorf(matrix.MissingParam, "messages is missing")
	}
	return nil
}

type putOut struct {
	Vars []string      `json:"vars"`
	User matrix.UserID `json:"user"`
	In   int           `json:"in"`
}

// newKernel is a kernel with a few endpoints, changed by more.
func newKernel(t *testing.T, opt web.Options, more ...web.Route) *httptest.Server {
	t.Helper()
	opt.Auth = people{}
	k := web.New(opt)
	k.Routes([]web.Route{
		{Method: "PUT", Path: "/_matrix/client/v3/sendToDevice/{eventType}/{txnId}", MaxBody: 4096,
			Handler: web.Authed(func(_ context.Context, c *web.Call, in putIn) (putOut, error) {
				return putOut{[]string{c.Vars["eventType"], c.Vars["txnId"]}, c.User, len(in.Messages)}, nil
			})},
		{Method: "GET", Path: "/_matrix/client/v3/devices/{deviceId}",
			Handler: web.Authed(func(_ context.Context, c *web.Call, _ web.NoBody) (putOut, error) {
				return putOut{Vars: []string{c.Vars["deviceId"]}}, nil
			})},
		{Method: "DELETE", Path: "/_matrix/client/v3/devices/{deviceId}", Handler: web.Authed(empty)},
		{Method: "GET", Path: "/_matrix/client/versions", Handler: web.Public(empty)},
		{Method: "POST", Path: "/_matrix/client/v3/optional", BodyOptional: true,
			Handler: web.Public(func(_ context.Context, _ *web.Call, in struct{ N int }) (web.Empty, error) { return web.Empty{}, nil })},
	})
	k.Routes(more)
	s := httptest.NewServer(k.Handler())
	t.Cleanup(s.Close)
	return s
}

func empty(context.Context, *web.Call, web.NoBody) (web.Empty, error) { return web.Empty{}, nil }

// do sends a request with a good token and returns status and body.
func do(t *testing.T, s *httptest.Server, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer good")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var b strings.Builder
	if _, err := copyTo(&b, res.Body); err != nil {
		t.Fatal(err)
	}
	return res, b.String()
}

const put = "/_matrix/client/v3/sendToDevice/"

func TestPaths(t *testing.T) {
	s := newKernel(t, web.Options{})
	for _, tt := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"PUT", put + "m.test/1", 200, `{"vars":["m.test","1"],"user":"@a:test","in":1}`},
		{"PUT", put + "a%2Fb/1%25", 200, `{"vars":["a/b","1%"],"user":"@a:test","in":1}`},
		{"PUT", put + "..%2f../..", 200, `{"vars":["../..",".."],"user":"@a:test","in":1}`},
		{"PUT", put + "%2e%2e/+%20", 200, `{"vars":["..","+ "],"user":"@a:test","in":1}`},
		{"PUT", put + `a"%2Fb/1`, 200, `{"vars":["a\"/b","1"],"user":"@a:test","in":1}`},
		{"PUT", put + `a/b"%2Fc`, 200, `{"vars":["a","b\"/c"],"user":"@a:test","in":1}`},
		{"PUT", put + "é/1", 200, `{"vars":["é","1"],"user":"@a:test","in":1}`},
		{"PUT", put + "a%00b/1", 400, "M_INVALID_PARAM"},
		{"PUT", put + "a/%ff", 400, "M_INVALID_PARAM"},
		{"PUT", put + "a//1", 404, "M_UNRECOGNIZED"},
		{"PUT", put + "/1", 404, "M_UNRECOGNIZED"},
		{"PUT", put + "a/", 404, "M_UNRECOGNIZED"},
		{"PUT", put + "a/1/", 404, "M_UNRECOGNIZED"},
		{"PUT", "/_matrix/client/v3/x/../sendToDevice/a/1", 404, "M_UNRECOGNIZED"},
		{"PUT", "//_matrix/client/v3/sendToDevice/a/1", 404, "M_UNRECOGNIZED"},
		{"GET", "/_matrix/client/%76ersions", 404, "M_UNRECOGNIZED"},
		{"GET", "/", 404, "M_UNRECOGNIZED"},
		{"GET", "/nothing", 404, "M_UNRECOGNIZED"},
		{"POST", put + "a/1", 405, "M_UNRECOGNIZED"},
		{"HEAD", put + "a/1", 405, ""},
		{"BREW", put + "a/1", 405, "M_UNRECOGNIZED"},
		{"GET", "/_matrix/client/versions", 200, "{}"},
		{"GET", "/_matrix/client/versions?x=%zz", 400, "M_INVALID_PARAM"},
		{"GET", "/_matrix/client/versions?x=%ff", 400, "M_INVALID_PARAM"},
		{"GET", "/health", 200, `{"status":"ok"}`},
	} {
		res, body := rawDo(t, s, tt.method, tt.path, `{"messages":{"@b:test":{}}}`)
		if res.StatusCode != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s %s: got %d %s, want %d %s", tt.method, tt.path, res.StatusCode, body, tt.status, tt.want)
		}
	}
}

func TestAllow(t *testing.T) {
	s := newKernel(t, web.Options{})
	res, _ := do(t, s, "PATCH", "/_matrix/client/v3/devices/x", "")
	if got, want := res.Header.Get("Allow"), "DELETE, GET, HEAD"; res.StatusCode != 405 || got != want {
		t.Errorf("got %d, Allow %q, want %q", res.StatusCode, got, want)
	}
}
