package clientapi_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"hearth/federation/outbox"
	"hearth/server/account"
	"hearth/server/clientapi"
	"hearth/server/syncer"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
)

const (
	v1         = "/_matrix/client/v1"
	v3         = "/_matrix/client/v3"
	goodSecret = "correct horse"
)

// site is a real store, accounts, API and kernel behind a real listener.
type site struct {
	t        *testing.T
	store    *storage.Store
	accounts *account.Accounts
	url      string
	logs     *observer.ObservedLogs
	clock    *clock
}

// clock is a wall clock that a test can move.
type clock struct{ skew atomic.Int64 }

func (c *clock) now() time.Time      { return time.Now().Add(time.Duration(c.skew.Load())) }
func (c *clock) add(d time.Duration) { c.skew.Add(int64(d)) }

func newSite(t *testing.T, change ...func(*account.Options, *clientapi.Options)) *site {
	t.Helper()
	ctx := context.Background()
	core, logs := observer.New(zapcore.DebugLevel)
	log := zap.New(core)
	s := &site{t: t, logs: logs, clock: &clock{}}
	store, err := storage.Open(ctx, storage.Options{Dir: t.TempDir(), ServerName: "hs.test", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	opt := account.Options{Registration: account.Open, HashTime: 1, HashMemory: 64, Now: s.clock.now}
	var own clientapi.Options
	for _, fn := range change {
		fn(&opt, &own)
	}
	box := inbox.New(store, inbox.Options{MaxMessages: 1000, MaxBytes: 1 << 20, TTL: time.Hour, SyncBatch: 100, MirrorBytes: 1 << 20}, log)
	opt.DeviceDeleted = func(tx *storage.Tx, device int64) error { box.Drop(tx, device); return nil }
	s.store, s.accounts = store, account.New(store, opt, log)
	api := clientapi.New(clientapi.Deps{
		Store: store, Accounts: s.accounts, Inbox: box, Outbox: outbox.New(store, nil, outbox.Options{}, log),
		Syncer: syncer.New(store, box, log, syncer.Options{}), Options: own, Log: log,
	})
	k := web.New(web.Options{Auth: s.accounts, Log: log})
	k.Routes(api.Routes())
	srv := httptest.NewServer(k.Handler())
	t.Cleanup(srv.Close)
	t.Cleanup(k.Close)
	s.url = srv.URL
	return s
}

// answer is a response, decoded.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	raw    string
	body   map[string]any
}

// do sends one request; body is JSON text, or empty for none.
func (s *site) do(token, method, path, body string) *answer {
	s.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, s.url+path, r)
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("User-Agent", "test agent")
	return s.send(req)
}

func (s *site) send(req *http.Request) *answer {
	s.t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	a := &answer{t: s.t, status: res.StatusCode, header: res.Header, raw: string(raw)}
	if bytes.HasPrefix(raw, []byte("{")) {
		if err := json.Unmarshal(raw, &a.body); err != nil {
			s.t.Fatalf("%s %s: %s: %v", req.Method, req.URL.Path, raw, err)
		}
	}
	return a
}

func (a *answer) str(key string) string { v, _ := a.body[key].(string); return v }

// ok wants status 200.
func (a *answer) ok() *answer {
	a.t.Helper()
	if a.status != http.StatusOK {
		a.t.Fatalf("got %d %s, want 200", a.status, a.raw)
	}
	return a
}

// fails wants a status and an error code, and with it a message.
func (a *answer) fails(status int, code matrix.Code) *answer {
	a.t.Helper()
	if a.status != status || a.str("errcode") != string(code) || code != "" && a.str("error") == "" {
		a.t.Fatalf("got %d %s, want %d %s", a.status, a.raw, status, code)
	}
	return a
}

// challenge wants the 401 of user-interactive authentication and returns its session.
func (a *answer) challenge(code matrix.Code) string {
	a.t.Helper()
	a.fails(http.StatusUnauthorized, code)
	if a.str("session") == "" || a.body["flows"] == nil || a.body["params"] == nil {
		a.t.Fatalf("not a challenge: %s", a.raw)
	}
	return a.str("session")
}

// user is a logged-in device.
type user struct {
	*site
	id, name, token, device string
}

func (s *site) register(name string) *user {
	s.t.Helper()
	a := s.do("", "POST", v3+"/register", text(map[string]any{
		"username": name, "password": goodSecret, "auth": map[string]any{"type": "m.login.dummy"},
	})).ok()
	return &user{s, a.str("user_id"), name, a.str("access_token"), a.str("device_id")}
}

func (s *site) login(name string, more map[string]any) *answer {
	s.t.Helper()
	body := map[string]any{
		"type": "m.login.password", "password": goodSecret,
		"identifier": map[string]any{"type": "m.id.user", "user": name},
	}
	for k, v := range more {
		body[k] = v
	}
	return s.do("", "POST", v3+"/login", text(body))
}

// again logs the same user in once more.
func (u *user) again(device string) *user {
	u.t.Helper()
	a := u.site.login(u.name, map[string]any{"device_id": device}).ok()
	return &user{u.site, u.id, u.name, a.str("access_token"), a.str("device_id")}
}

func (u *user) do(method, path, body string) *answer {
	u.t.Helper()
	return u.site.do(u.token, method, path, body)
}

// alive wants the access token to be good; dead wants it not to be.
func (u *user) alive() { u.t.Helper(); u.do("GET", v3+"/account/whoami", "").ok() }
func (u *user) dead() {
	u.t.Helper()
	u.do("GET", v3+"/account/whoami", "").fails(http.StatusUnauthorized, matrix.UnknownToken)
}

// auth is the password stage for the user, as JSON members to append to a body.
func (u *user) auth(session string) map[string]any {
	return map[string]any{
		"type": "m.login.password", "session": session, "password": goodSecret,
		"identifier": map[string]any{"type": "m.id.user", "user": u.name},
	}
}

func text(v any) string {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return string(b)
}

func esc(s string) string { return url.PathEscape(s) }
