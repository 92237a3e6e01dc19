package account

import (
	"context"
	"errors"
	"strings"

	"hearth/storage"
	"hearth/storage/matrix"
)

// Registration is an account to be made. Whoever calls has checked that it may be.
type Registration struct {
	Localpart string        // as [Accounts.CheckName] returned it; "": the server chooses
	Password  matrix.Token  // "": the account cannot log in by password
	Token     matrix.Token  // the registration token that admits it, or ""
	Admin     bool          //
	Type      string        // "", or shared-secret registration's user_type
	Login     *LoginRequest // nil: begin no session
}

// CheckName maps what a client asks to be called to a localpart, and refuses
// what cannot be one (M_INVALID_USERNAME) or is taken (M_USER_IN_USE).
func (a *Accounts) CheckName(ctx context.Context, name string) (string, error) {
	local := lower(name)
	if !matrix.ValidLocalpart(local) {
		return "", matrix.Errorf(matrix.InvalidUsername, "a user name consists of a-z, 0-9 and ._=-/+")
	}
	if len(a.userID(local)) > matrix.MaxIDLength {
		return "", matrix.Errorf(matrix.InvalidUsername, "the user ID would be longer than %d bytes", matrix.MaxIDLength)
	}
	_, err := read(ctx, a, "check name", func(rx *storage.Rx) (storage.User, error) {
		return rx.UserByLocalpart(local)
	})
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return local, nil
	case err != nil:
		return "", err
	}
	return "", errInUse()
}

func errInUse() error { return matrix.Errorf(matrix.UserInUse, "this user name is taken") }

// lower maps A-Z only: another mapping could turn two names into one.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// LocalpartOf reads what a client identifies a user by: a user ID of this
// server, or a localpart. For others ok is false.
func (a *Accounts) LocalpartOf(user string) (localpart string, ok bool) {
	if strings.HasPrefix(user, "@") {
		id, err := matrix.ParseUserID(user)
		if err != nil || id.Server() != a.store.ServerName() {
			return "", false
		}
		user = id.Localpart()
	}
	return lower(user), user != "" && len(user) <= matrix.MaxIDLength
}

// Register makes an account. A name that was taken in the meantime is
// M_USER_IN_USE, a registration token that was used up is M_FORBIDDEN.
func (a *Accounts) Register(ctx context.Context, r Registration) (Login, error) {
	user := storage.User{Localpart: r.Localpart, Admin: r.Admin, Type: r.Type}
	if r.Password != "" {
		hash, err := a.hasher.hash(ctx, r.Password)
		if err != nil {
			return Login{}, err
		}
		user.PasswordHash = hash
	}
	if user.Localpart == "" {
		user.Localpart = randomLetters(12, "abcdefghijklmnopqrstuvwxyz234567")
	}
	return write(ctx, a, "register", func(tx *storage.Tx) (Login, error) { return a.register(tx, user, r) })
}

func (a *Accounts) register(tx *storage.Tx, user storage.User, r Registration) (Login, error) {
	if r.Token != "" {
		t, err := tx.RegistrationToken(r.Token)
		if err == nil {
			err = tx.UseRegistrationToken(r.Token)
		}
		if errors.Is(err, storage.ErrNotFound) {
			return Login{}, matrix.Errorf(matrix.Forbidden, "the registration token is used up or expired")
		}
		if err != nil {
			return Login{}, err
		}
		user.Admin = user.Admin || t.FirstRun
	}
	if _, err := tx.UserByLocalpart(user.Localpart); !errors.Is(err, storage.ErrNotFound) {
		if err == nil {
			err = errInUse()
		}
		return Login{}, err
	}
	num, err := tx.AddUser(user)
	if err != nil {
		return Login{}, err
	}
	if user.Admin {
		if err := endFirstRun(tx); err != nil {
			return Login{}, err
		}
	}
	if r.Login == nil {
		return Login{User: a.userID(user.Localpart)}, nil
	}
	return a.login(tx, num, user.Localpart, *r.Login)
}
