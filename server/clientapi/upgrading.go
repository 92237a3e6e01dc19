package clientapi

import (
	"context"

	"hearth/federation/room"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

// maxCreators bounds additional_creators, which one event has to hold.
const maxCreators = 200

type upgradeRequest struct {
	Version  matrix.RoomVersion `json:"new_version"`
	Creators []matrix.UserID    `json:"additional_creators"`
}

// Validate implements web.Validator.
func (r upgradeRequest) Validate() error {
	switch {
	case r.Version == "":
		return matrix.Errorf(matrix.MissingParam, "new_version is missing")
	case len(r.Creators) > maxCreators:
		return matrix.Errorf(matrix.TooLarge, "more than %d additional creators", maxCreators)
	}
	if _, ok := matrix.VersionOf(r.Version); !ok {
		return matrix.Errorf(matrix.UnsupportedRoomVersion, "this server does not know that room version")
	}
	return nil
}

// chargeTransfer counts what may be many and goes over to the new room, bans and
// the rooms of a space, against the caller's rate limit: they are as many events,
// in a unit that others wait for.
func chargeTransfer(rx *storage.Rx, c *web.Call, in storage.Room) error {
	const most = 1000 // is beyond what a limit lets through at once
	banned, err := rx.Members(in.Num, matrix.MembershipBan, "", most)
	if err != nil {
		return err
	}
	n := len(banned)
	state, err := rx.CurrentStateKeys(in.Num)
	for _, e := range state {
		if e.Type == "m.space.child" {
			n++
		}
	}
	if err != nil {
		return err
	}
	return c.Charge(n)
}

type upgraded struct {
	Room matrix.RoomID `json:"replacement_room"`
}

// postUpgrade serves POST /_matrix/client/v3/rooms/{roomId}/upgrade.
// Client-Server API, "Room upgrades".
func (a *API) postUpgrade(ctx context.Context, c *web.Call, in upgradeRequest) (out upgraded, err error) {
	id, err := roomVar(c)
	if err != nil {
		return out, err
	}
	err = a.change(ctx, c, func(tx *storage.Tx) error {
		old, err := joinedRoom(tx.Rx, id, c.User)
		if err != nil {
			return err
		}
		if err := chargeTransfer(tx.Rx, c, old); err != nil {
			return err
		}
		next, err := a.Rooms.Upgrade(tx, old, room.Upgrading{By: c.User, Version: in.Version, Creators: in.Creators})
		out.Room = next.ID
		return err
	})
	return out, err
}
