package account

import (
	"context"
	"errors"
	"strings"
	"time"

	"hearth/storage"
	"hearth/storage/matrix"
)

// maxRegToken is the length limit that the specification sets.
// Client-Server API, "Token-authenticated registration".
const maxRegToken = 64

// CheckRegToken tells whether a registration token would admit a user now. In
// mode closed only the first administrator's does.
func (a *Accounts) CheckRegToken(ctx context.Context, t matrix.Token) (bool, error) {
	return read(ctx, a, "check registration token", func(rx *storage.Rx) (bool, error) {
		got, err := rx.RegistrationToken(t)
		if errors.Is(err, storage.ErrNotFound) {
			return false, nil
		}
		return got.Valid(rx.Clock()) && (got.FirstRun || a.opt.Registration != Closed), err
	})
}

// FirstRunToken returns the token that makes whoever registers with it, once,
// an administrator; or "" where there is an administrator. The same token is
// returned until it is used, so that it survives a restart.
func (a *Accounts) FirstRunToken(ctx context.Context) (matrix.Token, error) {
	return write(ctx, a, "first-run token", func(tx *storage.Tx) (matrix.Token, error) {
		old, err := tx.FirstRunToken()
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return "", err
		}
		exists, err2 := tx.HasAdmin()
		switch {
		case err2 != nil:
			return "", err2
		case exists && err == nil: // made by other means: the token must not lie about
			return "", tx.DeleteRegistrationToken(old.Token)
		case exists:
			return "", nil
		case err == nil:
			return old.Token, nil
		}
		t := matrix.Token(randomString(24))
		return t, tx.AddRegistrationToken(storage.RegistrationToken{Token: t, Allowed: 1, FirstRun: true})
	})
}

// endFirstRun ends the token that awaits the first administrator, where there
// is one, in the unit that makes an administrator by other means: it stands in
// a log, and whoever read it there must not become a second one.
func endFirstRun(tx *storage.Tx) error {
	t, err := tx.FirstRunToken()
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return tx.DeleteRegistrationToken(t.Token)
}

// awaitsAdmin tells whether a first-run token is open.
func (a *Accounts) awaitsAdmin(ctx context.Context) (bool, error) {
	return read(ctx, a, "first-run token", func(rx *storage.Rx) (bool, error) {
		_, err := rx.FirstRunToken()
		if errors.Is(err, storage.ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	})
}

// AddToken makes a registration token for a number of users (0: any) and a time
// (0: for ever). Without a name it is random.
func (a *Accounts) AddToken(ctx context.Context, name string, uses int64, ttl time.Duration) (matrix.Token, error) {
	if name == "" {
		name = randomString(15)
	}
	if !validRegToken(name) {
		return "", matrix.Errorf(matrix.InvalidParam, "a registration token has 1 to %d characters of a-z, A-Z, 0-9 and ._~-", maxRegToken)
	}
	if uses < 0 || ttl < 0 {
		return "", matrix.Errorf(matrix.InvalidParam, "neither uses nor lifetime may be negative")
	}
	return write(ctx, a, "add registration token", func(tx *storage.Tx) (matrix.Token, error) {
		t := storage.RegistrationToken{Token: matrix.Token(name), Allowed: uses}
		if ttl > 0 {
			t.Expires = tx.Clock() + ttl.Milliseconds()
		}
		if _, err := tx.RegistrationToken(t.Token); !errors.Is(err, storage.ErrNotFound) {
			if err == nil {
				err = matrix.Errorf(matrix.InvalidParam, "this registration token exists already")
			}
			return "", err
		}
		return t.Token, tx.AddRegistrationToken(t)
	})
}

// validRegToken checks the opaque identifier grammar. Appendices, "Opaque Identifiers".
func validRegToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0) {
			return false
		}
	}
	return s != "" && len(s) <= maxRegToken
}

// TokenInfo is a registration token as the administrator sees it.
type TokenInfo struct {
	storage.RegistrationToken
	Valid     bool          // it would admit a user now
	ExpiresIn time.Duration // 0: does not expire
}

// ListTokens lists all registration tokens.
func (a *Accounts) ListTokens(ctx context.Context) ([]TokenInfo, error) {
	return read(ctx, a, "list registration tokens", func(rx *storage.Rx) ([]TokenInfo, error) {
		list, err := rx.RegistrationTokens()
		infos := make([]TokenInfo, len(list))
		for i, t := range list {
			infos[i] = TokenInfo{RegistrationToken: t, Valid: t.Valid(rx.Clock())}
			if t.Expires != 0 {
				infos[i].ExpiresIn = time.Duration(t.Expires-rx.Clock()) * time.Millisecond
			}
		}
		return infos, err
	})
}

// RevokeToken deletes a registration token; an unknown one is [storage.ErrNotFound].
func (a *Accounts) RevokeToken(ctx context.Context, t matrix.Token) error {
	return a.store.Write(ctx, "revoke registration token", func(tx *storage.Tx) error {
		return tx.DeleteRegistrationToken(t)
	})
}
