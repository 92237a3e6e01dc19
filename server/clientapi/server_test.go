package clientapi_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"strconv"
	"strings"
	"testing"
	"time"

	"hearth/server/account"
	"hearth/server/clientapi"
	"hearth/storage/matrix"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	a := newSite(t).do("", "GET", "/_matrix/client/versions", "").ok()
	list := a.body["versions"].([]any)
	if list[0] != "v1.1" || list[len(list)-1] != "v1.19" || len(list) != 19 || a.body["unstable_features"] == nil {
		t.Fatalf("got %s", a.raw)
	}
}

func TestWellKnown(t *testing.T) {
	t.Parallel()
	bare := newSite(t)
	bare.do("", "GET", "/.well-known/matrix/client", "").fails(404, matrix.NotFound)
	bare.do("", "GET", "/.well-known/matrix/support", "").fails(404, matrix.NotFound)
	s := newSite(t, func(_ *account.Options, o *clientapi.Options) {
		o.PublicURL = "https://m.hs.test"
		o.Support = clientapi.Support{Email: "root@hs.test", MatrixID: "@root:hs.test", Page: "https://hs.test/help"}
	})
	a := s.do("", "GET", "/.well-known/matrix/client", "").ok()
	if a.raw != `{"m.homeserver":{"base_url":"https://m.hs.test"}}` || a.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Fatalf("got %s", a.raw)
	}
	a = s.do("", "GET", "/.well-known/matrix/support", "").ok()
	want := `{"contacts":[{"matrix_id":"@root:hs.test","email_address":"root@hs.test","role":"m.role.admin"}],"support_page":"https://hs.test/help"}`
	if a.raw != want {
		t.Fatalf("got %s", a.raw)
	}
	page := newSite(t, func(_ *account.Options, o *clientapi.Options) { o.Support.Page = "https://hs.test/help" })
	if a = page.do("", "GET", "/.well-known/matrix/support", "").ok(); a.raw != `{"support_page":"https://hs.test/help"}` {
		t.Fatalf("got %s", a.raw)
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.do("", "GET", v3+"/capabilities", "").fails(401, matrix.MissingToken)
	a := s.register("alice").do("GET", v3+"/capabilities", "").ok()
	caps := a.body["capabilities"].(map[string]any)
	if text(caps["m.change_password"]) != `{"enabled":true}` || text(caps["m.get_login_token"]) != `{"enabled":true}` || text(caps["m.3pid_changes"]) != `{"enabled":false}` {
		t.Fatalf("got %s", a.raw)
	}
}

func TestTurnServer(t *testing.T) {
	t.Parallel()
	none := newSite(t)
	none.do("", "GET", v3+"/voip/turnServer", "").fails(401, matrix.MissingToken)
	if a := none.register("alice").do("GET", v3+"/voip/turnServer", "").ok(); a.raw != "{}" {
		t.Fatalf("got %s", a.raw)
	}
	s := newSite(t, func(_ *account.Options, o *clientapi.Options) {
		o.Turn = clientapi.Turn{URIs: []string{"turn:turn.hs.test?transport=udp"}, Secret: "shh", TTL: time.Hour}
	})
	a := s.register("alice").do("GET", v3+"/voip/turnServer", "").ok()
	until, user, _ := strings.Cut(a.str("username"), ":")
	sec, err := strconv.ParseInt(until, 10, 64)
	left := time.Until(time.Unix(sec, 0))
	if err != nil || user != "@alice:hs.test" || left > time.Hour || left < 30*time.Minute || a.body["ttl"] != float64(3600) {
		t.Fatalf("got %s", a.raw)
	}
	m := hmac.New(sha1.New, []byte("shh"))
	m.Write([]byte(a.str("username")))
	if a.str("password") != base64.StdEncoding.EncodeToString(m.Sum(nil)) || text(a.body["uris"]) != `["turn:turn.hs.test?transport=udp"]` {
		t.Fatalf("got %s", a.raw)
	}
}

// What is not there yet is not pretended.
func TestNotThere(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.register("alice")
	for _, path := range []string{
		v3 + "/account/3pid", v3 + "/profile/" + esc(u.id), v3 + "/keys/changes", v3 + "/pushrules/", v1 + "/auth_metadata", v3 + "/nonsense",
	} {
		u.do("GET", path, "").fails(404, matrix.Unrecognized)
	}
	u.do("POST", v3+"/keys/upload", `{}`).fails(404, matrix.Unrecognized)
}
