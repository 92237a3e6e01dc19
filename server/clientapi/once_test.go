package clientapi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"hearth/server/account"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

// fixture is an API on a real store, with one device.
func fixture(t *testing.T) (*API, account.Login) {
	t.Helper()
	ctx := context.Background()
	store, err := storage.Open(ctx, storage.Options{Dir: t.TempDir(), ServerName: "hs.test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	accounts := account.New(store, account.Options{HashTime: 1, HashMemory: 64}, zap.NewNop())
	login, err := accounts.Register(ctx, account.Registration{Localpart: "alice", Login: &account.LoginRequest{Device: "A", Refresh: true}})
	if err != nil {
		t.Fatal(err)
	}
	return New(Deps{Store: store, Accounts: accounts, Log: zap.NewNop()}), login
}

func call(t *testing.T, a *API, token matrix.Token, template, txn string) *web.Call {
	t.Helper()
	caller, err := a.Accounts.Authenticate(context.Background(), token)
	if err != nil {
		t.Fatal(err)
	}
	return &web.Call{Caller: caller, Method: "PUT", Template: template, Vars: map[string]string{"txnId": txn}}
}

type eventID struct {
	ID string `json:"event_id"`
}

// effect is something that a unit does, and that can be counted.
func effect(tx *storage.Tx, name string) error {
	return tx.AddRegistrationToken(storage.RegistrationToken{Token: matrix.Token(name)})
}

func (a *API) effects(t *testing.T) int {
	t.Helper()
	list, err := a.Accounts.ListTokens(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func send(a *API, c *web.Call, name string) (eventID, error) {
	return once(context.Background(), a, c, func(tx *storage.Tx) (eventID, error) {
		return eventID{"$" + name}, effect(tx, name)
	})
}

func TestOnce(t *testing.T) {
	t.Parallel()
	a, login := fixture(t)
	c := call(t, a, login.Access, "/send/{txnId}", "1")
	first, err := send(a, c, "first")
	if err != nil {
		t.Fatal(err)
	}
	again, err := send(a, c, "second")
	if err != nil || again != first || a.effects(t) != 1 {
		t.Fatalf("a retransmission: %v, %v, %d effects", again, err, a.effects(t))
	}
	for i, other := range []*web.Call{
		call(t, a, login.Access, "/send/{txnId}", "2"),
		call(t, a, login.Access, "/redact/{txnId}", "1"),
	} {
		if got, err := send(a, other, fmt.Sprint("other", i)); err != nil || got == first {
			t.Fatalf("another transaction: %v, %v", got, err)
		}
	}
	// The scope is the device, not its token.
	fresh, err := a.Accounts.Refresh(context.Background(), login.Refresh)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := send(a, call(t, a, fresh.Access, "/send/{txnId}", "1"), "third"); err != nil || got != first {
		t.Fatalf("after a refresh: %v, %v", got, err)
	}
}

func TestOnceAnswersTheSameBytes(t *testing.T) {
	t.Parallel()
	a, login := fixture(t)
	check := func(txn string, do func(*web.Call) (any, error)) {
		t.Helper()
		var texts [2]string
		for i := range texts {
			out, err := do(call(t, a, login.Access, "/x/{txnId}", txn))
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(out)
			if err != nil {
				t.Fatal(err)
			}
			texts[i] = string(b)
			if raw, ok := out.(jsontext.Value); ok { // is sent as it is
				texts[i] = string(raw)
			}
		}
		if texts[0] != texts[1] {
			t.Fatalf("%s and %s", texts[0], texts[1])
		}
	}
	check("empty", func(c *web.Call) (any, error) {
		return once(t.Context(), a, c, func(*storage.Tx) (web.Empty, error) { return web.Empty{}, nil })
	})
	n := 0
	check("struct", func(c *web.Call) (any, error) {
		return once(t.Context(), a, c, func(*storage.Tx) (eventID, error) { n++; return eventID{fmt.Sprintf("<%d>\u2028é", n)}, nil })
	})
	check("raw", func(c *web.Call) (any, error) {
		return once(t.Context(), a, c, func(*storage.Tx) (jsontext.Value, error) {
			n++
			return jsontext.Value(fmt.Sprintf(`{ "z":%d, "a":1.50,"b":"\u0041"}`, n)), nil
		})
	})
}

func TestOnceRecordsOnlySuccess(t *testing.T) {
	t.Parallel()
	a, login := fixture(t)
	c := call(t, a, login.Access, "/send/{txnId}", "1")
	boom := errors.New("boom")
	_, err := once(t.Context(), a, c, func(tx *storage.Tx) (eventID, error) {
		return eventID{}, errors.Join(effect(tx, "half"), boom)
	})
	if !errors.Is(err, boom) || a.effects(t) != 0 {
		t.Fatalf("got %v, %d effects", err, a.effects(t))
	}
	if got, err := send(a, c, "whole"); err != nil || got.ID != "$whole" || a.effects(t) != 1 {
		t.Fatalf("the retry: %v, %v", got, err)
	}
}

func TestOnceAtTheSameTime(t *testing.T) {
	t.Parallel()
	a, login := fixture(t)
	c := call(t, a, login.Access, "/send/{txnId}", "1")
	got := make([]eventID, 16)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			var err error
			if got[i], err = send(a, c, fmt.Sprint("n", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, g := range got {
		if g != got[0] {
			t.Fatalf("answers differ: %v", got)
		}
	}
	if a.effects(t) != 1 {
		t.Fatalf("%d effects", a.effects(t))
	}
}

// A request that was authenticated before its device was deleted does nothing
// after; and a later device of the same ID is another.
func TestOnceOfADeletedDevice(t *testing.T) {
	t.Parallel()
	a, login := fixture(t)
	c := call(t, a, login.Access, "/send/{txnId}", "1")
	if _, err := send(a, c, "before"); err != nil {
		t.Fatal(err)
	}
	if err := a.Accounts.LogoutAll(t.Context(), c.UserNum); err != nil {
		t.Fatal(err)
	}
	var told *matrix.Error
	if _, err := send(a, c, "after"); !errors.As(err, &told) || told.Code != matrix.UnknownToken || told.Status != 401 {
		t.Fatalf("got %v", err)
	}
	var user storage.User
	if err := a.Store.Read(t.Context(), "user", func(rx *storage.Rx) (err error) {
		user, err = rx.UserByID("@alice:hs.test")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	later, err := a.Accounts.Login(t.Context(), user, account.LoginRequest{Device: "A"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := send(a, call(t, a, later.Access, "/send/{txnId}", "1"), "later"); err != nil || got.ID != "$later" {
		t.Fatalf("the old device's record answered: %v, %v", got, err)
	}
}
