package matrix

import (
	"github.com/go-json-experiment/json/jsontext"
)

// The memberships of m.room.member.
const (
	MembershipBan    = "ban"
	MembershipInvite = "invite"
	MembershipJoin   = "join"
	MembershipKnock  = "knock"
	MembershipLeave  = "leave"
)

// The join rules of m.room.join_rules.
const (
	JoinRuleInvite          = "invite"
	JoinRuleKnock           = "knock"
	JoinRuleKnockRestricted = "knock_restricted"
	JoinRulePrivate         = "private"
	JoinRulePublic          = "public"
	JoinRuleRestricted      = "restricted"
)

// parseContent reads the content by the event's type, once.
func (e *Event) parseContent() any {
	e.once.Do(func() {
		switch e.typ {
		case TypeMember:
			e.parsed = parseMember(e.content)
		case TypeCreate:
			e.parsed = e.parseCreate()
		case TypeJoinRules:
			e.parsed = parseJoinRules(e.content)
		case TypePowerLevels:
			levels, err := parsePowerLevels(e.version, e.content)
			e.parsed, e.parsedErr = levels, err
		case TypeThirdPartyInvite:
			e.parsed = parseInviteKeys(e.content)
		}
	})
	return e.parsed
}

// MemberContent is what rules read of m.room.member. A value of another kind
// than it must be counts as empty; Has… tells that the key is there.
type MemberContent struct {
	Membership    string
	HasMembership bool
	// AuthorisedVia is join_authorised_via_users_server, empty unless a valid user ID.
	AuthorisedVia    UserID
	HasAuthorisedVia bool
	// ThirdPartyInvite is nil if there is no such key.
	ThirdPartyInvite *InviteContent
}

// InviteContent is third_party_invite of m.room.member.
type InviteContent struct {
	// Signed is the object the identity server signed, nil if missing or no object.
	Signed jsontext.Value
	// MXID and Token lie in Signed, empty if missing or not strings.
	MXID     UserID
	Token    string
	HasMXID  bool
	HasToken bool
}

// Member is the content of an m.room.member event, zero for other types.
func (e *Event) Member() *MemberContent {
	if m, ok := e.parseContent().(*MemberContent); ok {
		return m
	}
	return new(MemberContent)
}

// Membership is the membership of an m.room.member event, empty for other
// types and where it is not a string.
func (e *Event) Membership() string { return e.Member().Membership }

func parseMember(content []byte) *MemberContent {
	c := new(MemberContent)
	for key, v := range membersOf(content) {
		switch string(key) {
		case "membership":
			c.HasMembership = true
			c.Membership, _ = textOf(v)
		case "join_authorised_via_users_server":
			c.HasAuthorisedVia = true
			c.AuthorisedVia = userOf(v)
		case "third_party_invite":
			c.ThirdPartyInvite = parseInvite(v)
		}
	}
	return c
}

func parseInvite(v []byte) *InviteContent {
	c := new(InviteContent)
	signed := field(v, "signed")
	if len(signed) == 0 || signed[0] != '{' {
		return c
	}
	c.Signed = signed
	mxid, _ := textOf(field(signed, "mxid"))
	c.MXID = UserID(mxid)
	c.HasMXID = field(signed, "mxid") != nil
	c.Token, _ = textOf(field(signed, "token"))
	c.HasToken = field(signed, "token") != nil
	return c
}

// CreateContent is what rules read of m.room.create.
type CreateContent struct {
	// Creator is content.creator, empty unless a string; room versions 1 to 10.
	Creator    UserID
	HasCreator bool
	// RoomVersion is content.room_version: "1" if missing, empty if not a string.
	RoomVersion RoomVersion
	// Federate is false only if m.federate is false.
	Federate bool
	// Type is the room type, such as m.space.
	Type string
	// AdditionalCreators are valid user IDs; BadCreators tells that the key is
	// there and something else than an array of them.
	AdditionalCreators []UserID
	BadCreators        bool
	// Creators are the users that the room version counts as creators: the
	// sender and, from version 12 on, the additional creators; content.creator
	// in versions 1 to 10.
	Creators []UserID
}

// Create is the content of an m.room.create event, zero for other types.
func (e *Event) Create() *CreateContent {
	if c, ok := e.parseContent().(*CreateContent); ok {
		return c
	}
	return new(CreateContent)
}

func (e *Event) parseCreate() *CreateContent {
	c := &CreateContent{RoomVersion: "1", Federate: true}
	for key, v := range membersOf(e.content) {
		switch string(key) {
		case "creator":
			c.HasCreator = true
			creator, _ := textOf(v)
			c.Creator = UserID(creator)
		case "room_version":
			version, _ := textOf(v)
			c.RoomVersion = RoomVersion(version)
		case "m.federate":
			c.Federate = string(v) != "false"
		case "type":
			c.Type, _ = textOf(v)
		case "additional_creators":
			c.AdditionalCreators, c.BadCreators = parseCreators(v)
		}
	}
	switch {
	case e.version.PrivilegedCreators:
		c.Creators = append([]UserID{e.sender}, c.AdditionalCreators...)
	case e.version.CreatorIsSender:
		c.Creators = []UserID{e.sender}
	case c.Creator != "":
		c.Creators = []UserID{c.Creator}
	}
	return c
}

func parseCreators(v []byte) (list []UserID, bad bool) {
	if v[0] != '[' {
		return nil, true
	}
	for item := range elementsOf(v) {
		user := userOf(item)
		if user == "" {
			return nil, true
		}
		list = append(list, user)
	}
	return list, false
}

// JoinRulesContent is what rules read of m.room.join_rules.
type JoinRulesContent struct {
	JoinRule string // empty unless a string
	Allow    []AllowCondition
}

// AllowCondition is one condition of a restricted room, membership of another
// room. Conditions of unknown or malformed kinds are left out.
type AllowCondition struct {
	Type   string // "m.room_membership"
	RoomID RoomID
}

// JoinRules is the content of an m.room.join_rules event, zero for other types.
func (e *Event) JoinRules() *JoinRulesContent {
	if c, ok := e.parseContent().(*JoinRulesContent); ok {
		return c
	}
	return new(JoinRulesContent)
}

// Allows tells whether a user joined to some rooms meets one of the
// conditions. Client-Server API, "Restricted rooms".
func (c *JoinRulesContent) Allows(joined func(RoomID) bool) bool {
	for _, a := range c.Allow {
		if joined(a.RoomID) {
			return true
		}
	}
	return false
}

func parseJoinRules(content []byte) *JoinRulesContent {
	c := new(JoinRulesContent)
	c.JoinRule, _ = textOf(field(content, "join_rule"))
	for item := range elementsOf(field(content, "allow")) {
		typ, _ := textOf(field(item, "type"))
		text, _ := textOf(field(item, "room_id"))
		if room, err := ParseRoomID(text); err == nil && typ == "m.room_membership" {
			c.Allow = append(c.Allow, AllowCondition{typ, room})
		}
	}
	return c
}

// userOf reads a user ID, empty unless v is a valid one.
func userOf(v []byte) UserID {
	text, _ := textOf(v)
	user, err := ParseUserID(text)
	if err != nil {
		return ""
	}
	return user
}
