package clientapi

import (
	"context"
	"errors"

	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

type leaveRequest struct {
	Reason string `json:"reason"`
}

// postLeave serves POST /_matrix/client/v3/rooms/{roomId}/leave, which also
// rejects invites and takes back knocks.
// Client-Server API, "Leaving rooms".
func (a *API) postLeave(ctx context.Context, c *web.Call, in leaveRequest) (web.Empty, error) {
	id, err := roomVar(c)
	if err != nil {
		return web.Empty{}, err
	}
	return web.Empty{}, a.change(ctx, c, func(tx *storage.Tx) error {
		from, err := memberRoom(tx.Rx, id)
		if err != nil {
			return err
		}
		if _, err := tx.Membership(from.Num, c.User); errors.Is(err, storage.ErrNotFound) {
			return matrix.Errorf(matrix.Forbidden, "you are not in room %s", id)
		} else if err != nil {
			return err
		}
		return a.Rooms.Leave(tx, from, act(c, in.Reason))
	})
}

// postForget serves POST /_matrix/client/v3/rooms/{roomId}/forget. What is not
// known of, or no more, is forgotten already.
// Client-Server API, "Leaving rooms".
func (a *API) postForget(ctx context.Context, c *web.Call, _ web.NoBody) (web.Empty, error) {
	id, err := roomVar(c)
	if err != nil {
		return web.Empty{}, err
	}
	return web.Empty{}, a.change(ctx, c, func(tx *storage.Tx) error {
		in, err := tx.Room(id)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		m, err := tx.Membership(in.Num, c.User)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return nil
		case err != nil:
			return err
		case m.Membership != matrix.MembershipLeave && m.Membership != matrix.MembershipBan:
			return &matrix.Error{Status: 400, Code: matrix.Unknown, Message: "leave the room first"}
		}
		return tx.Forget(in.Num, c.User)
	})
}
