package clientapi_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hearth/server/account"
	"hearth/server/clientapi"
	"hearth/storage/matrix"
)

func mode(m account.Mode) func(*account.Options, *clientapi.Options) {
	return func(o *account.Options, _ *clientapi.Options) { o.Registration = m }
}

func TestRegister(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	session := s.do("", "POST", v3+"/register", `{}`).challenge("")
	a := s.do("", "POST", v3+"/register", text(map[string]any{
		"username": "Alice", "password": goodSecret, "device_id": "PHONE", "initial_device_display_name": "my phone",
		"auth": map[string]any{"type": "m.login.dummy", "session": session},
	})).ok()
	if a.str("user_id") != "@alice:hs.test" || a.str("device_id") != "PHONE" || a.str("home_server") != "hs.test" || a.str("access_token") == "" {
		t.Fatalf("got %s", a.raw)
	}
	if a.body["refresh_token"] != nil || a.body["expires_in_ms"] != nil {
		t.Fatalf("a client that cannot refresh got %s", a.raw)
	}
	who := s.do(a.str("access_token"), "GET", v3+"/account/whoami", "").ok()
	if who.str("user_id") != "@alice:hs.test" || who.str("device_id") != "PHONE" || who.body["is_guest"] != false {
		t.Fatalf("whoami: %s", who.raw)
	}
	d := s.do(a.str("access_token"), "GET", v3+"/devices/PHONE", "").ok()
	if d.str("display_name") != "my phone" {
		t.Fatalf("device: %s", d.raw)
	}
}

func TestRegisterVariants(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	register := func(fields map[string]any) *answer {
		fields["auth"] = map[string]any{"type": "m.login.dummy"}
		return s.do("", "POST", v3+"/register", text(fields))
	}
	a := register(map[string]any{"username": "quiet", "password": goodSecret, "inhibit_login": true}).ok()
	if a.str("user_id") != "@quiet:hs.test" || a.body["access_token"] != nil || a.body["device_id"] != nil {
		t.Fatalf("inhibit_login: %s", a.raw)
	}
	a = register(map[string]any{"password": goodSecret}).ok()
	if len(a.str("user_id")) < len("@x:hs.test") || a.str("device_id") == "" {
		t.Fatalf("no username: %s", a.raw)
	}
	a = register(map[string]any{"username": "fresh", "password": goodSecret, "refresh_token": true}).ok()
	if a.str("refresh_token") == "" || a.body["expires_in_ms"] != float64(time.Hour.Milliseconds()) {
		t.Fatalf("refresh_token: %s", a.raw)
	}
	// A request that fails after its proof may be corrected with the same proof.
	session := s.do("", "POST", v3+"/register", `{}`).challenge("")
	s.do("", "POST", v3+"/register", text(map[string]any{
		"username": "nopass", "auth": map[string]any{"type": "m.login.dummy", "session": session},
	})).fails(400, matrix.MissingParam)
	s.do("", "POST", v3+"/register", text(map[string]any{
		"username": "nopass", "password": goodSecret, "auth": map[string]any{"session": session},
	})).ok()
}

func TestRegisterRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.register("taken")
	long := strings.Repeat("x", 256)
	for _, c := range []struct {
		name, path, body string
		status           int
		code             matrix.Code
	}{
		{"taken", "", `{"username":"taken","password":"long enough"}`, 400, matrix.UserInUse},
		{"taken, other case", "", `{"username":"TAKEN","password":"long enough"}`, 400, matrix.UserInUse},
		{"bad character", "", `{"username":"a b","password":"long enough"}`, 400, matrix.InvalidUsername},
		{"not ascii", "", `{"username":"é","password":"long enough"}`, 400, matrix.InvalidUsername},
		{"sigil", "", `{"username":"@a:hs.test","password":"long enough"}`, 400, matrix.InvalidUsername},
		{"too long", "", `{"username":"` + long + `","password":"long enough"}`, 400, matrix.InvalidUsername},
		{"weak", "", `{"username":"w","password":"short"}`, 400, matrix.WeakPassword},
		{"long password", "", `{"username":"w","password":"` + long + long + `x"}`, 400, matrix.InvalidParam},
		{"long device", "", `{"username":"w","device_id":"` + long + `"}`, 400, matrix.InvalidParam},
		{"long device name", "", `{"username":"w","initial_device_display_name":"` + long + `x"}`, 400, matrix.InvalidParam},
		{"guest", "?kind=guest", `{}`, 403, matrix.GuestAccessForbidden},
		{"kind", "?kind=alien", `{}`, 400, matrix.InvalidParam},
		{"type", "", `{"username":7}`, 400, matrix.BadJSON},
		{"auth type", "", `{"auth":7}`, 400, matrix.BadJSON},
		{"no json", "", `hello`, 400, matrix.NotJSON},
		{"array", "", `[]`, 400, matrix.BadJSON},
		{"no body", "", ``, 400, matrix.NotJSON},
		{"too large", "", `{"password":"` + strings.Repeat("x", 17<<10) + `"}`, 413, matrix.TooLarge},
		{"duplicate", "", `{"username":"a","username":"b"}`, 400, matrix.BadJSON},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := s.do("", "POST", v3+"/register"+c.path, c.body)
			a.t = t
			a.fails(c.status, c.code)
			if strings.Contains(a.raw, "session") {
				t.Fatalf("refused after asking for authentication: %s", a.raw)
			}
		})
	}
}

// Of many that register one name at once, one gets it.
func TestRegisterRace(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			a := s.do("", "POST", v3+"/register", `{"username":"one","password":"long enough","auth":{"type":"m.login.dummy"}}`)
			switch {
			case a.status == 200:
				won.Add(1)
			case a.status != 400 || a.str("errcode") != "M_USER_IN_USE":
				t.Errorf("got %d %s", a.status, a.raw)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Fatalf("%d got the name", won.Load())
	}
}

func TestRegisterClosed(t *testing.T) {
	t.Parallel()
	s := newSite(t, mode(account.Closed))
	s.do("", "POST", v3+"/register", `{}`).fails(403, matrix.Forbidden)
	s.do("", "POST", v3+"/register", `{"auth":{"type":"m.login.dummy"}}`).fails(403, matrix.Forbidden)
	s.do("", "GET", v1+"/register/m.login.registration_token/validity?token=x", "").fails(403, matrix.Forbidden)

	// A token of the administrator's does not open what is closed.
	token, err := s.accounts.AddToken(context.Background(), "", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.accounts.FirstRunToken(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	s.do("", "POST", v3+"/register", text(map[string]any{
		"auth": map[string]any{"type": account.StageRegToken, "token": token.Reveal()},
	})).challenge(matrix.Unauthorized)
	a := s.do("", "POST", v3+"/register", text(map[string]any{
		"username": "root", "password": goodSecret,
		"auth": map[string]any{"type": account.StageRegToken, "token": first.Reveal()},
	})).ok()
	caller, err := s.accounts.Authenticate(context.Background(), matrix.Token(a.str("access_token")))
	if err != nil || !caller.Admin {
		t.Fatalf("the first user: %+v, %v", caller, err)
	}
	s.do("", "POST", v3+"/register", `{}`).fails(403, matrix.Forbidden) // it was good once
	if again, err := s.accounts.FirstRunToken(context.Background()); err != nil || again != "" {
		t.Fatalf("another first-run token: %v", err)
	}
}

func TestRegisterToken(t *testing.T) {
	t.Parallel()
	s := newSite(t, mode(account.Token))
	if _, err := s.accounts.AddToken(context.Background(), "two", 2, 0); err != nil {
		t.Fatal(err)
	}
	valid := func(token string) any {
		return s.do("", "GET", v1+"/register/m.login.registration_token/validity?token="+token, "").ok().body["valid"]
	}
	register := func(name, token, session string) *answer {
		return s.do("", "POST", v3+"/register", text(map[string]any{
			"username": name, "password": goodSecret,
			"auth": map[string]any{"type": account.StageRegToken, "token": token, "session": session},
		}))
	}
	if valid("two") != true || valid("three") != false {
		t.Fatal("validity is wrong")
	}
	s.do("", "GET", v1+"/register/m.login.registration_token/validity", "").fails(400, matrix.MissingParam)
	s.do("", "POST", v3+"/register", `{"auth":{"type":"m.login.dummy"}}`).challenge(matrix.Forbidden)
	session := register("a", "three", "").challenge(matrix.Unauthorized)
	register("a", "two", session).ok()
	register("a", "two", "").fails(400, matrix.UserInUse) // costs no use
	register("b", "two", "").ok()
	register("c", "two", "").challenge(matrix.Unauthorized)
	if valid("two") != false {
		t.Fatal("a token that is used up is valid")
	}
}

// Where anyone may register, the first administrator's token is good, but no
// client is led to ask everybody for it.
func TestRegisterOpenOffersNoToken(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	token, err := s.accounts.FirstRunToken(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	a := s.do("", "POST", v3+"/register", `{}`)
	session := a.challenge("")
	if got := text(a.body["flows"]); got != `[{"stages":["m.login.dummy"]}]` {
		t.Fatalf("flows %s", got)
	}
	s.do("", "POST", v3+"/register", text(map[string]any{
		"username": "anna", "password": goodSecret,
		"auth": map[string]any{"type": account.StageRegToken, "token": token.Reveal(), "session": session},
	})).ok()
	users, err := s.accounts.ListUsers(context.Background(), 0, 100)
	if err != nil || len(users) != 1 || !users[0].Admin {
		t.Fatalf("with the token came %+v, %v", users, err)
	}
}

// A token that was good when its stage was completed may be used up when the
// account is made.
func TestRegisterTokenUsedUpMeanwhile(t *testing.T) {
	t.Parallel()
	s := newSite(t, mode(account.Token))
	if _, err := s.accounts.AddToken(context.Background(), "one", 1, 0); err != nil {
		t.Fatal(err)
	}
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			a := s.do("", "POST", v3+"/register", text(map[string]any{
				"username": fmt.Sprint("u", i), "password": goodSecret,
				"auth": map[string]any{"type": account.StageRegToken, "token": "one"},
			}))
			switch {
			case a.status == 200:
				won.Add(1)
			case a.status == 403 || a.status == 401:
				lost.Add(1)
			default:
				t.Errorf("got %d %s", a.status, a.raw)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 7 {
		t.Fatalf("one use admitted %d", won.Load())
	}
}

// TestRegisterTokenRace: twenty who completed the stage of a token that is good
// for one, before any of them was let in, and finish all at once.
func TestRegisterTokenRace(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *account.Options, _ *clientapi.Options) {
		o.Registration = account.Token
		o.Terms = []account.Policy{{ID: "terms", Version: "1", Language: "en", Name: "Terms", URL: "https://hs.test/t"}}
	})
	if _, err := s.accounts.AddToken(context.Background(), "one", 1, 0); err != nil {
		t.Fatal(err)
	}
	const clients = 20
	body := func(i int, auth map[string]any) string {
		return text(map[string]any{"username": fmt.Sprint("u", i), "password": goodSecret, "auth": auth})
	}
	var sessions [clients]string
	for i := range clients {
		a := s.do("", "POST", v3+"/register", body(i, map[string]any{"type": account.StageRegToken, "token": "one"}))
		if sessions[i] = a.challenge(""); text(a.body["completed"]) != `["m.login.registration_token"]` {
			t.Fatalf("got %s", a.raw)
		}
	}
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			a := s.do("", "POST", v3+"/register", body(i, map[string]any{"type": account.StageTerms, "session": sessions[i]}))
			switch {
			case a.status == 200:
				won.Add(1)
			case a.status != 403 || a.str("errcode") != "M_FORBIDDEN":
				t.Errorf("got %d %s", a.status, a.raw)
			}
		})
	}
	wg.Wait()
	users, err := s.accounts.ListUsers(context.Background(), 0, 100)
	if won.Load() != 1 || len(users) != 1 || err != nil {
		t.Fatalf("a token good for one admitted %d, and there are %d accounts, %v", won.Load(), len(users), err)
	}
}

func TestRegisterTerms(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *account.Options, _ *clientapi.Options) {
		o.Registration = account.Token
		o.Terms = []account.Policy{{ID: "terms_of_service", Version: "1.2", Language: "en", Name: "Terms", URL: "https://hs.test/t"}}
	})
	if _, err := s.accounts.AddToken(context.Background(), "tok", 0, 0); err != nil {
		t.Fatal(err)
	}
	body := func(auth map[string]any) string {
		return text(map[string]any{"username": "tina", "password": goodSecret, "auth": auth})
	}
	first := s.do("", "POST", v3+"/register", `{}`)
	session := first.challenge("")
	want := `{"m.login.terms":{"policies":{"terms_of_service":{"en":{"name":"Terms","url":"https://hs.test/t"},"version":"1.2"}}}}`
	if got := text(first.body["params"]); got != want {
		t.Fatalf("params %s", got)
	}
	// The order of a flow's stages is binding.
	s.do("", "POST", v3+"/register", body(map[string]any{"type": account.StageTerms, "session": session})).challenge(matrix.Forbidden)
	a := s.do("", "POST", v3+"/register", body(map[string]any{"type": account.StageRegToken, "token": "tok", "session": session}))
	if a.challenge("") != session || text(a.body["completed"]) != `["m.login.registration_token"]` {
		t.Fatalf("got %s", a.raw)
	}
	// A completed stage is not tried again.
	a = s.do("", "POST", v3+"/register", body(map[string]any{"type": account.StageRegToken, "token": "wrong", "session": session}))
	if a.challenge("") != session {
		t.Fatalf("got %s", a.raw)
	}
	s.do("", "POST", v3+"/register", body(map[string]any{"type": account.StageTerms, "session": session})).ok()
}

func TestAvailable(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.register("taken")
	if s.do("", "GET", v3+"/register/available?username=free", "").ok().body["available"] != true {
		t.Fatal("a free name is not available")
	}
	s.do("", "GET", v3+"/register/available?username=taken", "").fails(400, matrix.UserInUse)
	s.do("", "GET", v3+"/register/available?username=a%20b", "").fails(400, matrix.InvalidUsername)
	s.do("", "GET", v3+"/register/available", "").fails(400, matrix.MissingParam)
	s.do("", "GET", v3+"/register/available?username=%ff", "").fails(400, matrix.InvalidParam)
}

func shared(o *account.Options, _ *clientapi.Options) {
	o.Registration, o.SharedSecret = account.Closed, "s3cret"
}

func sharedMAC(parts ...string) string {
	m := hmac.New(sha1.New, []byte("s3cret"))
	m.Write([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(m.Sum(nil))
}

func TestSharedSecret(t *testing.T) {
	t.Parallel()
	const path = "/_synapse/admin/v1/register"
	s := newSite(t, shared)
	nonce := func() string { return s.do("", "GET", path, "").ok().str("nonce") }
	n := nonce()
	body := map[string]any{"nonce": n, "username": "Root", "password": "pw", "admin": true, "mac": sharedMAC(n, "Root", "pw", "admin")}
	a := s.do("", "POST", path, text(body)).ok()
	caller, err := s.accounts.Authenticate(context.Background(), matrix.Token(a.str("access_token")))
	if err != nil || !caller.Admin || caller.User != "@root:hs.test" || a.str("home_server") != "hs.test" {
		t.Fatalf("%s: %+v %v", a.raw, caller, err)
	}
	s.do("", "POST", path, text(body)).fails(400, matrix.Unknown) // a nonce is good once

	n = nonce()
	bot := map[string]any{"nonce": n, "username": "bot", "password": "pw", "user_type": "bot", "mac": sharedMAC(n, "bot", "pw", "notadmin", "bot")}
	a = s.do("", "POST", path, text(bot)).ok()
	if c, err := s.accounts.Authenticate(context.Background(), matrix.Token(a.str("access_token"))); err != nil || c.Admin {
		t.Fatalf("bot: %+v %v", c, err)
	}

	n = nonce()
	for name, c := range map[string]struct {
		change map[string]any
		status int
		code   matrix.Code
	}{
		"mac":          {map[string]any{"mac": sharedMAC(n, "x", "pw", "admin")}, 403, matrix.Forbidden},
		"mac text":     {map[string]any{"mac": "zz"}, 403, matrix.Forbidden},
		"nonce":        {map[string]any{"nonce": "made up"}, 400, matrix.Unknown},
		"no nonce":     {map[string]any{"nonce": ""}, 400, matrix.MissingParam},
		"no username":  {map[string]any{"username": ""}, 400, matrix.MissingParam},
		"no password":  {map[string]any{"password": ""}, 400, matrix.MissingParam},
		"no mac":       {map[string]any{"mac": ""}, 400, matrix.MissingParam},
		"nul":          {map[string]any{"username": "a\x00b"}, 400, matrix.InvalidParam},
		"admin a text": {map[string]any{"admin": "yes"}, 400, matrix.BadJSON},
	} {
		t.Run(name, func(t *testing.T) {
			n := nonce()
			b := map[string]any{"nonce": n, "username": "x", "password": "pw", "mac": sharedMAC(n, "x", "pw", "notadmin")}
			for k, v := range c.change {
				b[k] = v
			}
			a := s.do("", "POST", path, text(b))
			a.t = t
			a.fails(c.status, c.code)
		})
	}
	n = nonce()
	s.clock.add(2 * time.Minute)
	b := map[string]any{"nonce": n, "username": "late", "password": "pw", "mac": sharedMAC(n, "late", "pw", "notadmin")}
	s.do("", "POST", path, text(b)).fails(400, matrix.Unknown)
	n = nonce()
	b = map[string]any{"nonce": n, "username": "bot", "password": "pw", "mac": sharedMAC(n, "bot", "pw", "notadmin")}
	s.do("", "POST", path, text(b)).fails(400, matrix.UserInUse)
}

func TestSharedSecretOff(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.do("", "GET", "/_synapse/admin/v1/register", "").fails(http.StatusNotFound, matrix.Unrecognized)
	s.do("", "POST", "/_synapse/admin/v1/register", `{}`).fails(http.StatusNotFound, matrix.Unrecognized)
}
