package rules

import (
	"errors"
	"slices"

	"hearth/storage/matrix"
)

// Authorize tells whether the rules of the event's room version allow it in a
// state: nil, or a [*Refusal] that names the rule. It is all rules but those
// about the event's auth_events, which [CheckAuthEvents] asks.
//
// The event's signatures must have been verified, by every server that
// [matrix.RequiredSignatures] names.
func Authorize(ev *matrix.Event, state AuthState) error {
	c := check{ev: ev, version: ev.Version(), state: state, sender: ev.Sender()}
	if ev.Type() == matrix.TypeCreate {
		return c.createEvent()
	}
	return c.event()
}

// CheckAuthEvents asks the rules about the event's auth_events: no duplicates,
// only what the selection would choose, none rejected, a create event among
// them where the room version wants it there, all of the event's room. auth
// are the events that ev.AuthEvents() names. It returns nil, a [*Refusal], or
// another error if an event is not there.
func CheckAuthEvents(ev *matrix.Event, auth []Stored) error {
	c := check{ev: ev, version: ev.Version()}
	if ev.Type() == matrix.TypeCreate {
		return nil // its own rule comes first and asks nothing about them
	}
	if len(auth) != len(ev.AuthEvents()) {
		return errAuthMissing
	}
	allowed := AuthKeys(ev)
	seen := make([]Key, 0, len(auth))
	for _, a := range auth {
		if a.Event == nil {
			return errAuthMissing
		}
		key, ok := a.Event.StateKey()
		k := Key{a.Event.Type(), key}
		switch {
		case slices.Contains(seen, k):
			return c.refuse(AuthDuplicate)
		case !ok || !slices.Contains(allowed, k):
			return c.refuse(AuthUnexpected)
		case a.Standing != Accepted:
			return c.refuse(AuthRejected)
		case a.Event.RoomID() != ev.RoomID():
			return c.refuse(AuthOtherRoom)
		}
		seen = append(seen, k)
	}
	if !c.version.RoomIDFromCreate && !slices.Contains(seen, createKey) {
		return c.refuse(AuthNoCreate)
	}
	return nil
}

// AuthorizeByAuthEvents is the fourth check on receipt of an event: whether it
// passes by its own auth events. create is the room's create event, needed
// where the room version has it in no auth_events. Server-Server API, "Checks
// performed on receipt of a PDU".
func AuthorizeByAuthEvents(ev *matrix.Event, auth []Stored, create Stored) error {
	if err := CheckAuthEvents(ev, auth); err != nil {
		return err
	}
	state := make(Events, len(auth)+1)
	for _, a := range auth {
		state.Add(a.Event)
	}
	if ev.Version().RoomIDFromCreate && create.Event != nil && create.Standing == Accepted {
		state[createKey] = create.Event
	}
	return Authorize(ev, state)
}

var (
	errAuthMissing = errors.New("authorization: not all auth events are there")
	createKey      = Key{Type: matrix.TypeCreate}
	powerKey       = Key{Type: matrix.TypePowerLevels}
)

// check is the authorization of one event.
type check struct {
	ev      *matrix.Event
	version *matrix.Version
	state   AuthState
	sender  matrix.UserID

	create *matrix.CreateContent
	levels *matrix.PowerLevels // unset: the room has none
}

func (c *check) refuse(rule Rule) error {
	return &Refusal{Rule: rule, Version: c.version.ID, Event: c.ev.ID()}
}

// createEvent is the rule of m.room.create.
func (c *check) createEvent() error {
	content := c.ev.Create()
	switch {
	case len(c.ev.PrevEvents()) > 0:
		return c.refuse(CreateHasPrev)
	case !c.version.RoomIDFromCreate && c.ev.RoomID().Server() != c.sender.Server():
		return c.refuse(CreateDomain)
	case c.version.RoomIDFromCreate && c.ev.HasRoomID():
		return c.refuse(CreateHasRoomID)
	}
	if _, ok := matrix.VersionOf(content.RoomVersion); !ok {
		return c.refuse(CreateVersion)
	}
	switch {
	case !c.version.CreatorIsSender && !content.HasCreator:
		return c.refuse(CreateNoCreator)
	case c.version.PrivilegedCreators && content.BadCreators:
		return c.refuse(CreateAdditional)
	}
	return nil
}

// event is the rules of all other types.
func (c *check) event() error {
	create := c.state.Event(matrix.TypeCreate, "")
	if c.version.RoomIDFromCreate {
		if create == nil || create.RoomID() != c.ev.RoomID() {
			return c.refuse(NoRoom)
		}
	} else if create == nil {
		return c.refuse(AuthNoCreate)
	}
	c.create = create.Create()
	if !c.create.Federate && create.Sender().Server() != c.sender.Server() {
		return c.refuse(NotFederated)
	}
	switch c.ev.Type() {
	case matrix.TypeAliases:
		if c.version.AliasesRule {
			return c.aliasesEvent()
		}
	case matrix.TypeMember:
		return c.member(create)
	}
	if c.membership(c.sender) != matrix.MembershipJoin {
		return c.refuse(SenderNotJoined)
	}
	return c.joined()
}

func (c *check) aliasesEvent() error {
	key, ok := c.ev.StateKey()
	switch {
	case !ok:
		return c.refuse(AliasesNoStateKey)
	case key != string(c.sender.Server()):
		return c.refuse(AliasesDomain)
	}
	return nil
}

// joined is the rules for what a member of the room sends.
func (c *check) joined() error {
	c.levels = levelsIn(c.state)
	typ := c.ev.Type()
	power := c.power(c.sender)
	if typ == matrix.TypeThirdPartyInvite {
		if power < c.inviteLevel() {
			return c.refuse(ThirdPartyLevel)
		}
		return nil
	}
	key, isState := c.ev.StateKey()
	if c.levels.Event(typ, isState) > power {
		return c.refuse(EventLevel)
	}
	if isState && len(key) > 0 && key[0] == '@' && key != string(c.sender) {
		return c.refuse(StateKeyOther)
	}
	switch {
	case typ == matrix.TypePowerLevels:
		return c.powerLevels(power)
	case typ == matrix.TypeRedaction && c.version.RedactionRule:
		return c.redactionEvent(power)
	}
	return nil
}

// membership is a user's membership in the state, empty if there is none.
func (c *check) membership(user matrix.UserID) string {
	if ev := c.state.Event(matrix.TypeMember, string(user)); ev != nil {
		return ev.Membership()
	}
	return ""
}
