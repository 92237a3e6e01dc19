package rules

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage/matrix"
)

// AuthKeys lists the entries of the room's state that an event's auth_events
// may and should name, whether or not the state has them. Server-Server API,
// "Auth events selection".
func AuthKeys(ev *matrix.Event) []Key {
	return appendAuthKeys(nil, ev)
}

func appendAuthKeys(dst []Key, ev *matrix.Event) []Key {
	s := selection{version: ev.Version(), typ: ev.Type(), sender: ev.Sender()}
	if s.typ == matrix.TypeMember {
		s.target, s.isState = ev.StateKey()
		s.member = ev.Member()
	}
	return s.appendKeys(dst)
}

// TemplateAuthKeys is [AuthKeys] for an event that is yet to be built.
func TemplateAuthKeys(v *matrix.Version, t *matrix.Template) []Key {
	s := selection{version: v, typ: t.Type, sender: t.Sender}
	if t.Type == matrix.TypeMember {
		if s.isState = t.StateKey != nil; s.isState {
			s.target = *t.StateKey
		}
		s.member = templateMember(t.Content)
	}
	return s.appendKeys(nil)
}

// SelectAuthEvents finds the events at keys that the state has, in the order
// of keys: the auth_events of a new event.
func SelectAuthEvents(keys []Key, state AuthState) []*matrix.Event {
	list := make([]*matrix.Event, 0, len(keys))
	for _, k := range keys {
		if ev := state.Event(k.Type, k.StateKey); ev != nil {
			list = append(list, ev)
		}
	}
	return list
}

type selection struct {
	version *matrix.Version
	typ     string
	sender  matrix.UserID
	target  string
	isState bool
	member  *matrix.MemberContent // for m.room.member
}

// appendKeys appends to an empty list that lends its memory.
func (s *selection) appendKeys(list []Key) []Key {
	if s.typ == matrix.TypeCreate {
		return list
	}
	list = slices.Grow(list, 6)
	if !s.version.RoomIDFromCreate {
		list = append(list, createKey)
	}
	list = append(list, powerKey, Key{matrix.TypeMember, string(s.sender)})
	if s.member == nil {
		return list
	}
	addMember := func(user string) {
		if k := (Key{matrix.TypeMember, user}); !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	if s.isState {
		addMember(s.target)
	}
	switch s.member.Membership {
	case matrix.MembershipJoin, matrix.MembershipInvite, matrix.MembershipKnock:
		list = append(list, Key{matrix.TypeJoinRules, ""})
	}
	if invite := s.member.ThirdPartyInvite; s.member.Membership == matrix.MembershipInvite &&
		invite != nil {
		if token, ok := signedText(invite, "token", invite.Token); ok {
			list = append(list, Key{matrix.TypeThirdPartyInvite, token})
		}
	}
	if via := s.member.AuthorisedVia; s.version.Restricted && via != "" &&
		s.member.Membership == matrix.MembershipJoin {
		addMember(string(via))
	}
	return list
}

// templateMember reads what the selection needs of a content that is not an
// event's yet; what does not parse is as if it were not there, and the built
// event will be refused for it.
func templateMember(content jsontext.Value) *matrix.MemberContent {
	var c struct {
		Membership jsontext.Value `json:"membership"`
		Via        jsontext.Value `json:"join_authorised_via_users_server"`
		Invite     jsontext.Value `json:"third_party_invite"`
	}
	m := new(matrix.MemberContent)
	if json.Unmarshal(content, &c) != nil {
		return m
	}
	m.Membership, _ = text(c.Membership)
	via, _ := text(c.Via)
	if user, err := matrix.ParseUserID(via); err == nil {
		m.AuthorisedVia = user
	}
	m.ThirdPartyInvite = &matrix.InviteContent{Signed: field(c.Invite, "signed")}
	return m
}

// signedText is a string in the signed object of a third-party invite; false
// if it is missing or another kind of value. parsed is what the vocabulary
// read of it, empty in these cases too.
func signedText(invite *matrix.InviteContent, name, parsed string) (string, bool) {
	if parsed != "" {
		return parsed, true
	}
	return text(field(invite.Signed, name))
}

// field is one member of a JSON object, nil if there is none.
func field(object jsontext.Value, name string) jsontext.Value {
	var members map[string]jsontext.Value
	if object.Kind() != '{' || json.Unmarshal(object, &members) != nil {
		return nil
	}
	return members[name]
}

// text is a JSON string's text; false for any other value.
func text(v jsontext.Value) (string, bool) {
	var s string
	if v.Kind() != '"' || json.Unmarshal(v, &s) != nil {
		return "", false
	}
	return s, true
}
