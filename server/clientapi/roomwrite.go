package clientapi

import (
	"context"
	"errors"

	"hearth/federation/room"
	"hearth/federation/rules"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

// eventBody bounds the body of a request that makes one event. The event itself
// may have 64 KiB, but JSON may write a character in six bytes.
const eventBody = 512 << 10

// roomWriteRoutes are the endpoints that change rooms and what leads to them.
func (a *API) roomWriteRoutes() []web.Route {
	const v3, in = "/_matrix/client/v3", "/_matrix/client/v3/rooms/{roomId}"
	act := func(method, path string, h web.Handler) web.Route {
		return web.Route{Method: method, Path: path, Handler: h, Limit: web.LimitSending, MaxBody: eventBody}
	}
	// Clients send nothing where nothing need be said.
	plain := func(path string, h web.Handler) web.Route {
		return web.Route{Method: "POST", Path: path, Handler: h, Limit: web.LimitSending, MaxBody: eventBody, BodyOptional: true}
	}
	return []web.Route{
		act("POST", v3+"/createRoom", active(a, a.postCreateRoom)),
		plain(in+"/join", active(a, a.postJoin)),
		plain(v3+"/join/{roomIdOrAlias}", active(a, a.postJoinAny)),
		plain(v3+"/knock/{roomIdOrAlias}", active(a, a.postKnock)),
		act("POST", in+"/invite", active(a, a.postInvite)),
		plain(in+"/leave", authed(a, a.postLeave)),
		plain(in+"/forget", authed(a, a.postForget)),
		act("POST", in+"/kick", active(a, a.postKick)),
		act("POST", in+"/ban", active(a, a.postBan)),
		act("POST", in+"/unban", active(a, a.postUnban)),
		act("POST", in+"/upgrade", active(a, a.postUpgrade)),

		act("PUT", in+"/send/{eventType}/{txnId}", authed(a, a.putSend)),
		act("PUT", in+"/redact/{eventId}/{txnId}", authed(a, a.putRedact)),
		// The state key may be empty, and the slash before it left out.
		act("PUT", in+"/state/{eventType}", authed(a, a.putState)),
		act("PUT", in+"/state/{eventType}/", authed(a, a.putState)),
		act("PUT", in+"/state/{eventType}/{stateKey}", authed(a, a.putState)),

		{Method: "GET", Path: v3 + "/directory/room/{roomAlias}", Handler: web.Public(a.getAlias)},
		{Method: "PUT", Path: v3 + "/directory/room/{roomAlias}", Handler: active(a, a.putAlias), Limit: web.LimitSending, MaxBody: smallBody},
		{Method: "DELETE", Path: v3 + "/directory/room/{roomAlias}", Handler: active(a, a.deleteAlias), Limit: web.LimitSending},
		{Method: "GET", Path: in + "/aliases", Handler: authed(a, a.getAliases)},
		{Method: "GET", Path: v3 + "/directory/list/room/{roomId}", Handler: web.Public(a.getRoomListing)},
		{Method: "PUT", Path: v3 + "/directory/list/room/{roomId}", Handler: active(a, a.putRoomListing), Limit: web.LimitSending, MaxBody: smallBody},
	}
}

// sentEvent answers with the event that a request made.
type sentEvent struct {
	ID matrix.EventID `json:"event_id"`
}

// theRoom answers with the room that a request was about.
type theRoom struct {
	ID matrix.RoomID `json:"room_id"`
}

// change runs fn as one unit, if the caller's device still exists by then.
func (a *API) change(ctx context.Context, c *web.Call, fn func(*storage.Tx) error) error {
	return a.Rooms.Write(ctx, c.Method+" "+c.Template, func(tx *storage.Tx) error {
		if err := a.Accounts.Alive(tx.Rx, c.DeviceNum); err != nil {
			return err
		}
		return fn(tx)
	})
}

// roomVar is the room that the path names.
func roomVar(c *web.Call) (matrix.RoomID, error) {
	id, err := matrix.ParseRoomID(c.Vars["roomId"])
	if err != nil {
		return "", matrix.Errorf(matrix.InvalidParam, "%s", err)
	}
	return id, nil
}

// joinedRoom finds a room for an act that only those do who are in it. To others
// it makes no difference whether there is such a room, nor what else is wrong
// with what they ask for: they would learn from it what the room is.
func joinedRoom(rx *storage.Rx, id matrix.RoomID, user matrix.UserID) (storage.Room, error) {
	in, err := memberRoom(rx, id)
	if err == nil {
		err = wantJoined(rx, in, user)
	}
	return in, err
}

// memberRoom finds a room for an act that those do who have to do with it: to
// others, one that is not here is as one that they are not in.
func memberRoom(rx *storage.Rx, id matrix.RoomID) (storage.Room, error) {
	return findRoom(rx, id, matrix.Forbidden, "you are not in room %s")
}

// knownRoom finds a room whose being here is no secret.
func knownRoom(rx *storage.Rx, id matrix.RoomID) (storage.Room, error) {
	return findRoom(rx, id, matrix.NotFound, "room %s is not known here")
}

func findRoom(rx *storage.Rx, id matrix.RoomID, code matrix.Code, format string) (storage.Room, error) {
	room, err := rx.Room(id)
	if errors.Is(err, storage.ErrNotFound) {
		return room, matrix.Errorf(code, format, id)
	}
	return room, err
}

// membership is the membership of a user in a room, "leave" if there never was one.
func membership(rx *storage.Rx, room storage.Room, user matrix.UserID) (string, error) {
	m, err := rx.Membership(room.Num, user)
	if errors.Is(err, storage.ErrNotFound) {
		return matrix.MembershipLeave, nil
	}
	return m.Membership, err
}

// powers are the power levels of a room as it is now.
type powers struct {
	version *matrix.Version
	state   rules.Events
	levels  *matrix.PowerLevels
}

func powersIn(rx *storage.Rx, in storage.Room) (powers, error) {
	p := powers{in.Version, rules.Events{}, &matrix.PowerLevels{}}
	for _, typ := range [...]string{matrix.TypeCreate, matrix.TypePowerLevels} {
		e, err := rx.CurrentState(in.Num, typ, "")
		switch {
		case errors.Is(err, storage.ErrNotFound):
			continue
		case err != nil:
			return p, err
		}
		p.state.Add(e.Event)
		if typ == matrix.TypePowerLevels {
			p.levels, _ = e.PowerLevels() // of a malformed one it is what the rules go by
		}
	}
	return p, nil
}

// maySetState tells whether a user has the power to send state events of a type.
func (p powers) maySetState(user matrix.UserID, typ string) bool {
	return rules.Power(p.version, p.state, user) >= p.levels.Event(typ, true)
}

// act is what the caller does to their own membership.
func act(c *web.Call, reason string) room.Act { return actOn(c, c.User, reason) }

// actOn is what the caller does to another's membership.
func actOn(c *web.Call, whom matrix.UserID, reason string) room.Act {
	return room.Act{Sender: c.User, Target: whom, Reason: reason}
}
