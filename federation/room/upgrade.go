package room

import (
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// Upgrading is how a room is to be replaced by one of another version.
type Upgrading struct {
	By       matrix.UserID
	Version  matrix.RoomVersion
	Creators []matrix.UserID // additional ones, where the version knows them
}

// transferred are the types of state that the new room takes over.
// Client-Server API, "Room Upgrades". Power levels, bans and names follow by
// themselves.
var transferred = []string{
	matrix.TypeServerACL, typeEncryption, typeName, typeAvatar, typeTopic, typeGuestAccess,
	matrix.TypeHistoryVisibility, matrix.TypeJoinRules,
}

// Upgrade replaces a room by a new one of another version, in one unit: what
// the specification lists of its state, its bans, its names on this server and
// its place in the directory go over; the old room points to the new one and
// takes no more messages from those who have no power. Its errors are
// M_UNSUPPORTED_ROOM_VERSION, and M_FORBIDDEN for who may not close the room.
func (r *Rooms) Upgrade(tx *storage.Tx, old storage.Room, u Upgrading) (storage.Room, error) {
	if u.Version == "" {
		return storage.Room{}, matrix.Errorf(matrix.MissingParam, "a room is upgraded to some version")
	}
	v, err := r.version(u.Version)
	if err != nil {
		return storage.Room{}, err
	}
	up := upgrade{rooms: r, tx: tx, old: old, state: r.current(tx.Rx, old.Num), by: u.By, version: v}
	if err := up.makeRoom(u.Creators); err != nil {
		return storage.Room{}, err
	}
	steps := []func() error{up.join, up.raise, up.transfer, up.ban, up.moveNames, up.lower, up.closeOld}
	for _, step := range steps {
		if err := step(); err != nil {
			return storage.Room{}, err
		}
	}
	if old.Public {
		if err := tx.SetPublic(old.Num, false); err != nil {
			return storage.Room{}, err
		}
	}
	return r.finish(tx, up.room, old.Public)
}

// upgrade is one upgrade under way.
type upgrade struct {
	rooms   *Rooms
	tx      *storage.Tx
	old     storage.Room
	state   *view // of the old room, as it was
	by      matrix.UserID
	version *matrix.Version
	room    storage.Room // the new one
	levels  object       // that the new room ends with; nil: the old has none
	raised  bool         // it has others until then
}

// send sends a state event to the new room. It refuses what this user may not.
func (u *upgrade) send(typ, key string, content jsontext.Value) error {
	return u.sendTo(u.room, typ, key, content)
}

func (u *upgrade) sendTo(room storage.Room, typ, key string, content jsontext.Value) error {
	_, err := u.rooms.Send(u.tx, room, Draft{Type: typ, StateKey: &key, Sender: u.by, Content: content})
	return err
}

// tombstone closes the old room. It comes first where it can, so that who may
// not do it learns that, and the new room can name it.
func (u *upgrade) tombstone(replacement matrix.RoomID) (matrix.EventID, error) {
	ev, err := u.rooms.Send(u.tx, u.old, Draft{
		Type: typeTombstone, StateKey: new(string), Sender: u.by,
		Content: content("body", "This room has been replaced", "replacement_room", replacement),
	})
	if err != nil {
		return "", err
	}
	return ev.ID(), nil
}

// makeRoom makes the new room and points the old one to it. Where the new
// room's ID is a hash of what it says of the old room, that cannot be the
// tombstone, which names the new room; then it is the last event before.
func (u *upgrade) makeRoom(creators []matrix.UserID) error {
	leaves, err := u.tx.Extremities(u.old.Num)
	if err != nil {
		return err
	}
	var last matrix.EventID
	if len(leaves) > 0 {
		last = leaves[len(leaves)-1].ID()
	}
	var id matrix.RoomID
	if !u.version.RoomIDFromCreate {
		id = newRoomID(u.tx.ServerName())
		if last, err = u.tombstone(id); err != nil {
			return err
		}
	}
	if u.room, err = u.rooms.start(u.tx, u.version, u.by, u.createContent(last, creators), id); err != nil {
		return err
	}
	if u.version.RoomIDFromCreate {
		_, err = u.tombstone(u.room.ID)
	}
	return err
}

// createContent is the content of the new room's m.room.create. Whether other
// servers may take part can never be changed in a room, so it goes over too.
func (u *upgrade) createContent(last matrix.EventID, creators []matrix.UserID) jsontext.Value {
	type predecessor struct {
		RoomID  matrix.RoomID  `json:"room_id"`
		EventID matrix.EventID `json:"event_id,omitempty"`
	}
	create := object{}
	create.set("room_version", u.version.ID)
	create.set("predecessor", predecessor{u.old.ID, last})
	if !u.version.CreatorIsSender {
		create.set("creator", u.by)
	}
	if was := u.state.Event(matrix.TypeCreate, ""); was != nil {
		if typ := was.Create().Type; typ != "" {
			create.set("type", typ)
		}
		if !was.Create().Federate {
			create.set("m.federate", false)
		}
	}
	creators = slices.DeleteFunc(slices.Clone(creators), func(c matrix.UserID) bool { return c == u.by })
	if u.version.PrivilegedCreators && len(creators) > 0 {
		create.set("additional_creators", creators)
	}
	return create.json()
}

// join lets the user into the new room, under the name they have in the old.
func (u *upgrade) join() error {
	join := object{}
	join.set("membership", matrix.MembershipJoin)
	if was := u.state.Event(matrix.TypeMember, string(u.by)); was != nil {
		is, err := parseObject("member", was.Content())
		if err != nil {
			return err
		}
		for _, key := range []string{"displayname", "avatar_url"} {
			if v, ok := is[key]; ok {
				join[key] = v
			}
		}
	}
	return u.send(matrix.TypeMember, string(u.by), join.json())
}

// transfer copies state of the old room. What the new version cannot take as
// it is stays behind.
func (u *upgrade) transfer() error {
	for _, typ := range transferred {
		was := u.state.Event(typ, "")
		if was == nil {
			continue
		}
		if err := u.copy(typ, "", u.adapt(was)); err != nil {
			return err
		}
	}
	create := u.state.Event(matrix.TypeCreate, "")
	if create == nil || create.Create().Type != "m.space" {
		return u.state.err
	}
	// A space is what it contains.
	children, err := u.tx.CurrentStateOf(u.old.Num, typeSpaceChild)
	if err != nil {
		return err
	}
	for _, c := range children {
		key, _ := c.StateKey()
		if o, err := parseObject("child", c.Content()); err != nil || len(o["via"]) == 0 {
			continue // removed from the space
		}
		if err := u.copy(typeSpaceChild, key, c.Content()); err != nil {
			return err
		}
	}
	return u.state.err
}

// copy sends content of the old room to the new one, if its version can have it.
func (u *upgrade) copy(typ, key string, content jsontext.Value) error {
	if u.version.StrictJSON {
		if _, err := matrix.StrictCanonicalJSON(content); err != nil {
			return nil //nolint:nilerr // left behind
		}
	}
	return u.send(typ, key, content)
}

// adapt is the content of a state event in the new room: a join rule that its
// version does not know would let nobody in, and becomes "invite".
func (u *upgrade) adapt(ev *matrix.Event) jsontext.Value {
	if ev.Type() != matrix.TypeJoinRules {
		return ev.Content()
	}
	v, known := u.version, true
	switch ev.JoinRules().JoinRule {
	case matrix.JoinRuleKnock:
		known = v.Knock
	case matrix.JoinRuleRestricted:
		known = v.Restricted
	case matrix.JoinRuleKnockRestricted:
		known = v.KnockRestricted
	}
	if known {
		return ev.Content()
	}
	return content("join_rule", matrix.JoinRuleInvite)
}

// ban bans whom the old room bans, before anybody can join.
func (u *upgrade) ban() error {
	var after matrix.UserID
	for {
		const page = 500
		banned, err := u.tx.Members(u.old.Num, matrix.MembershipBan, after, page)
		if err != nil {
			return err
		}
		for _, m := range banned {
			after = m.User
			if err := u.banOne(m); err != nil {
				return err
			}
		}
		if len(banned) < page {
			return nil
		}
	}
}

func (u *upgrade) banOne(m storage.Membership) error {
	was, err := u.tx.EventByNum(m.Event)
	if err != nil {
		return err
	}
	ban := object{}
	ban.set("membership", matrix.MembershipBan)
	if o, err := parseObject("ban", was.Content()); err == nil && o.text("reason") != "" {
		ban.set("reason", o.text("reason"))
	}
	err = u.send(matrix.TypeMember, string(m.User), ban.json())
	if r := (*rules.Refusal)(nil); errors.As(err, &r) {
		return nil // a creator of the new room cannot be banned from it
	}
	return err
}
