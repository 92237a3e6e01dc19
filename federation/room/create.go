package room

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// The presets of POST /createRoom.
const (
	PresetPrivate = "private_chat"
	PresetPublic  = "public_chat"
	PresetTrusted = "trusted_private_chat"
)

// StateDraft is a state event that a client wants in a new room.
type StateDraft struct {
	Type     string
	StateKey string
	Content  jsontext.Value
}

// Creation is a room to be, as POST /createRoom describes it. Only Creator is
// needed.
type Creation struct {
	Creator       matrix.UserID
	Version       matrix.RoomVersion // empty: the default
	Preset        string             // empty: by Public
	Public        bool               // in the directory
	Content       jsontext.Value     // creation_content
	PowerLevels   jsontext.Value     // power_level_content_override
	InitialState  []StateDraft
	Name          string           // empty: none
	Topic         string           // empty: none
	Alias         matrix.RoomAlias // on this server; empty: none
	Invites       []matrix.UserID
	IsDirect      bool
	MemberContent jsontext.Value // further content of the creator's join, such as displayname
	// InviteContent is further content of the invitation of a user; nil: none.
	InviteContent func(matrix.UserID) jsontext.Value
}

// Create makes a room with everything that the creation names, or nothing. Its
// errors are M_UNSUPPORTED_ROOM_VERSION, M_ROOM_IN_USE, M_INVALID_ROOM_STATE
// where the rules do not allow one of the events, and M_BAD_JSON, M_TOO_LARGE
// and M_INVALID_PARAM of what is asked for. Client-Server API, "Creation".
func (r *Rooms) Create(tx *storage.Tx, c Creation) (storage.Room, error) {
	v, err := r.version(c.Version)
	if err == nil {
		err = c.normalize()
	}
	if err != nil {
		return storage.Room{}, err
	}
	create, err := c.createContent(v)
	if err != nil {
		return storage.Room{}, err
	}
	drafts, err := c.drafts(v)
	if err != nil {
		return storage.Room{}, err
	}
	room, err := r.start(tx, v, c.Creator, create, "")
	if err != nil {
		return storage.Room{}, err
	}
	if c.Alias != "" {
		if err := addAlias(tx, c.Alias, room.Num, c.Creator); err != nil {
			return storage.Room{}, err
		}
	}
	for _, d := range drafts {
		if _, err := r.Send(tx, room, d); err != nil {
			return storage.Room{}, invalid(d, err)
		}
	}
	return r.finish(tx, room, c.Public)
}

// version finds a room version by what a client asks for.
func (r *Rooms) version(id matrix.RoomVersion) (*matrix.Version, error) {
	if id == "" {
		id = r.opt.DefaultVersion
	}
	v, ok := matrix.VersionOf(id)
	if !ok {
		return nil, matrix.Errorf(matrix.UnsupportedRoomVersion, "this server does not know that room version")
	}
	return v, nil
}

// normalize fills in defaults and drops invitations that mean nothing.
func (c *Creation) normalize() error {
	switch c.Preset {
	case "":
		c.Preset = PresetPrivate
		if c.Public {
			c.Preset = PresetPublic
		}
	case PresetPrivate, PresetPublic, PresetTrusted:
	default:
		return matrix.Errorf(matrix.InvalidParam, "there is no preset of that name")
	}
	var invites []matrix.UserID
	for _, u := range c.Invites {
		if u != c.Creator && !slices.Contains(invites, u) {
			invites = append(invites, u)
		}
	}
	c.Invites = invites
	return nil
}

// createContent is the content of m.room.create.
func (c *Creation) createContent(v *matrix.Version) (jsontext.Value, error) {
	create, err := parseObject("creation_content", c.Content)
	if err != nil {
		return nil, err
	}
	delete(create, "creator")
	if !v.CreatorIsSender {
		create.set("creator", c.Creator)
	}
	create.set("room_version", v.ID)
	if v.PrivilegedCreators && c.Preset == PresetTrusted {
		err = c.addCreators(create)
	}
	return create.json(), err
}

// addCreators makes everybody who is invited a creator, beside those that the
// client names.
func (c *Creation) addCreators(create object) error {
	var creators []matrix.UserID
	if v := create["additional_creators"]; len(v) > 0 {
		if err := decode("additional_creators", v, &creators); err != nil {
			return err
		}
	}
	for _, u := range c.Invites {
		if !slices.Contains(creators, u) {
			creators = append(creators, u)
		}
	}
	if len(creators) > 0 {
		create.set("additional_creators", creators)
	}
	return nil
}

// drafts lists the events of the new room behind m.room.create, in the order
// that the specification gives. Client-Server API, "POST /createRoom".
func (c *Creation) drafts(v *matrix.Version) ([]Draft, error) {
	join, err := parseObject("member content", c.MemberContent)
	if err != nil {
		return nil, err
	}
	join.set("membership", matrix.MembershipJoin)
	levels, err := newLevels(c, v)
	if err != nil {
		return nil, err
	}
	var list []Draft
	add := func(typ, stateKey string, content jsontext.Value) {
		list = append(list, Draft{Type: typ, StateKey: &stateKey, Sender: c.Creator, Content: content})
	}
	add(matrix.TypeMember, string(c.Creator), join.json())
	add(matrix.TypePowerLevels, "", levels)
	if c.Alias != "" {
		add(typeCanonicalAlias, "", content("alias", c.Alias))
	}
	for _, s := range c.presetState() {
		add(s.Type, "", s.Content)
	}
	for _, s := range c.InitialState {
		switch {
		case s.Type == matrix.TypeMember && s.StateKey != string(c.Creator):
			return nil, matrix.Errorf(matrix.InvalidRoomState, "members are invited, not set by initial_state")
		case s.Type == typeName && s.StateKey == "" && c.Name != "", s.Type == typeTopic && s.StateKey == "" && c.Topic != "":
			continue // overwritten
		}
		add(s.Type, s.StateKey, s.Content)
	}
	if c.Name != "" {
		add(typeName, "", content("name", c.Name))
	}
	if c.Topic != "" {
		add(typeTopic, "", topicContent(c.Topic))
	}
	for _, u := range c.Invites {
		invite, err := c.invite(u)
		if err != nil {
			return nil, err
		}
		add(matrix.TypeMember, string(u), invite)
	}
	return list, nil
}

// invite is the content of one user's invitation.
func (c *Creation) invite(u matrix.UserID) (jsontext.Value, error) {
	var further jsontext.Value
	if c.InviteContent != nil {
		further = c.InviteContent(u)
	}
	o, err := parseObject("invite content", further)
	if err != nil {
		return nil, err
	}
	o.set("membership", matrix.MembershipInvite)
	if c.IsDirect {
		o.set("is_direct", true)
	}
	return o.json(), nil
}

// presetState is what the preset puts into the room, less what initial_state
// sets itself, so that it is never what the client did not ask for.
func (c *Creation) presetState() []StateDraft {
	rule, guests := matrix.JoinRuleInvite, "can_join"
	if c.Preset == PresetPublic {
		rule, guests = matrix.JoinRulePublic, "forbidden"
	}
	list := []StateDraft{
		{Type: matrix.TypeJoinRules, Content: content("join_rule", rule)},
		{Type: matrix.TypeHistoryVisibility, Content: content("history_visibility", "shared")},
		{Type: typeGuestAccess, Content: content("guest_access", guests)},
	}
	return slices.DeleteFunc(list, func(s StateDraft) bool {
		return slices.ContainsFunc(c.InitialState, func(i StateDraft) bool { return i.Type == s.Type && i.StateKey == "" })
	})
}

// start makes a room that holds its m.room.create event only. id is the room's
// ID where the version does not derive it; empty: a random one.
func (r *Rooms) start(tx *storage.Tx, v *matrix.Version, creator matrix.UserID, create jsontext.Value, id matrix.RoomID) (storage.Room, error) {
	if id == "" && !v.RoomIDFromCreate {
		id = newRoomID(tx.ServerName())
	}
	t := matrix.Template{
		RoomID: id, Type: matrix.TypeCreate, StateKey: new(string), Sender: creator, Content: create,
		OriginServerTS: tx.Now.UnixMilli(), Depth: 1, EventID: newEventID(v, tx.ServerName()),
	}
	ev, err := matrix.Build(v, t, r.signer())
	for err == nil {
		// The same user may make the same room twice in a millisecond, and
		// its ID would be the same too.
		if _, err = tx.Room(ev.RoomID()); err == nil {
			t.OriginServerTS++
			ev, err = matrix.Build(v, t, r.signer())
		}
	}
	if !errors.Is(err, storage.ErrNotFound) {
		return storage.Room{}, err
	}
	if err := rules.Authorize(ev, rules.Events{}); err != nil {
		return storage.Room{}, badCreate(err)
	}
	room, err := tx.AddRoom(ev.RoomID(), v)
	if err != nil {
		return storage.Room{}, fmt.Errorf("create a room: %w", err)
	}
	_, err = r.append(tx, room, addition{ev: ev, depth: 1, generation: 1, leaf: true})
	return room, err
}

// badCreate is what a client is told of an m.room.create that the rules refuse.
func badCreate(err error) error {
	if r := (*rules.Refusal)(nil); errors.As(err, &r) {
		return &wrapped{matrix.Errorf(matrix.BadJSON, "creation_content: %s", r.Rule.Text()), err}
	}
	return err
}

// invalid is what a client is told of an event of a new room that was refused.
func invalid(d Draft, err error) error {
	if r := (*rules.Refusal)(nil); errors.As(err, &r) {
		return &wrapped{matrix.Errorf(matrix.InvalidRoomState, "%s: %s", d.Type, r.Rule.Text()), err}
	}
	return err
}

func addAlias(tx *storage.Tx, alias matrix.RoomAlias, room storage.RoomNum, by matrix.UserID) error {
	err := tx.AddAlias(alias, room, by)
	if errors.Is(err, storage.ErrConflict) {
		return matrix.Errorf(matrix.RoomInUse, "the room alias is in use")
	}
	return err
}

// finish puts the room into the directory if it shall be there, and reads it
// as it is now.
func (r *Rooms) finish(tx *storage.Tx, room storage.Room, public bool) (storage.Room, error) {
	if public {
		if err := tx.SetPublic(room.Num, true); err != nil {
			return storage.Room{}, err
		}
	}
	return tx.RoomByNum(room.Num)
}
