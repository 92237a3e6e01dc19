package clientapi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"hearth/server/account"
	"hearth/storage/matrix"
)

func TestPassword(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.register("alice")
	b := a.again("TWO")
	const path = v3 + "/account/password"
	body := func(new string, more map[string]any) string {
		m := map[string]any{"new_password": new}
		for k, v := range more {
			m[k] = v
		}
		return text(m)
	}
	s.do("", "POST", path, body("another one", nil)).fails(401, matrix.MissingToken)
	a.do("POST", path, `{}`).fails(400, matrix.MissingParam)
	a.do("POST", path, body("short", nil)).fails(400, matrix.WeakPassword)
	a.do("POST", path, `{"new_password":7}`).fails(400, matrix.BadJSON)
	a.do("POST", path, `{"new_password":"another one","logout_devices":"no"}`).fails(400, matrix.BadJSON)

	session := a.do("POST", path, body("another one", nil)).challenge("")
	wrong := a.auth(session)
	wrong["password"] = "wrong"
	if a.do("POST", path, body("another one", map[string]any{"auth": wrong})).challenge(matrix.Forbidden) != session {
		t.Fatal("a failed attempt changed the session")
	}
	// A session is good for what it was begun for.
	a.do("POST", path, body("yet another", map[string]any{"auth": a.auth(session)})).challenge(matrix.Forbidden)
	b.do("POST", path, body("another one", map[string]any{"auth": a.auth(session), "logout_devices": false})).challenge(matrix.Forbidden)

	a.do("POST", path, body("another one", map[string]any{"auth": a.auth(session)})).ok()
	a.alive() // the request's own session stays
	b.dead()
	s.login("alice", nil).fails(403, matrix.Forbidden)
	c := s.login("alice", map[string]any{"password": "another one"}).ok()

	proof := a.auth("")
	proof["password"] = "another one"
	a.do("POST", path, body("third one!", map[string]any{"auth": proof, "logout_devices": false})).ok()
	s.do(c.str("access_token"), "GET", v3+"/account/whoami", "").ok()
	s.login("alice", map[string]any{"password": "third one!"}).ok()
}

// One user's session or password proves nothing for another.
func TestInteractiveBelongsToItsUser(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.register("alice"), s.register("bob")
	const path = v3 + "/account/deactivate"
	session := a.do("POST", path, `{}`).challenge("")
	b.do("POST", path, text(map[string]any{"auth": b.auth(session)})).challenge(matrix.Forbidden)
	b.do("POST", path, text(map[string]any{"auth": a.auth("")})).fails(403, matrix.Forbidden)
	third := map[string]any{"type": "m.login.password", "password": goodSecret, "identifier": map[string]any{"type": "m.id.thirdparty"}}
	b.do("POST", path, text(map[string]any{"auth": third})).challenge(matrix.Forbidden)
	b.do("POST", path, text(map[string]any{"auth": map[string]any{"type": "m.login.dummy"}})).challenge(matrix.Forbidden)
	b.do("POST", path, text(map[string]any{"auth": map[string]any{}})).challenge("")
	b.do("POST", path, text(map[string]any{"auth": map[string]any{"session": strings.Repeat("x", 100)}})).challenge(matrix.Forbidden)
	b.do("POST", path, `{"auth":"x"}`).fails(400, matrix.BadJSON)
	a.alive()
	b.alive()

	// Nor is one that its user has completed: only they can take it up.
	session = a.do("POST", path, `{}`).challenge("")
	refusal, err := s.accounts.CompleteStage(context.Background(), account.Auth{
		Type: account.StagePassword, Session: session, Password: goodSecret, User: "alice",
	})
	if refusal != nil || err != nil {
		t.Fatal(refusal, err)
	}
	b.do("POST", path, text(map[string]any{"auth": map[string]any{"session": session}})).challenge(matrix.Forbidden)
	b.alive()

	// The session of another endpoint is none of this one.
	session = a.do("POST", v1+"/login/get_token", "").challenge("")
	a.do("POST", path, text(map[string]any{"auth": a.auth(session)})).challenge(matrix.Forbidden)
	// A session dies of age.
	session = a.do("POST", path, `{}`).challenge("")
	s.clock.add(31 * time.Minute)
	a.do("POST", path, text(map[string]any{"auth": a.auth(session)})).challenge(matrix.Forbidden)
	a.alive()
}

func TestInteractiveAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.register("alice")
	const path = v3 + "/account/deactivate"
	session := a.do("POST", path, `{}`).challenge("")
	wrong := a.auth(session)
	wrong["password"] = "wrong"
	for range 10 {
		a.do("POST", path, text(map[string]any{"auth": wrong})).challenge(matrix.Forbidden)
	}
	if a.do("POST", path, text(map[string]any{"auth": a.auth(session)})).challenge(matrix.Forbidden) == session {
		t.Fatal("a session took more than ten wrong passwords")
	}
}

func TestDeactivate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.register("alice"), s.register("bob")
	a2 := a.again("TWO")
	const path = v3 + "/account/deactivate"
	s.do("", "POST", path, `{}`).fails(401, matrix.MissingToken)
	session := a.do("POST", path, `{"erase":true}`).challenge("")
	a.do("POST", path, text(map[string]any{"erase": false, "id_server": "x", "auth": map[string]any{"session": session}})).challenge("")
	got := a.do("POST", path, text(map[string]any{"auth": a.auth(session)})).ok() // performs what was begun: erase
	if got.raw != `{"id_server_unbind_result":"success"}` {
		t.Fatalf("got %s", got.raw)
	}
	a.dead()
	a2.dead()
	b.alive()
	s.login("alice", nil).fails(403, matrix.Forbidden)
	s.do("", "POST", v3+"/register", `{"username":"alice","password":"long enough"}`).fails(400, matrix.UserInUse)
	users, err := s.accounts.ListUsers(t.Context(), 0, 10)
	if err != nil || len(users) != 2 || users[0].Active() || !users[0].Erased || users[0].PasswordHash != "" || !users[1].Active() {
		t.Fatalf("got %+v, %v", users, err)
	}
}

func TestWhois(t *testing.T) {
	t.Parallel()
	s := newSite(t, shared)
	n := s.accounts.NewNonce()
	root := s.do("", "POST", "/_synapse/admin/v1/register", text(map[string]any{
		"nonce": n, "username": "root", "password": "pw", "admin": true, "device_id": "ADMIN", "mac": sharedMAC(n, "root", "pw", "admin"),
	})).ok().str("access_token")
	n = s.accounts.NewNonce()
	alice := s.do("", "POST", "/_synapse/admin/v1/register", text(map[string]any{
		"nonce": n, "username": "alice", "password": "pw", "device_id": "A", "mac": sharedMAC(n, "alice", "pw", "notadmin"),
	})).ok().str("access_token")
	who := func(token, user string) *answer { return s.do(token, "GET", v3+"/admin/whois/"+esc(user), "") }

	a := who(alice, "@alice:hs.test").ok()
	if !strings.HasPrefix(a.raw, `{"user_id":"@alice:hs.test","devices":{"A":{"sessions":[{"connections":[{`) {
		t.Fatalf("got %s", a.raw)
	}
	who(alice, "@root:hs.test").fails(403, matrix.Forbidden)
	who(alice, "@nobody:hs.test").fails(403, matrix.Forbidden)
	who(root, "@alice:hs.test").ok()
	who(root, "@nobody:hs.test").fails(404, matrix.NotFound)
	who(root, "@alice:elsewhere.test").fails(404, matrix.NotFound)
	who(root, "alice").fails(400, matrix.InvalidParam)
	who("", "@alice:hs.test").fails(401, matrix.MissingToken)
}
