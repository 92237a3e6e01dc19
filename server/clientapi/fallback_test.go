package clientapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"hearth/server/account"
	"hearth/server/clientapi"
	"hearth/storage/matrix"
)

// form submits the page's form.
func (s *site) form(stage string, fields url.Values) *answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), "POST", s.url+v3+"/auth/"+stage+"/fallback/web", strings.NewReader(fields.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.send(req)
}

// A client that knows no stage at all registers through a browser.
func TestFallbackRegister(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *account.Options, _ *clientapi.Options) {
		o.Registration = account.Token
		o.Terms = []account.Policy{{ID: "tos", Version: "1", Language: "en", Name: "The <Terms>", URL: "https://hs.test/t"}}
	})
	if _, err := s.accounts.AddToken(context.Background(), "tok", 0, 0); err != nil {
		t.Fatal(err)
	}
	session := s.do("", "POST", v3+"/register", `{"username":"alice","password":"long enough"}`).challenge("")
	page := func(stage string) *answer {
		return s.do("", "GET", v3+"/auth/"+stage+"/fallback/web?session="+session, "").ok()
	}
	got := page(account.StageRegToken)
	if !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") || !strings.Contains(got.raw, `name="token"`) || !strings.Contains(got.raw, session) {
		t.Fatalf("got %v %s", got.header, got.raw)
	}
	if csp := got.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(got.raw, "<script") {
		t.Fatalf("policy %q", csp)
	}
	if got = page(account.StageTerms); !strings.Contains(got.raw, "Nothing to do") { // not yet
		t.Fatalf("got %s", got.raw)
	}
	got = s.form(account.StageRegToken, url.Values{"session": {session}, "token": {`"><script>`}})
	if got.status != 401 || !strings.Contains(got.raw, "not valid") || strings.Contains(got.raw, "<script>") {
		t.Fatalf("got %d %s", got.status, got.raw)
	}
	got = s.form(account.StageRegToken, url.Values{"session": {session}, "token": {"tok"}}).ok()
	if !strings.Contains(got.raw, `window.opener.postMessage("authDone", "*")`) || !strings.Contains(got.raw, "window.onAuthDone();") {
		t.Fatalf("got %s", got.raw)
	}
	script := got.raw[strings.Index(got.raw, "<script>")+len("<script>") : strings.Index(got.raw, "</script>")]
	sum := sha256.Sum256([]byte(script))
	if !strings.Contains(got.header.Get("Content-Security-Policy"), base64.StdEncoding.EncodeToString(sum[:])) {
		t.Fatalf("policy %q", got.header.Get("Content-Security-Policy"))
	}
	bare := text(map[string]any{"auth": map[string]any{"session": session}})
	a := s.do("", "POST", v3+"/register", bare)
	if a.challenge("") != session || text(a.body["completed"]) != `["m.login.registration_token"]` {
		t.Fatalf("got %s", a.raw)
	}
	if got = page(account.StageTerms); !strings.Contains(got.raw, "The &lt;Terms&gt;") || !strings.Contains(got.raw, "https://hs.test/t") {
		t.Fatalf("got %s", got.raw)
	}
	if got = s.form(account.StageTerms, url.Values{"session": {session}}); !strings.Contains(got.raw, "have to accept") {
		t.Fatalf("got %s", got.raw)
	}
	s.form(account.StageTerms, url.Values{"session": {session}, "accept": {"yes"}}).ok()
	// The session alone comes back: the request it began with is performed.
	if a = s.do("", "POST", v3+"/register", bare).ok(); a.str("user_id") != "@alice:hs.test" {
		t.Fatalf("got %s", a.raw)
	}
	if got = page(account.StageTerms); !strings.Contains(got.raw, "Nothing to do") {
		t.Fatalf("got %s", got.raw)
	}
}

func TestFallbackPassword(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.register("alice")
	const path = v3 + "/account/deactivate"
	session := a.do("POST", path, `{}`).challenge("")
	got := s.form(account.StagePassword, url.Values{"session": {session}, "password": {"wrong"}})
	if got.status != 401 || !strings.Contains(got.raw, "wrong password") {
		t.Fatalf("got %d %s", got.status, got.raw)
	}
	bare := text(map[string]any{"auth": map[string]any{"session": session}})
	a.do("POST", path, bare).challenge("")
	s.form(account.StagePassword, url.Values{"session": {session}, "password": {goodSecret}}).ok()
	a.alive()
	a.do("POST", path, bare).ok()
	a.dead()
}

func TestFallbackRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.do("", "GET", v3+"/auth/m.login.sso/fallback/web?session=x", "").fails(404, matrix.NotFound)
	s.do("", "GET", v3+"/auth/m.login.dummy/fallback/web", "").fails(400, matrix.MissingParam)
	s.form("m.login.dummy", url.Values{}).fails(400, matrix.MissingParam)
	if a := s.form("m.login.dummy", url.Values{"session": {"x"}}).ok(); !strings.Contains(a.raw, "Nothing to do") {
		t.Fatalf("got %s", a.raw)
	}
	s.form("m.login.dummy", url.Values{"session": {strings.Repeat("x", 17<<10)}}).fails(400, matrix.BadJSON)
	session := s.do("", "POST", v3+"/register", `{}`).challenge("")
	if a := s.do("", "GET", v3+"/auth/m.login.password/fallback/web?session="+session, "").ok(); !strings.Contains(a.raw, "Nothing to do") {
		t.Fatalf("the page offers a stage that no flow has: %s", a.raw)
	}
}

func TestLoginPage(t *testing.T) {
	t.Parallel()
	a := newSite(t).do("", "GET", "/_matrix/static/client/login/?device_id=X", "").ok()
	script := a.raw[strings.Index(a.raw, "<script>")+len("<script>") : strings.Index(a.raw, "</script>")]
	sum := sha256.Sum256([]byte(script))
	// A browser runs the script only if the policy has the hash of what it got.
	if !strings.Contains(a.header.Get("Content-Security-Policy"), base64.StdEncoding.EncodeToString(sum[:])) {
		t.Fatalf("policy %q", a.header.Get("Content-Security-Policy"))
	}
	if !strings.Contains(script, "window.matrixLogin.onLogin(body)") || !strings.Contains(a.raw, "Log in to hs.test") {
		t.Fatalf("got %s", a.raw)
	}
}
