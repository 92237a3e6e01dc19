package clientapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"hearth/server/account"
	"hearth/server/clientapi"
	"hearth/storage/matrix"
)

func TestLoginFlows(t *testing.T) {
	t.Parallel()
	a := newSite(t).do("", "GET", v3+"/login", "").ok()
	if want := `{"flows":[{"type":"m.login.password"},{"type":"m.login.token","get_login_token":true}]}`; a.raw != want {
		t.Fatalf("got %s", a.raw)
	}
}

func TestLoginPassword(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(_ *account.Options, o *clientapi.Options) { o.PublicURL = "https://hs.test" })
	s.register("alice")
	for name, who := range map[string]map[string]any{
		"localpart":    {"identifier": map[string]any{"type": "m.id.user", "user": "alice"}},
		"user ID":      {"identifier": map[string]any{"type": "m.id.user", "user": "@alice:hs.test"}},
		"upper case":   {"identifier": map[string]any{"type": "m.id.user", "user": "@Alice:hs.test"}},
		"legacy":       {"identifier": nil, "user": "alice"},
		"legacy by ID": {"identifier": nil, "user": "@alice:hs.test"},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.login("", who)
			a.t = t
			a.ok()
			if a.str("user_id") != "@alice:hs.test" || a.str("device_id") == "" || a.str("access_token") == "" {
				t.Fatalf("got %s", a.raw)
			}
			if text(a.body["well_known"]) != `{"m.homeserver":{"base_url":"https://hs.test"}}` {
				t.Fatalf("well_known: %s", a.raw)
			}
		})
	}
}

func TestLoginRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.register("alice")
	gone := s.register("gone")
	gone.do("POST", v3+"/account/deactivate", text(map[string]any{"auth": gone.auth("")})).ok()
	id := func(kind, user string) map[string]any {
		return map[string]any{"identifier": map[string]any{"type": kind, "user": user}}
	}
	for name, c := range map[string]struct {
		change map[string]any
		status int
		code   matrix.Code
	}{
		"wrong password":     {map[string]any{"password": "wrong"}, 403, matrix.Forbidden},
		"long password":      {map[string]any{"password": strings.Repeat("x", 600)}, 403, matrix.Forbidden},
		"unknown user":       {id("m.id.user", "nobody"), 403, matrix.Forbidden},
		"deactivated":        {id("m.id.user", "gone"), 403, matrix.Forbidden},
		"other server":       {id("m.id.user", "@alice:elsewhere.test"), 403, matrix.Forbidden},
		"bad ID":             {id("m.id.user", "@alice"), 403, matrix.Forbidden},
		"third party":        {map[string]any{"identifier": map[string]any{"type": "m.id.thirdparty", "medium": "email", "address": "a@b"}}, 403, matrix.Forbidden},
		"phone":              {map[string]any{"identifier": map[string]any{"type": "m.id.phone", "country": "DE", "phone": "1"}}, 403, matrix.Forbidden},
		"legacy third party": {map[string]any{"identifier": nil, "medium": "email", "address": "a@b"}, 403, matrix.Forbidden},
		"identifier type":    {id("m.id.martian", "alice"), 400, matrix.Unknown},
		"no identifier type": {id("", "alice"), 400, matrix.MissingParam},
		"no user":            {map[string]any{"identifier": nil}, 400, matrix.MissingParam},
		"no password":        {map[string]any{"password": nil}, 400, matrix.MissingParam},
		"no type":            {map[string]any{"type": nil}, 400, matrix.MissingParam},
		"login type":         {map[string]any{"type": "m.login.martian"}, 400, matrix.Unknown},
		"no token":           {map[string]any{"type": "m.login.token"}, 400, matrix.MissingParam},
		"bad token":          {map[string]any{"type": "m.login.token", "token": "x"}, 403, matrix.Forbidden},
		"device type":        {map[string]any{"device_id": 5}, 400, matrix.BadJSON},
		"device nul":         {map[string]any{"device_id": "a\x00"}, 400, matrix.InvalidParam},
		"device length":      {map[string]any{"device_id": strings.Repeat("x", 256)}, 400, matrix.InvalidParam},
		"password type":      {map[string]any{"password": []int{1}}, 400, matrix.BadJSON},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.login("alice", c.change)
			a.t = t
			a.fails(c.status, c.code)
		})
	}
	if n := len(u.do("GET", v3+"/devices", "").ok().body["devices"].([]any)); n != 1 {
		t.Fatalf("failed logins left %d devices", n)
	}
}

// Logging in with the ID of a live device keeps the device and ends its former session.
func TestLoginSameDevice(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	old := s.register("alice")
	before, err := s.accounts.Authenticate(context.Background(), matrix.Token(old.token))
	if err != nil {
		t.Fatal(err)
	}
	fresh := old.again(old.device)
	after, err := s.accounts.Authenticate(context.Background(), matrix.Token(fresh.token))
	if err != nil || after.DeviceNum != before.DeviceNum {
		t.Fatalf("the device became another: %+v, %v", after, err)
	}
	a := old.do("GET", v3+"/account/whoami", "").fails(401, matrix.UnknownToken)
	if a.body["soft_logout"] != true { // its keys are still good: the device lives
		t.Fatalf("got %s", a.raw)
	}
	fresh.alive()

	fresh.do("POST", v3+"/logout", "").ok()
	third := fresh.again(old.device)
	later, err := s.accounts.Authenticate(context.Background(), matrix.Token(third.token))
	if err != nil || later.DeviceNum <= before.DeviceNum {
		t.Fatalf("a later device took over the number of a deleted one: %+v, %v", later, err)
	}
}

func TestLogout(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.register("alice"), s.register("bob")
	a2, a3 := a.again("TWO"), a.again("THREE")
	a.do("POST", v3+"/logout", `{}`).ok()
	a.dead()
	a2.do("GET", v3+"/devices/"+a.device, "").fails(404, matrix.NotFound)
	a2.alive()
	a2.do("POST", v3+"/logout/all", "").ok()
	a2.dead()
	a3.dead()
	b.alive()
	s.do("", "POST", v3+"/logout", "").fails(401, matrix.MissingToken)
	s.do("made up", "POST", v3+"/logout", "").fails(401, matrix.UnknownToken)
}

func TestLoginToken(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.register("alice")
	const path = v1 + "/login/get_token"
	session := u.do("POST", path, "").challenge("")
	a := u.do("POST", path, text(map[string]any{"auth": u.auth(session)})).ok()
	if a.body["expires_in_ms"] != float64(120_000) {
		t.Fatalf("got %s", a.raw)
	}
	use := func(token string) *answer {
		return s.do("", "POST", v3+"/login", text(map[string]any{"type": "m.login.token", "token": token}))
	}
	if got := use(a.str("login_token")).ok(); got.str("user_id") != u.id {
		t.Fatalf("got %s", got.raw)
	}
	use(a.str("login_token")).fails(403, matrix.Forbidden) // once
	// Each token needs a proof of its own.
	u.do("POST", path, text(map[string]any{"auth": map[string]any{"session": session}})).challenge(matrix.Forbidden)

	a = u.do("POST", path, text(map[string]any{"auth": u.auth("")})).ok()
	s.clock.add(3 * time.Minute)
	use(a.str("login_token")).fails(403, matrix.Forbidden)

	a = u.do("POST", path, text(map[string]any{"auth": u.auth("")})).ok()
	u.do("POST", v3+"/account/deactivate", text(map[string]any{"auth": u.auth("")})).ok()
	use(a.str("login_token")).fails(403, matrix.Forbidden)
	s.do("", "POST", path, "").fails(401, matrix.MissingToken)
}

func (s *site) refresh(token string) *answer {
	s.t.Helper()
	return s.do("", "POST", v3+"/refresh", text(map[string]any{"refresh_token": token}))
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.register("alice")
	a := s.login("alice", map[string]any{"device_id": "R", "refresh_token": true}).ok()
	access0, refresh0 := a.str("access_token"), a.str("refresh_token")
	whoami := func(token string) *answer { return s.do(token, "GET", v3+"/account/whoami", "") }

	// Until the new pair is used, the old one is good: an answer may be lost.
	lost := s.refresh(refresh0).ok()
	whoami(access0).ok()
	b := s.refresh(refresh0).ok()
	if b.str("access_token") == "" || b.str("refresh_token") == "" || b.body["expires_in_ms"] != float64(3600_000) {
		t.Fatalf("got %s", b.raw)
	}
	if got := whoami(b.str("access_token")).ok(); got.str("device_id") != "R" {
		t.Fatalf("got %s", got.raw)
	}
	// Now it is not, and neither is the answer that was lost.
	if got := whoami(access0).fails(401, matrix.UnknownToken); got.body["soft_logout"] != true {
		t.Fatalf("got %s", got.raw)
	}
	whoami(lost.str("access_token")).fails(401, matrix.UnknownToken)

	// The use of the new refresh token settles as well.
	c := s.refresh(b.str("refresh_token")).ok()
	d := s.refresh(c.str("refresh_token")).ok()
	whoami(b.str("access_token")).fails(401, matrix.UnknownToken)
	whoami(c.str("access_token")).ok()
	whoami(d.str("access_token")).ok()

	// A refresh token that comes back after its successor was used ends the session.
	reused := s.refresh(c.str("refresh_token")).fails(401, matrix.UnknownToken)
	if reused.body["soft_logout"] != true { // the device lives: its owner logs in to it again
		t.Fatalf("got %s", reused.raw)
	}
	whoami(d.str("access_token")).fails(401, matrix.UnknownToken)
	s.refresh(d.str("refresh_token")).fails(401, matrix.UnknownToken)
	u.do("GET", v3+"/devices/R", "").ok()
	u.alive()
	if s.logs.FilterMessageSnippet("spent refresh token").Len() != 1 {
		t.Fatal("the reuse was not logged")
	}
	for _, e := range s.logs.All() {
		if strings.Contains(e.Message+fmt.Sprint(e.ContextMap()), c.str("refresh_token")) {
			t.Fatal("a token was logged")
		}
	}
}

func TestRefreshRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.register("alice")
	if got := s.refresh("made up").fails(401, matrix.UnknownToken); got.body["soft_logout"] != nil {
		t.Fatalf("got %s", got.raw)
	}
	s.refresh(u.token).fails(401, matrix.UnknownToken) // an access token is no refresh token
	s.do("", "POST", v3+"/refresh", `{}`).fails(400, matrix.MissingParam)
	s.do("", "POST", v3+"/refresh", `{"refresh_token":1}`).fails(400, matrix.BadJSON)
	s.do("", "POST", v3+"/refresh", ``).fails(400, matrix.NotJSON)

	a := s.login("alice", map[string]any{"device_id": "R", "refresh_token": true}).ok()
	s.do(a.str("refresh_token"), "GET", v3+"/account/whoami", "").fails(401, matrix.UnknownToken)
	s.do(a.str("access_token"), "POST", v3+"/logout", "").ok()
	s.refresh(a.str("refresh_token")).fails(401, matrix.UnknownToken)
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *account.Options, _ *clientapi.Options) { o.AccessTokenTTL = time.Nanosecond })
	s.register("alice")
	a := s.login("alice", map[string]any{"refresh_token": true}).ok()
	got := s.do(a.str("access_token"), "GET", v3+"/account/whoami", "").fails(401, matrix.UnknownToken)
	if got.body["soft_logout"] != true {
		t.Fatalf("got %s", got.raw)
	}
	s.refresh(a.str("refresh_token")).ok()
}

func TestRefreshTokenExpires(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *account.Options, _ *clientapi.Options) { o.RefreshTokenTTL = time.Nanosecond })
	s.register("alice")
	a := s.login("alice", map[string]any{"refresh_token": true}).ok()
	if got := s.refresh(a.str("refresh_token")).fails(401, matrix.UnknownToken); got.body["soft_logout"] != true {
		t.Fatalf("got %s", got.raw)
	}
}

// Wrong passwords are bounded per account, whatever addresses they come from.
func TestFailedLoginsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *account.Options, _ *clientapi.Options) { o.LimitFailures = true })
	s.register("alice")
	s.register("bob")
	for range 20 {
		s.login("alice", map[string]any{"password": "wrong"}).fails(403, matrix.Forbidden)
	}
	a := s.login("alice", nil).fails(http.StatusTooManyRequests, matrix.LimitExceeded)
	if a.header.Get("Retry-After") == "" {
		t.Fatalf("no Retry-After: %v", a.header)
	}
	for range 20 {
		s.login("nobody", map[string]any{"password": "wrong"}).fails(403, matrix.Forbidden)
	}
	s.login("nobody", nil).fails(http.StatusTooManyRequests, matrix.LimitExceeded) // or it would tell names
	s.login("bob", nil).ok()
	s.clock.add(6 * time.Minute)
	s.login("alice", nil).ok()
}
