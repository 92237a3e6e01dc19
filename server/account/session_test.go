package account

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hearth/storage"
	"hearth/storage/matrix"
)

func TestAccessTokenExpires(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	l := f.user("alice")
	f.mono.Store(int64(59 * time.Minute))
	if !f.admits(l.Access) {
		t.Fatal("expired early")
	}
	f.mono.Store(int64(61 * time.Minute))
	if f.admits(l.Access) {
		t.Fatal("did not expire")
	}
	n, err := f.Refresh(t.Context(), l.Refresh)
	if err != nil || !f.admits(n.Access) {
		t.Fatalf("refresh: %v", err)
	}
	f.mono.Store(int64(91 * 24 * time.Hour))
	if _, err := f.Refresh(t.Context(), n.Refresh); !isCode(err, matrix.UnknownToken) {
		t.Fatalf("an old refresh token: %v", err)
	}
}

// A client that cannot refresh has a token that does not expire.
func TestPlainTokenStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	l, err := f.Register(t.Context(), Registration{Localpart: "alice", Login: &LoginRequest{}})
	if err != nil {
		t.Fatal(err)
	}
	f.mono.Store(int64(10 * 365 * 24 * time.Hour))
	if l.Refresh != "" || l.ExpiresIn != 0 || !f.admits(l.Access) {
		t.Fatalf("got %+v", l)
	}
}

// Requests of one client that use a new pair at the same time all succeed.
func TestSettleAtTheSameTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	l := f.user("alice")
	for range scale(5) {
		n, err := f.Refresh(t.Context(), l.Refresh)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if !f.admits(n.Access) {
					t.Error("refused")
				}
			})
		}
		wg.Wait()
		l = n
	}
}

// tokens counts the rows of a device.
func (f *fixture) tokens(device int64) (n int) {
	f.t.Helper()
	if err := f.store.Read(context.Background(), "count", func(rx *storage.Rx) (err error) {
		n, err = rx.CountTokens(device)
		return err
	}); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// Whatever a client does with its tokens, the rows of its device stay few.
func TestTokenRowsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	l := f.user("alice")
	user, err := f.CheckPassword(t.Context(), "alice", password)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		for range 6 {
			if _, err := f.Refresh(t.Context(), l.Refresh); err != nil {
				t.Fatal(err)
			}
		}
		n, err := f.Refresh(t.Context(), l.Refresh)
		if err != nil {
			t.Fatal(err)
		}
		if rows := f.tokens(1); rows > 1+16+4 {
			t.Fatalf("%d rows", rows)
		}
		f.admits(n.Access)
		l = n
		if i%10 == 9 {
			if l, err = f.Login(t.Context(), user, LoginRequest{Device: "ONE", Refresh: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The tokens of one device against a model: which of all that were ever given
// out admit, in whatever order they are used.
func TestTokensModel(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	users := 0
	rapid.Check(t, func(t *rapid.T) {
		users++
		type pair struct {
			Login
			parent *pair
			state  storage.TokenState
		}
		live := &pair{Login: f.user(fmt.Sprint("u", users))}
		all := []*pair{live}
		gone := map[*pair]bool{} // pending pairs that were dropped
		settle := func(p *pair) {
			if p.state != storage.TokenPending {
				return
			}
			p.state, p.parent.state = storage.TokenLive, storage.TokenSpent
			for _, q := range all {
				if q.parent == p.parent && q.state == storage.TokenPending {
					gone[q] = true
				}
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			p := all[rapid.IntRange(0, len(all)-1).Draw(t, "pair")]
			usable := !gone[p] && p.state < storage.TokenSpent
			if rapid.Bool().Draw(t, "access") {
				if got := f.admits(p.Access); got != usable {
					t.Fatalf("access admits: %v, want %v", got, usable)
				}
				if usable {
					settle(p)
				}
				continue
			}
			n, err := f.Refresh(context.Background(), p.Refresh)
			if (err == nil) != usable {
				t.Fatalf("refresh: %v, want success %v", err, usable)
			}
			switch {
			case usable:
				settle(p)
				kids := 0
				for i := len(all) - 1; i >= 0; i-- {
					if q := all[i]; q.parent == p && q.state == storage.TokenPending && !gone[q] {
						if kids++; kids > 3 {
							gone[q] = true
						}
					}
				}
				all = append(all, &pair{Login: n, parent: p, state: storage.TokenPending})
			case !gone[p] && p.state == storage.TokenSpent:
				for _, q := range all {
					q.state = storage.TokenRevoked
				}
			}
		}
	})
}

// A login whose password was changed between its check and its session begins none.
func TestLoginAfterPasswordChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	f.user("alice")
	proven, err := f.CheckPassword(t.Context(), "alice", password)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.ResetPassword(t.Context(), "@alice:hs.test", "another one", true); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Login(t.Context(), proven, LoginRequest{}); !isCode(err, matrix.Forbidden) {
		t.Fatalf("got %v", err)
	}
	if proven, err = f.CheckPassword(t.Context(), "alice", "another one"); err != nil {
		t.Fatal(err)
	}
	if err := f.Deactivate(t.Context(), "@alice:hs.test", false); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Login(t.Context(), proven, LoginRequest{}); !isCode(err, matrix.UserDeactivated) {
		t.Fatalf("got %v", err)
	}
}

// At the limit a login takes the place of a device that was unused for long,
// and of no other.
func TestStaleDeviceMakesRoom(t *testing.T) {
	t.Parallel()
	var deleted []int64
	f := newFixture(t, Options{MaxDevices: 2, DeviceDeleted: func(_ *storage.Tx, d int64) error {
		deleted = append(deleted, d)
		return nil
	}})
	f.user("alice")
	user, err := f.CheckPassword(t.Context(), "alice", password)
	if err != nil {
		t.Fatal(err)
	}
	login := func(device matrix.DeviceID) error {
		_, err := f.Login(t.Context(), user, LoginRequest{Device: device})
		return err
	}
	f.mono.Store(int64(20 * 24 * time.Hour))
	if err := login("TWO"); err != nil {
		t.Fatal(err)
	}
	if err := login("THREE"); !isCode(err, matrix.Forbidden) {
		t.Fatalf("a device of 20 days made room: %v", err)
	}
	f.mono.Store(int64(31 * 24 * time.Hour))
	if err := login("THREE"); err != nil {
		t.Fatal(err)
	}
	if len(deleted) != 1 || deleted[0] != 1 {
		t.Fatalf("deleted %v", deleted)
	}
	if err := login("FOUR"); !isCode(err, matrix.Forbidden) {
		t.Fatalf("got %v", err)
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	f := newFixture(b, Options{})
	l := f.user("alice")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Authenticate(b.Context(), l.Access); err != nil {
			b.Fatal(err)
		}
	}
}
