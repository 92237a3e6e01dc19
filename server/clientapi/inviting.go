package clientapi

import (
	"context"

	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

type inviteRequest struct {
	User    matrix.UserID `json:"user_id"`
	Reason  string        `json:"reason"`
	Medium  string        `json:"medium"`  // these two are of the other form, which
	Address string        `json:"address"` // names an address instead of a user
}

// Validate implements web.Validator.
func (r inviteRequest) Validate() error {
	switch {
	case r.User != "":
		return nil
	case r.Medium != "" || r.Address != "":
		return errNoIdentityServer
	}
	return matrix.Errorf(matrix.MissingParam, "user_id is missing")
}

// errNoIdentityServer refuses invites of addresses: only an identity server
// could tell whose they are, and this server asks none.
var errNoIdentityServer error = matrix.Errorf(matrix.Forbidden, "this server asks no identity server: people can be invited by user ID only")

// postInvite serves POST /_matrix/client/v3/rooms/{roomId}/invite in both of
// its forms. Client-Server API, "Joining rooms" and "Third-party invites".
func (a *API) postInvite(ctx context.Context, c *web.Call, in inviteRequest) (web.Empty, error) {
	id, err := roomVar(c)
	if err != nil {
		return web.Empty{}, err
	}
	return web.Empty{}, a.change(ctx, c, func(tx *storage.Tx) error {
		to, err := joinedRoom(tx.Rx, id, c.User)
		if err != nil {
			return err
		}
		if err := a.mayInvite(tx.Rx, in.User); err != nil {
			return err
		}
		m, err := membership(tx.Rx, to, in.User)
		if err != nil || m == matrix.MembershipInvite {
			return err
		}
		return a.Rooms.Invite(tx, to, actOn(c, in.User, in.Reason))
	})
}

// mayInvite decides what the room's rules do not: whether this server can carry
// an invite, and whether the invited user wants any.
func (a *API) mayInvite(rx *storage.Rx, user matrix.UserID) error {
	if user.Server() != a.Store.ServerName() {
		return matrix.Errorf(matrix.Forbidden, "%s is a user of another server, which this one cannot invite", user)
	}
	return rx.MayInvite(user)
}
