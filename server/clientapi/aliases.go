package clientapi

import (
	"context"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/room"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

// aliasVar is the alias that the path names.
func aliasVar(c *web.Call, name string) (matrix.RoomAlias, error) {
	alias, err := matrix.ParseRoomAlias(c.Vars[name])
	if err != nil {
		return "", matrix.Errorf(matrix.InvalidParam, "%s", err)
	}
	return alias, nil
}

// resolve finds the room that an alias points to. Those of other servers are
// not known here.
func resolve(rx *storage.Rx, alias matrix.RoomAlias) (storage.Alias, error) {
	found, err := rx.Alias(alias)
	if errors.Is(err, storage.ErrNotFound) {
		return found, matrix.Errorf(matrix.NotFound, "room alias %s not found", alias)
	}
	return found, err
}

type aliasAnswer struct {
	Room    matrix.RoomID       `json:"room_id"`
	Servers []matrix.ServerName `json:"servers"`
}

// getAlias serves GET /_matrix/client/v3/directory/room/{roomAlias}.
// Client-Server API, "Room aliases".
func (a *API) getAlias(ctx context.Context, c *web.Call, _ web.NoBody) (out aliasAnswer, err error) {
	alias, err := aliasVar(c, "roomAlias")
	if err != nil {
		return out, err
	}
	err = a.Store.Read(ctx, "resolve alias", func(rx *storage.Rx) error {
		found, err := resolve(rx, alias)
		if err != nil {
			return err
		}
		in, err := rx.RoomByNum(found.Room)
		if err != nil {
			return err
		}
		out.Room = in.ID
		out.Servers, err = rx.JoinedServers(in.Num)
		return err
	})
	// We know the alias, whoever else does.
	if us := a.Store.ServerName(); err == nil && !slices.Contains(out.Servers, us) {
		out.Servers = append([]matrix.ServerName{us}, out.Servers...)
	}
	return out, err
}

type aliasRequest struct {
	Room matrix.RoomID `json:"room_id"`
}

// Validate implements web.Validator.
func (r aliasRequest) Validate() error {
	if r.Room == "" {
		return matrix.Errorf(matrix.MissingParam, "room_id is missing")
	}
	return nil
}

// putAlias serves PUT /_matrix/client/v3/directory/room/{roomAlias}.
// Client-Server API, "Room aliases".
func (a *API) putAlias(ctx context.Context, c *web.Call, in aliasRequest) (web.Empty, error) {
	alias, err := aliasVar(c, "roomAlias")
	if err != nil {
		return web.Empty{}, err
	}
	if alias.Server() != a.Store.ServerName() {
		return web.Empty{}, matrix.Errorf(matrix.InvalidParam, "%s is an alias of another server", alias)
	}
	return web.Empty{}, a.change(ctx, c, func(tx *storage.Tx) error {
		to, err := joinedRoom(tx.Rx, in.Room, c.User)
		if err != nil {
			return err
		}
		if err := a.mayName(tx.Rx, to); err != nil {
			return err
		}
		err = tx.AddAlias(alias, to.Num, c.User)
		if errors.Is(err, storage.ErrConflict) {
			return &matrix.Error{Status: 409, Code: matrix.Unknown, Message: "room alias " + string(alias) + " already exists"}
		}
		return err
	})
}

// mayName refuses a room one more alias than it may have.
func (a *API) mayName(rx *storage.Rx, in storage.Room) error {
	n, err := rx.CountAliases(in.Num)
	if most := a.Options.Rooms.MaxAliases; err == nil && most > 0 && n >= int64(most) {
		err = matrix.Errorf(matrix.TooLarge, "the room has %d aliases already, and may have no more", n)
	}
	return err
}

// wantJoined refuses those who are not joined to the room.
func wantJoined(rx *storage.Rx, in storage.Room, user matrix.UserID) error {
	m, err := membership(rx, in, user)
	if err == nil && m != matrix.MembershipJoin {
		err = matrix.Errorf(matrix.Forbidden, "you are not in room %s", in.ID)
	}
	return err
}

// deleteAlias serves DELETE /_matrix/client/v3/directory/room/{roomAlias}: for
// who made the alias, who may say which aliases the room has, and
// administrators. Client-Server API, "Room aliases".
func (a *API) deleteAlias(ctx context.Context, c *web.Call, _ web.NoBody) (web.Empty, error) {
	alias, err := aliasVar(c, "roomAlias")
	if err != nil {
		return web.Empty{}, err
	}
	return web.Empty{}, a.change(ctx, c, func(tx *storage.Tx) error {
		found, err := resolve(tx.Rx, alias)
		if err != nil {
			return err
		}
		in, err := tx.RoomByNum(found.Room)
		if err != nil {
			return err
		}
		speaks, err := speaksForAliases(tx.Rx, in, c.User)
		if err != nil {
			return err
		}
		if !speaks && found.Creator != c.User && !c.Admin {
			return matrix.Errorf(matrix.Forbidden, "you did not make the alias %s, nor may you set the aliases of its room", alias)
		}
		if err := tx.DeleteAlias(alias); err != nil || !speaks {
			return err
		}
		return a.unnameAlias(tx, c.User, in, alias)
	})
}

// speaksForAliases tells whether a user may set the aliases of a room.
func speaksForAliases(rx *storage.Rx, in storage.Room, user matrix.UserID) (bool, error) {
	m, err := membership(rx, in, user)
	if err != nil || m != matrix.MembershipJoin {
		return false, err
	}
	p, err := powersIn(rx, in)
	return err == nil && p.maySetState(user, typeCanonicalAlias), err
}

// unnameAlias takes an alias out of the room's m.room.canonical_alias.
func (a *API) unnameAlias(tx *storage.Tx, by matrix.UserID, in storage.Room, alias matrix.RoomAlias) error {
	e, err := tx.CurrentState(in.Num, typeCanonicalAlias, "")
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	content, changed, err := withoutAlias(e.Content(), string(alias))
	if err != nil || !changed {
		return err
	}
	_, err = a.Rooms.Send(tx, in, room.Draft{Type: typeCanonicalAlias, StateKey: new(string), Sender: by, Content: content})
	return err
}

// withoutAlias removes an alias from the content of m.room.canonical_alias and
// leaves the rest of it as it is.
func withoutAlias(content jsontext.Value, alias string) (jsontext.Value, bool, error) {
	var named canonicalAlias
	var fields map[string]jsontext.Value
	if json.Unmarshal(content, &named) != nil {
		return content, false, nil //nolint:nilerr // of a form that is no longer let in
	}
	if err := json.Unmarshal(content, &fields); err != nil {
		return nil, false, err
	}
	changed := false
	if named.Alias != nil && *named.Alias == alias {
		delete(fields, "alias")
		changed = true
	}
	if kept := slices.DeleteFunc(named.Alts, func(s string) bool { return s == alias }); len(kept) < len(named.Alts) {
		raw, err := json.Marshal(kept)
		if err != nil {
			return nil, false, err
		}
		fields["alt_aliases"] = raw
		changed = true
	}
	content, err := json.Marshal(fields)
	return content, changed, err
}

type aliasList struct {
	Aliases []matrix.RoomAlias `json:"aliases"`
}

// getAliases serves GET /_matrix/client/v3/rooms/{roomId}/aliases: for members,
// and for all where the room's history is for all.
// Client-Server API, "Room aliases".
func (a *API) getAliases(ctx context.Context, c *web.Call, _ web.NoBody) (out aliasList, err error) {
	id, err := roomVar(c)
	if err != nil {
		return out, err
	}
	err = a.Store.Read(ctx, "room aliases", func(rx *storage.Rx) error {
		in, err := memberRoom(rx, id)
		if err != nil {
			return err
		}
		if open, err := worldReadable(rx, in); err != nil || !open {
			if err == nil {
				err = wantJoined(rx, in, c.User)
			}
			if err != nil {
				return err
			}
		}
		out.Aliases = []matrix.RoomAlias{}
		list, err := rx.AliasesOf(in.Num)
		for _, alias := range list {
			out.Aliases = append(out.Aliases, alias.Alias)
		}
		return err
	})
	return out, err
}

// worldReadable tells whether anybody may read the room as it is now.
func worldReadable(rx *storage.Rx, in storage.Room) (bool, error) {
	e, err := rx.CurrentState(in.Num, matrix.TypeHistoryVisibility, "")
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	var content struct {
		Visibility string `json:"history_visibility"`
	}
	if err != nil || e.DecodeContent(&content) != nil {
		return false, err
	}
	return content.Visibility == "world_readable", nil
}
