package account

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"go.uber.org/zap"

	"hearth/storage"
	"hearth/storage/matrix"
)

const (
	maxDeviceName = 256 // bytes
	// staleAfter is how long a device must have been unused before a login may
	// take its place when the user has too many.
	staleAfter = 30 * 24 * time.Hour
	// LoginTokenTTL is how long a login token is good for.
	LoginTokenTTL = 2 * time.Minute
)

// LoginRequest is what a client may ask of a new session.
type LoginRequest struct {
	Device     matrix.DeviceID // "": the server chooses
	DeviceName string          // for a new device
	Refresh    bool            // the client can refresh, so its access token may expire
}

// Login is a new session, or a registration that began none.
type Login struct {
	User      matrix.UserID
	Device    matrix.DeviceID
	Access    matrix.Token
	Refresh   matrix.Token  // "": none
	ExpiresIn time.Duration // 0: the access token does not expire
}

// Login starts a session for a user who proved who they are. The ID of a
// device they have keeps that device and ends its former session.
// Client-Server API, "Relationship between access tokens and devices".
func (a *Accounts) Login(ctx context.Context, proven storage.User, req LoginRequest) (Login, error) {
	return write(ctx, a, "login", func(tx *storage.Tx) (Login, error) {
		now, err := tx.UserByNum(proven.Num)
		if err != nil {
			return Login{}, err
		}
		if !now.Active() {
			return Login{}, matrix.Errorf(matrix.UserDeactivated, "this account is deactivated")
		}
		if now.Locked {
			return Login{}, storage.ErrUserLocked
		}
		// The proof was made outside of this unit: a password that was changed
		// since, with every device logged out, must not begin a session.
		if now.PasswordHash != proven.PasswordHash {
			return Login{}, matrix.Errorf(matrix.Forbidden, "wrong user name or password")
		}
		return a.login(tx, now.Num, now.Localpart, req)
	})
}

func (a *Accounts) login(tx *storage.Tx, user int64, localpart string, req LoginRequest) (Login, error) {
	if req.Device == "" {
		req.Device = matrix.DeviceID(randomLetters(10, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
	}
	device, err := tx.Device(user, req.Device)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		if device.Num, err = a.addDevice(tx, user, req); err != nil {
			return Login{}, err
		}
	case err != nil:
		return Login{}, err
	}
	pair, expires := a.newTokens(tx, req.Refresh)
	if err := tx.StartSession(device.Num, pair); err != nil {
		return Login{}, err
	}
	return Login{a.userID(localpart), req.Device, pair.Access, pair.Refresh, expires}, nil
}

// addDevice makes room among the user's devices, which are bounded, and adds one.
func (a *Accounts) addDevice(tx *storage.Tx, user int64, req LoginRequest) (int64, error) {
	n, err := tx.CountDevices(user)
	if err != nil {
		return 0, err
	}
	if n >= a.opt.MaxDevices {
		stale, err := tx.StalestDevice(user, tx.Clock()-staleAfter.Milliseconds())
		if errors.Is(err, storage.ErrNotFound) {
			return 0, matrix.Errorf(matrix.Forbidden, "you are logged in on %d devices, which is the most this server allows; log out of one first", n)
		}
		if err != nil {
			return 0, err
		}
		if err := a.deleteDevices(tx, stale); err != nil {
			return 0, err
		}
		log := a.log.With(zap.Int64("user", user), zap.Int64("device", stale.Num))
		tx.AfterCommit(func() { log.Info("a login took the place of a long unused device") })
	}
	return tx.AddDevice(user, req.Device, req.DeviceName)
}

func (a *Accounts) newTokens(tx *storage.Tx, refresh bool) (storage.NewTokens, time.Duration) {
	pair := storage.NewTokens{Access: randomToken("hat_")}
	if !refresh {
		return pair, 0
	}
	pair.Refresh = randomToken("hrt_")
	pair.Expires = tx.Clock() + a.opt.AccessTokenTTL.Milliseconds()
	return pair, a.opt.AccessTokenTTL
}

// Refresh trades a refresh token for a new pair. The old pair stays good until
// the new one is first used, so that a lost answer costs nothing. A refresh
// token that comes back after that was copied: its whole session is revoked.
// Client-Server API, "Refreshing access tokens".
func (a *Accounts) Refresh(ctx context.Context, token matrix.Token) (Login, error) {
	err := a.store.Point(ctx, "find refresh token", func(rx *storage.Rx) error {
		_, err := rx.SessionByRefresh(token)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) { // a guess must not cost a write
		return Login{}, unknownToken("the refresh token is not known", false)
	}
	if err != nil {
		return Login{}, err
	}
	var refused error // told after the unit, which must commit a revocation
	login, err := write(ctx, a, "refresh token", func(tx *storage.Tx) (Login, error) {
		refused = nil
		s, err := tx.SessionByRefresh(token)
		if errors.Is(err, storage.ErrNotFound) {
			return Login{}, unknownToken("the refresh token is not known", false)
		}
		if err != nil {
			return Login{}, err
		}
		switch {
		case s.State == storage.TokenSpent:
			refused = unknownToken("the refresh token was used before", true)
			return Login{}, a.revokeCopied(tx, s)
		case s.Locked:
			return Login{}, storage.ErrUserLocked
		case s.State == storage.TokenRevoked, tx.Clock() >= s.Created+a.opt.RefreshTokenTTL.Milliseconds():
			return Login{}, unknownToken("the refresh token is no longer valid", true)
		case s.State == storage.TokenPending:
			if err := tx.SettleSession(s); err != nil {
				return Login{}, err
			}
		}
		pair, expires := a.newTokens(tx, true)
		if err := tx.RefreshSession(s, pair); err != nil {
			return Login{}, err
		}
		return Login{a.userID(s.Localpart), s.Device.ID, pair.Access, pair.Refresh, expires}, nil
	})
	if err == nil {
		err = refused
	}
	return login, err
}

// revokeCopied ends a session whose refresh token came back after its successor
// was used: two parties hold it, and there is no telling which is the owner.
func (a *Accounts) revokeCopied(tx *storage.Tx, s storage.Session) error {
	user, device := string(a.userID(s.Localpart)), string(s.Device.ID)
	tx.AfterCommit(func() {
		a.log.Warn("a spent refresh token was used again, its session is revoked", zap.String("user", user), zap.String("device", device))
	})
	return tx.RevokeSession(s.Device.Num)
}

// NewLoginToken makes a token with which another client can log in as the user, once.
func (a *Accounts) NewLoginToken(user matrix.UserID) matrix.Token {
	t := randomToken("hlt_")
	a.loginTokens.put(hashKey(t), user.Localpart())
	return t
}

// TakeLoginToken finds the user a login token was made for; it is good for one call.
func (a *Accounts) TakeLoginToken(ctx context.Context, t matrix.Token) (storage.User, error) {
	localpart, ok := a.loginTokens.take(hashKey(t))
	if !ok {
		return storage.User{}, matrix.Errorf(matrix.Forbidden, "the login token is unknown, used or expired")
	}
	return read(ctx, a, "login token", func(rx *storage.Rx) (storage.User, error) {
		return rx.UserByLocalpart(localpart)
	})
}

func hashKey(t matrix.Token) string {
	sum := sha256.Sum256([]byte(t.Reveal()))
	return string(sum[:])
}

// CheckDevice turns a client's choice of device ID and name into valid ones.
func CheckDevice(id, name string) (matrix.DeviceID, error) {
	if len(name) > maxDeviceName {
		return "", matrix.Errorf(matrix.InvalidParam, "the device name is longer than %d bytes", maxDeviceName)
	}
	if id == "" {
		return "", nil
	}
	device, err := matrix.ParseDeviceID(id)
	if err != nil {
		return "", matrix.Errorf(matrix.InvalidParam, "%s", err)
	}
	return device, nil
}

func unknownToken(message string, soft bool) error {
	e := &matrix.Error{Status: matrix.UnknownToken.Status(), Code: matrix.UnknownToken, Message: message}
	if soft {
		e.Extra = map[string]any{"soft_logout": true}
	}
	return e
}
