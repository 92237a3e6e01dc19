package clientapi

import (
	"context"
	"errors"

	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

// notSuspended returns M_USER_SUSPENDED where the caller's account is suspended.
// Whatever joins, knocks, invites, kicks, bans, makes or changes a room, says
// something in one, redacts what another said, or changes a profile asks it
// before anything else. Who is suspended may still read and sync, leave rooms
// and reject invites, redact what they said themselves, send to devices, write
// keys and backups, log in and out, and close the account.
//
// An endpoint that is refused always is wrapped in [active] where its route is;
// one that is refused in some cases (a state event that is a leave, a
// redaction) calls this where it knows. Locked accounts never come so far: the
// kernel refuses them. Client-Server API, "Account suspension".
func notSuspended(c *web.Call) error {
	if c.Suspended {
		return matrix.Errorf(matrix.UserSuspended, "you cannot do this while your account is suspended")
	}
	return nil
}

// active is [authed] for endpoints that suspended accounts may not use at all.
func active[In, Out any](a *API, fn func(context.Context, *web.Call, In) (Out, error)) web.Handler {
	return authed(a, func(ctx context.Context, c *web.Call, in In) (Out, error) {
		if err := notSuspended(c); err != nil {
			return *new(Out), err
		}
		return fn(ctx, c, in)
	})
}

func (a *API) moderationRoutes() []web.Route {
	const admin = "/_matrix/client/v1/admin"
	return []web.Route{
		{Method: "GET", Path: admin + "/lock/{userId}", Handler: authed(a, a.getLock)},
		{Method: "PUT", Path: admin + "/lock/{userId}", Handler: authed(a, a.putLock), MaxBody: smallBody},
		{Method: "GET", Path: admin + "/suspend/{userId}", Handler: authed(a, a.getSuspend)},
		{Method: "PUT", Path: admin + "/suspend/{userId}", Handler: authed(a, a.putSuspend), MaxBody: smallBody},
	}
}

// locked is the body of the lock endpoints.
type locked struct {
	Locked *bool `json:"locked"`
}

// Validate implements [web.Validator].
func (l locked) Validate() error { return wantFlag(l.Locked, "locked") }

// suspended is the body of the suspend endpoints.
type suspended struct {
	Suspended *bool `json:"suspended"`
}

// Validate implements [web.Validator].
func (s suspended) Validate() error { return wantFlag(s.Suspended, "suspended") }

func wantFlag(f *bool, name string) error {
	if f == nil {
		return matrix.Errorf(matrix.MissingParam, "%s is missing", name)
	}
	return nil
}

// getLock serves GET /_matrix/client/v1/admin/lock/{userId}.
// Client-Server API, "Server Administration", as are those below.
func (a *API) getLock(ctx context.Context, c *web.Call, _ web.NoBody) (locked, error) {
	u, err := a.readModerated(ctx, c)
	return locked{&u.Locked}, err
}

// putLock serves PUT /_matrix/client/v1/admin/lock/{userId}.
func (a *API) putLock(ctx context.Context, c *web.Call, in locked) (locked, error) {
	return in, a.moderate(ctx, c, func(tx *storage.Tx, u storage.User) error { return tx.LockUser(u.Num, *in.Locked) })
}

// getSuspend serves GET /_matrix/client/v1/admin/suspend/{userId}.
func (a *API) getSuspend(ctx context.Context, c *web.Call, _ web.NoBody) (suspended, error) {
	u, err := a.readModerated(ctx, c)
	return suspended{&u.Suspended}, err
}

// putSuspend serves PUT /_matrix/client/v1/admin/suspend/{userId}.
func (a *API) putSuspend(ctx context.Context, c *web.Call, in suspended) (suspended, error) {
	return in, a.moderate(ctx, c, func(tx *storage.Tx, u storage.User) error { return tx.SuspendUser(u.Num, *in.Suspended) })
}

// readModerated finds the user of the path, in a snapshot.
func (a *API) readModerated(ctx context.Context, c *web.Call) (u storage.User, err error) {
	err = a.Store.Read(ctx, "read moderated user", func(rx *storage.Rx) (err error) {
		u, err = moderated(rx, c)
		return err
	})
	return u, err
}

// moderate changes the user of the path, who is not the caller.
func (a *API) moderate(ctx context.Context, c *web.Call, change func(*storage.Tx, storage.User) error) error {
	return a.Store.Write(ctx, "moderate user", func(tx *storage.Tx) error {
		if err := a.Accounts.Alive(tx.Rx, c.DeviceNum); err != nil {
			return err
		}
		u, err := moderated(tx.Rx, c)
		if err != nil {
			return err
		}
		if u.Num == c.UserNum {
			return matrix.Errorf(matrix.Forbidden, "nobody may do this to their own account")
		}
		return change(tx, u)
	})
}

// moderated finds the user of the path for an administrator. Who is none learns
// nothing, not even whether there is such a user.
func moderated(rx *storage.Rx, c *web.Call) (storage.User, error) {
	if !c.Admin {
		return storage.User{}, matrix.Errorf(matrix.Forbidden, "only an administrator may do this")
	}
	id, err := matrix.ParseUserID(c.Vars["userId"])
	if err != nil {
		return storage.User{}, matrix.Errorf(matrix.InvalidParam, "%s", err)
	}
	if id.Server() != rx.ServerName() {
		return storage.User{}, matrix.Errorf(matrix.InvalidParam, "%s is no user of this server", id)
	}
	u, err := rx.UserByID(id)
	switch {
	case errors.Is(err, storage.ErrNotFound), err == nil && !u.Active():
		return storage.User{}, matrix.Errorf(matrix.NotFound, "there is no such user here")
	case err != nil:
		return storage.User{}, err
	case u.Admin && u.Num != c.UserNum:
		return storage.User{}, matrix.Errorf(matrix.Forbidden, "%s is an administrator too", id)
	}
	return u, nil
}
