package account

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"hearth/storage"
	"hearth/storage/matrix"
)

// fixture is accounts on a real store, whose steady clock a test can move.
type fixture struct {
	*Accounts
	t    testing.TB
	mono atomic.Int64
	dir  string
}

func newFixture(t testing.TB, opt Options) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir()}
	start := time.Now()
	store, err := storage.Open(context.Background(), storage.Options{
		Dir: f.dir, ServerName: "hs.test",
		Mono: func() time.Duration { return time.Since(start) + time.Duration(f.mono.Load()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if opt.HashMemory == 0 {
		opt.HashTime, opt.HashMemory = 1, 64
	}
	f.Accounts = New(store, opt, zap.NewNop())
	return f
}

const password = "correct horse"

// user makes an account with one device that can refresh.
func (f *fixture) user(name string) Login {
	f.t.Helper()
	l, err := f.Register(context.Background(), Registration{
		Localpart: name, Password: password, Login: &LoginRequest{Device: "ONE", Refresh: true},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

// admits tells whether an access token is good.
func (f *fixture) admits(t matrix.Token) bool {
	f.t.Helper()
	_, err := f.Authenticate(context.Background(), t)
	var told *matrix.Error
	if err != nil && (!errors.As(err, &told) || told.Code != matrix.UnknownToken) {
		f.t.Fatal(err)
	}
	return err == nil
}

func isCode(err error, code matrix.Code) bool {
	var told *matrix.Error
	return errors.As(err, &told) && told.Code == code
}

func scale(n int) int {
	if by, err := strconv.Atoi(os.Getenv("HEARTH_TEST_SCALE")); err == nil && by > 0 {
		return n * by
	}
	return n
}
