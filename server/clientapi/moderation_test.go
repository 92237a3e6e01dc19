package clientapi_test

import (
	"context"
	"sync"
	"testing"

	"hearth/storage/matrix"
)

// admin makes an administrator and logs in.
func (s *site) admin(name string) *user {
	s.t.Helper()
	if _, err := s.accounts.AddUser(context.Background(), name, goodSecret, true); err != nil {
		s.t.Fatal(err)
	}
	u := &user{site: s, id: "@" + name + ":hs.test", name: name}
	return u.again("")
}

// TestModerationEndpoints: who may lock and suspend whom, and what others learn.
func TestModerationEndpoints(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	root, other, alice, gone := s.admin("root"), s.admin("other"), s.register("alice"), s.register("gone")
	gone.do("POST", v3+"/account/deactivate", text(map[string]any{"auth": gone.auth("")})).ok()
	for _, kind := range []struct{ path, field string }{{"/admin/lock/", "locked"}, {"/admin/suspend/", "suspended"}} {
		at, on, off := v1+kind.path, `{"`+kind.field+`":true}`, `{"`+kind.field+`":false}`
		is := func(want bool) {
			t.Helper()
			if a := root.do("GET", at+esc(alice.id), "").ok(); a.body[kind.field] != want {
				t.Errorf("%s: %s, want %v", kind.path, a.raw, want)
			}
		}
		is(false)
		for _, body := range []string{on, on, off, off, on} {
			if a := root.do("PUT", at+esc(alice.id), body).ok(); a.raw != body {
				t.Errorf("PUT %s answers %s", body, a.raw)
			}
			is(body == on)
		}
		root.do("PUT", at+esc(alice.id), off).ok()

		root.do("GET", at+esc(root.id), "").ok() // oneself is not "another administrator"
		root.do("PUT", at+esc(root.id), on).fails(403, matrix.Forbidden)
		for id, want := range map[string]struct {
			status int
			code   matrix.Code
		}{
			other.id:             {403, matrix.Forbidden},
			"@alice:elsewhere.x": {400, matrix.InvalidParam},
			"alice":              {400, matrix.InvalidParam},
			"@nobody:hs.test":    {404, matrix.NotFound},
			gone.id:              {404, matrix.NotFound},
		} {
			root.do("GET", at+esc(id), "").fails(want.status, want.code)
			root.do("PUT", at+esc(id), on).fails(want.status, want.code)
			alice.do("GET", at+esc(id), "").fails(403, matrix.Forbidden) // nothing is learned
			alice.do("PUT", at+esc(id), on).fails(403, matrix.Forbidden)
		}
		root.do("PUT", at+esc(alice.id), "{}").fails(400, matrix.MissingParam)
		root.do("PUT", at+esc(alice.id), `{"`+kind.field+`":"yes"}`).fails(400, matrix.BadJSON)
		s.do("", "GET", at+esc(alice.id), "").fails(401, matrix.MissingToken)
		s.do("", "PUT", at+esc(alice.id), on).fails(401, matrix.MissingToken)
	}
	capability := func(u *user) any {
		caps, _ := u.do("GET", v3+"/capabilities", "").ok().body["capabilities"].(map[string]any)
		return caps["m.account_moderation"]
	}
	if got := text(capability(root)); got != `{"lock":true,"suspend":true}` {
		t.Errorf("an administrator's capability: %s", got)
	}
	if got := capability(alice); got != nil {
		t.Errorf("a user's capability: %v", got)
	}
}

// locked wants the answer of a locked account, which keeps the session.
func (a *answer) locked() {
	a.t.Helper()
	if a.fails(401, matrix.UserLocked); a.body["soft_logout"] != true {
		a.t.Fatalf("no soft logout: %s", a.raw)
	}
}

func (u *user) lock(root *user, on string) {
	u.t.Helper()
	root.do("PUT", v1+"/admin/lock/"+esc(u.id), `{"locked":`+on+`}`).ok()
}

func TestLockedAccount(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	root, alice := s.admin("root"), s.register("alice")
	phone, tablet := alice.again("PHONE"), alice.again("TABLET")
	refresh := s.login("alice", map[string]any{"device_id": "R", "refresh_token": true}).ok()

	alice.lock(root, "true")
	for _, c := range []struct{ method, path, body string }{
		{"GET", v3 + "/account/whoami", ""},
		{"GET", v3 + "/sync?timeout=0", ""},
		{"GET", v3 + "/capabilities", ""},
		{"GET", v3 + "/devices", ""},
		{"POST", v3 + "/account/password", `{"new_password":"another secret"}`},
		{"POST", v3 + "/account/deactivate", "{}"},
		{"PUT", v3 + "/user/" + esc(alice.id) + "/account_data/m.x", "{}"},
		{"PUT", v3 + "/sendToDevice/m.x/1", `{"messages":{}}`},
	} {
		alice.do(c.method, c.path, c.body).locked()
	}
	s.login("alice", nil).locked()
	s.login("alice", map[string]any{"password": "wrong secret"}).fails(403, matrix.Forbidden) // who cannot prove it learns nothing
	s.do("", "POST", v3+"/refresh", text(map[string]any{"refresh_token": refresh.str("refresh_token")})).locked()
	phone.do("POST", v3+"/logout", "").ok()

	alice.lock(root, "false")
	alice.alive() // sessions were kept
	tablet.alive()
	phone.dead()
	again := s.do("", "POST", v3+"/refresh", text(map[string]any{"refresh_token": refresh.str("refresh_token")})).ok()
	if again.str("access_token") == "" {
		t.Error("no new tokens after the lock")
	}
	alice.lock(root, "true")
	alice.do("POST", v3+"/logout/all", "").ok()
	alice.lock(root, "false")
	tablet.dead()
}

// TestLockEndsLongPolls: what waits when the account is locked is told so, and
// what was on its way to wait is, too.
func TestLockEndsLongPolls(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	root, alice := s.admin("root"), s.register("alice")
	since := alice.do("GET", v3+"/sync?timeout=0", "").ok().str("next_batch")
	for range 20 {
		var polls sync.WaitGroup
		for range 3 {
			polls.Go(func() {
				// Ends only by the lock: the time is longer than the test may take.
				if a := s.do(alice.token, "GET", v3+"/sync?timeout=3600000&since="+since, ""); a.status != 401 || a.str("errcode") != "M_USER_LOCKED" {
					t.Errorf("a poll got %d %s", a.status, a.raw)
				}
			})
		}
		alice.lock(root, "true")
		polls.Wait()
		alice.lock(root, "false")
	}
	alice.alive()
}

// TestSuspendedAccount: what needs no room still works. That rooms refuse is
// shown with the rooms.
func TestSuspendedAccount(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	root, alice := s.admin("root"), s.register("alice")
	root.do("PUT", v1+"/admin/suspend/"+esc(alice.id), `{"suspended":true}`).ok()
	alice.alive()
	phone := alice.again("PHONE")
	phone.do("GET", v3+"/sync?timeout=0", "").ok()
	phone.do("PUT", v3+"/sendToDevice/m.x/1", `{"messages":{}}`).ok()
	phone.do("PUT", v3+"/user/"+esc(alice.id)+"/account_data/m.x", "{}").ok()
	phone.do("DELETE", v3+"/devices/"+esc(alice.device), text(map[string]any{"auth": alice.auth("")})).ok()
	alice.dead()
	phone.do("POST", v3+"/account/deactivate", text(map[string]any{"auth": alice.auth("")})).ok()
	phone.dead()
}
