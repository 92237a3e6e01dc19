package clientapi

import (
	"context"
	"errors"
	"net/http"

	"hearth/federation/room"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

// targetRequest names another user and why.
type targetRequest struct {
	User   matrix.UserID `json:"user_id"`
	Reason string        `json:"reason"`
}

// Validate implements web.Validator.
func (r targetRequest) Validate() error {
	if r.User == "" {
		return matrix.Errorf(matrix.MissingParam, "user_id is missing")
	}
	return nil
}

// postKick serves POST /_matrix/client/v3/rooms/{roomId}/kick.
// Client-Server API, "Leaving rooms".
func (a *API) postKick(ctx context.Context, c *web.Call, in targetRequest) (web.Empty, error) {
	return web.Empty{}, a.actOnOther(ctx, c, in, a.Rooms.Kick)
}

// postBan serves POST /_matrix/client/v3/rooms/{roomId}/ban.
// Client-Server API, "Banning users in a room".
func (a *API) postBan(ctx context.Context, c *web.Call, in targetRequest) (web.Empty, error) {
	return web.Empty{}, a.actOnOther(ctx, c, in, a.Rooms.Ban)
}

// postUnban serves POST /_matrix/client/v3/rooms/{roomId}/unban.
// Client-Server API, "Banning users in a room".
func (a *API) postUnban(ctx context.Context, c *web.Call, in targetRequest) (web.Empty, error) {
	err := a.actOnOther(ctx, c, in, a.Rooms.Unban)
	var told *matrix.Error
	if errors.As(err, &told) && told.Code == matrix.BadState {
		// All refusals of this endpoint have the status that it documents.
		err = &matrix.Error{Status: http.StatusForbidden, Code: told.Code, Message: told.Message}
	}
	return web.Empty{}, err
}

func (a *API) actOnOther(ctx context.Context, c *web.Call, in targetRequest, do func(*storage.Tx, storage.Room, room.Act) error) error {
	id, err := roomVar(c)
	if err != nil {
		return err
	}
	return a.change(ctx, c, func(tx *storage.Tx) error {
		where, err := joinedRoom(tx.Rx, id, c.User)
		if err != nil {
			return err
		}
		return do(tx, where, actOn(c, in.User, in.Reason))
	})
}
