package account

import (
	"context"
	"errors"

	"hearth/storage"
	"hearth/storage/matrix"
)

// AddUser makes an account without asking anyone, for the administrator.
func (a *Accounts) AddUser(ctx context.Context, name string, password matrix.Token, admin bool) (matrix.UserID, error) {
	local, err := a.CheckName(ctx, name)
	if err != nil {
		return "", err
	}
	if err := a.CheckNewPassword(password); err != nil {
		return "", err
	}
	login, err := a.Register(ctx, Registration{Localpart: local, Password: password, Admin: admin})
	return login.User, err
}

// UserInfo is an account as the administrator sees it.
type UserInfo struct {
	storage.User
	ID      matrix.UserID
	Devices int
}

// ListUsers lists at most limit accounts in order of creation, beginning after
// the account with the given number.
func (a *Accounts) ListUsers(ctx context.Context, after int64, limit int) ([]UserInfo, error) {
	return read(ctx, a, "list users", func(rx *storage.Rx) ([]UserInfo, error) {
		users, err := rx.Users(after, limit)
		if err != nil {
			return nil, err
		}
		infos := make([]UserInfo, len(users))
		for i, u := range users {
			n, err := rx.CountDevices(u.Num)
			if err != nil {
				return nil, err
			}
			infos[i] = UserInfo{User: u, ID: a.userID(u.Localpart), Devices: n}
		}
		return infos, nil
	})
}

// Deactivate closes an account for ever: its devices and password are gone, its
// name stays taken. An unknown or deactivated account is [storage.ErrNotFound].
func (a *Accounts) Deactivate(ctx context.Context, user matrix.UserID, erase bool) error {
	err := a.store.Write(ctx, "deactivate", func(tx *storage.Tx) error {
		u, err := tx.UserByID(user)
		if err != nil {
			return err
		}
		if err := a.deleteOtherDevices(tx, u.Num, 0); err != nil {
			return err
		}
		return tx.DeactivateUser(u.Num, erase)
	})
	if err == nil {
		a.forget(user)
	}
	return err
}

// forget drops what waits in memory for a user's proof of identity.
func (a *Accounts) forget(user matrix.UserID) {
	a.interactions.removeIf(func(s *interaction) bool { return s.User == user })
	a.loginTokens.removeIf(func(local string) bool { return local == user.Localpart() })
}

// ResetPassword sets a password without asking for the old one, for the
// administrator. With logout all of the user's devices are deleted.
func (a *Accounts) ResetPassword(ctx context.Context, user matrix.UserID, password matrix.Token, logout bool) error {
	return a.setPassword(ctx, user, password, logout, 0)
}

// ChangePassword sets a password on behalf of the user at device keep, which
// stays logged in. With logout all other devices are deleted.
func (a *Accounts) ChangePassword(ctx context.Context, user matrix.UserID, password matrix.Token, logout bool, keep int64) error {
	return a.setPassword(ctx, user, password, logout, keep)
}

func (a *Accounts) setPassword(ctx context.Context, user matrix.UserID, password matrix.Token, logout bool, keep int64) error {
	if err := a.CheckNewPassword(password); err != nil {
		return err
	}
	hash, err := a.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	err = a.store.Write(ctx, "set password", func(tx *storage.Tx) error {
		u, err := tx.UserByID(user)
		if err != nil {
			return err
		}
		if err := tx.SetPassword(u.Num, hash); err != nil {
			return err
		}
		if keep != 0 { // the request's own device may have been deleted meanwhile
			if err := a.Alive(tx.Rx, keep); err != nil {
				return err
			}
		}
		if !logout {
			return nil
		}
		return a.deleteOtherDevices(tx, u.Num, keep)
	})
	if err == nil {
		a.forget(user) // proofs made with the old password
	}
	return err
}

// Alive returns M_UNKNOWN_TOKEN once a device was deleted: what a request began
// with its token must not take effect after.
func (a *Accounts) Alive(rx *storage.Rx, device int64) error {
	err := rx.DeviceAlive(device)
	if errors.Is(err, storage.ErrNotFound) {
		return unknownToken("the device was logged out", false)
	}
	return err
}

// deleteOtherDevices removes all of a user's devices but keep, in the unit of tx.
func (a *Accounts) deleteOtherDevices(tx *storage.Tx, user, keep int64) error {
	devices, err := tx.DevicesOf(user)
	if err != nil {
		return err
	}
	for _, d := range devices {
		if d.Num == keep {
			continue
		}
		if err := a.deleteDevices(tx, d); err != nil {
			return err
		}
	}
	return nil
}

// Logout deletes the device and with it its tokens, inbox and records.
func (a *Accounts) Logout(ctx context.Context, device storage.DeviceRef) error {
	return a.store.Write(ctx, "logout", func(tx *storage.Tx) error { return a.deleteDevices(tx, device) })
}

// LogoutAll deletes every device of the user.
func (a *Accounts) LogoutAll(ctx context.Context, user int64) error {
	return a.store.Write(ctx, "logout all", func(tx *storage.Tx) error { return a.deleteOtherDevices(tx, user, 0) })
}

// DeleteDevices deletes those of the user's devices that are named; one that is
// not there is no error.
func (a *Accounts) DeleteDevices(ctx context.Context, user int64, ids []matrix.DeviceID) error {
	return a.store.Write(ctx, "delete devices", func(tx *storage.Tx) error {
		for _, id := range ids {
			d, err := tx.Device(user, id)
			if errors.Is(err, storage.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if err := a.deleteDevices(tx, d.DeviceRef); err != nil {
				return err
			}
		}
		return nil
	})
}

// SetLocked locks or unlocks an account, for the administrator: while locked it
// may only log out, and its sessions are kept. An unknown or deactivated
// account is [storage.ErrNotFound]. Client-Server API, "Account locking".
func (a *Accounts) SetLocked(ctx context.Context, user matrix.UserID, locked bool) error {
	return a.moderate(ctx, user, func(tx *storage.Tx, num int64) error { return tx.LockUser(num, locked) })
}

// SetSuspended suspends an account or ends that, as SetLocked.
// Client-Server API, "Account suspension".
func (a *Accounts) SetSuspended(ctx context.Context, user matrix.UserID, suspended bool) error {
	return a.moderate(ctx, user, func(tx *storage.Tx, num int64) error { return tx.SuspendUser(num, suspended) })
}

func (a *Accounts) moderate(ctx context.Context, user matrix.UserID, change func(*storage.Tx, int64) error) error {
	return a.store.Write(ctx, "moderate user", func(tx *storage.Tx) error {
		u, err := tx.UserByID(user)
		if err != nil {
			return err
		}
		return change(tx, u.Num)
	})
}
