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
		invite != nil && invite.HasToken {
		list = append(list, Key{matrix.TypeThirdPartyInvite, invite.Token})
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
		Invite     *struct {
			Signed struct {
				Token jsontext.Value `json:"token"`
			} `json:"signed"`
		} `json:"third_party_invite"`
	}
	m := new(matrix.MemberContent)
	if json.Unmarshal(content, &c) != nil {
		return m
	}
	m.Membership = text(c.Membership)
	if via, err := matrix.ParseUserID(text(c.Via)); err == nil {
		m.AuthorisedVia = via
	}
	if c.Invite != nil && len(c.Invite.Signed.Token) > 0 {
		m.ThirdPartyInvite = &matrix.InviteContent{HasToken: true, Token: text(c.Invite.Signed.Token)}
	}
	return m
}

// text is a JSON string's text, empty for any other value.
func text(v jsontext.Value) string {
	var s string
	if len(v) == 0 || json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}
