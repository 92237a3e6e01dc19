package clientapi

import (
	"context"

	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

const (
	listedPublic  = "public"
	listedPrivate = "private"
)

// listing is a room's place in the directory, "public" or "private".
type listing struct {
	Visibility string `json:"visibility"`
}

// Validate implements web.Validator.
func (l *listing) Validate() error {
	if l.Visibility == "" {
		l.Visibility = listedPublic
	}
	return checkListing(l.Visibility)
}

func checkListing(v string) error {
	if v != listedPublic && v != listedPrivate {
		return matrix.Errorf(matrix.InvalidParam, "visibility must be public or private")
	}
	return nil
}

// getRoomListing serves GET /_matrix/client/v3/directory/list/room/{roomId}.
// Client-Server API, "Published room directory".
func (a *API) getRoomListing(ctx context.Context, c *web.Call, _ web.NoBody) (out listing, err error) {
	id, err := roomVar(c)
	if err != nil {
		return out, err
	}
	err = a.Store.Read(ctx, "room listing", func(rx *storage.Rx) error {
		in, err := knownRoom(rx, id)
		out.Visibility = listedPrivate
		if in.Public {
			out.Visibility = listedPublic
		}
		return err
	})
	return out, err
}

// putRoomListing serves PUT /_matrix/client/v3/directory/list/room/{roomId}: for
// those who may say which aliases the room has, and administrators.
// Client-Server API, "Published room directory".
func (a *API) putRoomListing(ctx context.Context, c *web.Call, in listing) (web.Empty, error) {
	id, err := roomVar(c)
	if err != nil {
		return web.Empty{}, err
	}
	return web.Empty{}, a.change(ctx, c, func(tx *storage.Tx) error {
		room, err := knownRoom(tx.Rx, id)
		if err != nil {
			return err
		}
		speaks, err := speaksForAliases(tx.Rx, room, c.User)
		if err == nil && !speaks && !c.Admin {
			err = matrix.Errorf(matrix.Forbidden, "you may not set whether %s is in the directory", id)
		}
		if err != nil {
			return err
		}
		return tx.SetPublic(room.Num, in.Visibility == listedPublic)
	})
}
