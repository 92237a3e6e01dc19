package rules

import (
	"crypto/ed25519"
	"errors"
	"testing"

	"hearth/storage/matrix"
)

// authCase is one event before the rules, in the state that baseState makes
// and the case changes.
type authCase struct {
	rule  Rule // the rule that the case is about
	allow bool // it allows; otherwise it refuses
	name  string
	when  func(*matrix.Version) bool // nil: in every room version
	state []pdu                      // replaces entries of the state
	gone  []Key                      // is missing in the state
	ev    pdu
}

// baseState has alice (100 or creator), bob (50) and dave (0) joined, eve
// banned, carol nowhere, and the join rule invite.
func baseState(r *room) []pdu {
	return []pdu{
		{id: "create", typ: "m.room.create", sender: alice, content: r.createContent("")},
		{id: "alice", typ: "m.room.member", key: alice, sender: alice, content: member("join")},
		{id: "levels", typ: "m.room.power_levels", sender: alice, content: r.levels("")},
		{id: "rules", typ: "m.room.join_rules", sender: alice, content: joinRule("invite")},
		{id: "bob", typ: "m.room.member", key: bob, sender: bob, content: member("join")},
		{id: "dave", typ: "m.room.member", key: dave, sender: dave, content: member("join")},
		{id: "eve", typ: "m.room.member", key: eve, sender: alice, content: member("ban")},
	}
}

func (c *authCase) verdict(r *room) error {
	state := make(Events)
	for _, p := range append(baseState(r), c.state...) {
		if p.id == "" {
			p.id = "s" + p.typ + p.key
		}
		ev := r.build(p)
		state.Add(ev)
		r.stored[ev.ID()] = Stored{Event: ev}
	}
	for _, k := range c.gone {
		delete(state, k)
	}
	if c.ev.id == "" {
		c.ev.id = "event"
	}
	return Authorize(r.build(c.ev), state)
}

// TestAuthorize tries each rule in each room version that has it, and wants
// both verdicts of each to be tried.
func TestAuthorize(t *testing.T) {
	everyVersion(t, func(t *testing.T, v *matrix.Version) {
		refused, allowed := make(map[Rule]bool), make(map[Rule]bool)
		for _, c := range authCases(newRoom(t, v.ID)) {
			if c.when != nil && !c.when(v) {
				continue
			}
			err := c.verdict(newRoom(t, v.ID))
			var refusal *Refusal
			switch {
			case c.allow && err != nil:
				t.Errorf("%v, %s: %v", c.rule, c.name, err)
			case !c.allow && !errors.Is(err, &Refusal{Rule: c.rule}):
				t.Errorf("%v, %s: got verdict %v", c.rule, c.name, err)
			case !c.allow && errors.As(err, &refusal) && refusal.Section() == "":
				t.Errorf("%v, %s: the version has no such rule", c.rule, c.name)
			case c.allow:
				allowed[c.rule] = true
			default:
				refused[c.rule] = true
			}
		}
		for i := range outline {
			line := &outline[i]
			if line.rule == 0 || line.when != nil && !line.when(v) || ofAuthEvents(line.rule) {
				continue
			}
			if !refused[line.rule] || !allowed[line.rule] {
				t.Errorf("%v: refused in a case: %v, allowed in one: %v", line.rule, refused[line.rule], allowed[line.rule])
			}
		}
	})
}

// ofAuthEvents tells that CheckAuthEvents has the rule; see TestCheckAuthEvents.
func ofAuthEvents(r Rule) bool {
	switch r {
	case AuthDuplicate, AuthUnexpected, AuthRejected, AuthOtherRoom:
		return true
	}
	return false
}

func not(is func(*matrix.Version) bool) func(*matrix.Version) bool {
	return func(v *matrix.Version) bool { return !is(v) }
}

func knockRestricted(v *matrix.Version) bool { return v.KnockRestricted }

func authCases(r *room) []authCase {
	var list []authCase
	list = append(list, createCases(r)...)
	list = append(list, roomCases(r)...)
	list = append(list, joinCases(r)...)
	list = append(list, inviteCases(r)...)
	list = append(list, leaveCases(r)...)
	list = append(list, knockCases()...)
	list = append(list, levelCases(r)...)
	list = append(list, powerCases(r)...)
	return list
}

func createCases(r *room) []authCase {
	create := func(content string) pdu {
		return pdu{id: "create2", typ: "m.room.create", sender: alice, content: content}
	}
	good := create(r.createContent(""))
	prev, domain, room := good, good, good
	prev.prev, domain.room, room.room = "create", "!room:b.test", hashRoom("other")
	return []authCase{
		{CreateHasPrev, false, "with a parent", nil, nil, nil, prev},
		{CreateHasPrev, true, "without", nil, nil, nil, good},
		{CreateDomain, false, "of another server", hasRoomID, nil, nil, domain},
		{CreateDomain, true, "of the sender's", hasRoomID, nil, nil, good},
		{CreateHasRoomID, false, "with a room ID", hashRoomID, nil, nil, room},
		{CreateHasRoomID, true, "without", hashRoomID, nil, nil, good},
		{CreateVersion, false, "unknown version", nil, nil, nil, create(`{"creator":"@alice:a.test","room_version":"one"}`)},
		{CreateVersion, false, "version is a number", nil, nil, nil, create(`{"creator":"@alice:a.test","room_version":1}`)},
		{CreateVersion, true, "no version", nil, nil, nil, create(`{"creator":"@alice:a.test"}`)},
		{CreateNoCreator, false, "no creator", contentCreator, nil, nil, create(`{}`)},
		{CreateNoCreator, true, "a creator", contentCreator, nil, nil, good},
		{CreateNoCreator, true, "none is needed", not(contentCreator), nil, nil, create(`{}`)},
		{CreateAdditional, false, "no array", privilegedCreators, nil, nil, create(`{"additional_creators":"@bob:b.test"}`)},
		{CreateAdditional, false, "no user ID", privilegedCreators, nil, nil, create(`{"additional_creators":["@bob:b.test","bob"]}`)},
		{CreateAdditional, false, "no string", privilegedCreators, nil, nil, create(`{"additional_creators":[7]}`)},
		{CreateAdditional, true, "user IDs", privilegedCreators, nil, nil, create(`{"additional_creators":["@bob:b.test"]}`)},
		{CreateAdditional, true, "means nothing yet", not(privilegedCreators), nil, nil, create(`{"creator":"@alice:a.test","additional_creators":7}`)},
	}
}

func roomCases(r *room) []authCase {
	message := func(sender string) pdu {
		return pdu{typ: "m.room.message", key: "-", sender: sender, content: `{"body":"x"}`}
	}
	elsewhere := message(bob)
	elsewhere.room = "!room:b.test"
	if r.version.RoomIDFromCreate {
		elsewhere.room = hashRoom("other")
	}
	closed := []pdu{{id: "create", typ: "m.room.create", sender: alice, content: r.createContent(`"m.federate":false,`)}}
	aliasEvent := func(sender, key string) pdu {
		return pdu{typ: "m.room.aliases", key: key, sender: sender, content: `{"aliases":[]}`}
	}
	return []authCase{
		{NoRoom, false, "another room's ID", hashRoomID, nil, nil, elsewhere},
		{NoRoom, false, "no create event", hashRoomID, nil, []Key{createKey}, message(bob)},
		{NoRoom, true, "the create event's ID", hashRoomID, nil, nil, message(bob)},
		{AuthNoCreate, false, "no create event", hasRoomID, nil, []Key{createKey}, message(bob)},
		{AuthNoCreate, true, "a create event", hasRoomID, nil, nil, message(bob)},
		{NotFederated, false, "another server", nil, closed, nil, message(bob)},
		{NotFederated, true, "the creator's server", nil, closed, nil, message(dave)},
		{AliasesNoStateKey, false, "not state", aliases, nil, nil, aliasEvent(bob, "-")},
		{AliasesNoStateKey, true, "state", aliases, nil, nil, aliasEvent(bob, "b.test")},
		{AliasesDomain, false, "of another server", aliases, nil, nil, aliasEvent(bob, "a.test")},
		{AliasesDomain, true, "of a stranger's server", aliases, nil, nil, aliasEvent(carol, "c.test")},
		{SenderNotJoined, false, "aliases have no rule of their own", not(aliases), nil, nil, aliasEvent(carol, "c.test")},
		{EventLevel, true, "aliases are state like other", not(aliases), nil, nil, aliasEvent(bob, "a.test")},
		{SenderNotJoined, false, "never joined", nil, nil, nil, message(carol)},
		{SenderNotJoined, false, "banned", nil, nil, nil, message(eve)},
		{SenderNotJoined, true, "joined", nil, nil, nil, message(dave)},
	}
}

func joinCases(r *room) []authCase {
	join := func(sender, key, content string) pdu {
		return pdu{typ: "m.room.member", key: key, sender: sender, content: content}
	}
	rule := func(name string, more ...pdu) []pdu {
		return append([]pdu{{id: "rules2", typ: "m.room.join_rules", sender: alice, content: joinRule(name)}}, more...)
	}
	invited := pdu{typ: "m.room.member", key: carol, sender: alice, content: member("invite")}
	via := func(user, signed string) pdu {
		p := join(carol, carol, `{"membership":"join","join_authorised_via_users_server":"`+user+`"}`)
		p.signed = signed
		return p
	}
	first := func(user, prev string) pdu {
		p := join(user, user, member("join"))
		p.prev = prev
		return p
	}
	noMembers := []Key{{"m.room.member", alice}, {"m.room.member", bob}, powerKey, {Type: "m.room.join_rules"}}
	inviteAt50 := pdu{typ: "m.room.power_levels", sender: alice, content: r.levels(`"invite":50,`)}
	self := join(carol, carol, member("join"))
	return []authCase{
		{MemberShape, false, "no state key", nil, nil, nil, join(carol, "-", member("join"))},
		{MemberShape, false, "no membership", nil, nil, nil, join(bob, bob, `{}`)},
		{MemberShape, true, "both", nil, nil, nil, join(bob, bob, member("join"))},
		{MemberNotCosigned, false, "not signed", restricted, rule("restricted"), nil, via(alice, "")},
		{MemberNotCosigned, false, "signed by another", restricted, rule("restricted"), nil, via(alice, "b.test")},
		{MemberNotCosigned, false, "no user ID", restricted, rule("restricted"), nil, via("a.test", "a.test")},
		{MemberNotCosigned, false, "in a leave event", restricted, nil, nil, join(bob, bob, `{"membership":"leave","join_authorised_via_users_server":"@alice:a.test"}`)},
		{MemberNotCosigned, true, "signed", restricted, rule("restricted"), nil, via(alice, "a.test")},
		{MemberNotCosigned, true, "means nothing yet", not(restricted), rule("public"), nil, via(alice, "")},
		{JoinRule, true, "the creator right after the create event", nil, nil, noMembers, first(alice, "create")},
		{JoinRule, false, "somebody else right after it", nil, nil, noMembers, first(bob, "create")},
		{JoinRule, false, "the creator after another event", nil, nil, noMembers, first(alice, "levels")},
		{JoinRule, false, "the creator after two events", nil, nil, noMembers, first(alice, "create levels")},
		{JoinNotSelf, false, "for another", nil, rule("public"), nil, join(bob, carol, member("join"))},
		{JoinNotSelf, true, "for oneself", nil, rule("public"), nil, self},
		{JoinBanned, false, "banned", nil, rule("public"), nil, join(eve, eve, member("join"))},
		{JoinBanned, true, "unbanned", nil, rule("public", pdu{typ: "m.room.member", key: eve, sender: alice, content: member("leave")}), nil, join(eve, eve, member("join"))},
		{JoinRule, false, "not invited", nil, nil, nil, self},
		{JoinRule, true, "invited", nil, []pdu{invited}, nil, self},
		{JoinRule, true, "joined already", nil, nil, nil, join(bob, bob, member("join"))},
		{JoinRule, true, "public", nil, rule("public"), nil, self},
		{JoinRule, false, "no rule means invite", nil, nil, []Key{{Type: "m.room.join_rules"}}, self},
		{JoinRule, false, "private, invited", nil, rule("private", invited), nil, self},
		{JoinRule, true, "knock, invited", knock, rule("knock", invited), nil, self},
		{JoinRule, false, "knock, not invited", knock, rule("knock"), nil, self},
		{JoinRule, false, "knock is unknown, invited", not(knock), rule("knock", invited), nil, self},
		{JoinRule, false, "restricted is unknown, invited", not(restricted), rule("restricted", invited), nil, self},
		{JoinRule, false, "knock_restricted is unknown, invited", not(knockRestricted), rule("knock_restricted", invited), nil, self},
		{JoinNotAuthorised, true, "invited", restricted, rule("restricted", invited), nil, self},
		{JoinNotAuthorised, true, "vouched for", restricted, rule("restricted"), nil, via(bob, "b.test")},
		{JoinNotAuthorised, true, "vouched for by a creator", privilegedCreators, rule("restricted", pdu{typ: "m.room.power_levels", sender: alice, content: r.levels(`"invite":101,`)}), nil, via(alice, "a.test")},
		{JoinNotAuthorised, false, "not vouched for", restricted, rule("restricted"), nil, self},
		{JoinNotAuthorised, false, "by a stranger", restricted, rule("restricted"), nil, via("@x:b.test", "b.test")},
		{JoinNotAuthorised, false, "by one who may not invite", restricted, rule("restricted", inviteAt50), nil, via(dave, "a.test")},
		{JoinNotAuthorised, true, "by one who just may", restricted, rule("restricted", inviteAt50), nil, via(bob, "b.test")},
		{JoinNotAuthorised, true, "knock_restricted, vouched for", knockRestricted, rule("knock_restricted"), nil, via(bob, "b.test")},
		{JoinNotAuthorised, false, "knock_restricted, not vouched for", knockRestricted, rule("knock_restricted"), nil, self},
		{MembershipUnknown, false, "unknown", nil, nil, nil, join(bob, bob, member("lurk"))},
		{MembershipUnknown, false, "no string", nil, nil, nil, join(bob, bob, `{"membership":["join"]}`)},
		{MembershipUnknown, true, "known", nil, nil, nil, join(bob, bob, member("leave"))},
		{MembershipUnknown, false, "knock is unknown", not(knock), rule("knock"), nil, join(carol, carol, member("knock"))},
	}
}

// identityServer signs third-party invites. Its key is that of no server.
var identityServer = ed25519.NewKeyFromSeed([]byte("a key for third-party invites !!"))

func inviteCases(r *room) []authCase {
	invite := func(sender, key, content string) pdu {
		return pdu{typ: "m.room.member", key: key, sender: sender, content: content}
	}
	third := func(sender, key, signed string) pdu {
		return invite(sender, key, `{"membership":"invite","third_party_invite":{"display_name":"c"`+signed+`}}`)
	}
	sign := func(object string) string {
		b, err := matrix.SignJSON([]byte(object), matrix.Signer{Server: "id.test", KeyID: "ed25519:0", Key: identityServer})
		if err != nil {
			r.tb.Fatal(err)
		}
		return `,"signed":` + string(b)
	}
	key := matrix.EncodeBase64(identityServer.Public().(ed25519.PublicKey))
	other := matrix.EncodeBase64(make([]byte, 32))
	asked := func(sender, keys string) []pdu {
		return []pdu{{id: "third", typ: "m.room.third_party_invite", key: "tok", sender: sender, content: "{" + keys + "}"}}
	}
	one := asked(bob, `"public_key":"`+key+`"`)
	good := third(bob, carol, sign(`{"mxid":"@carol:c.test","token":"tok"}`))
	kicker := pdu{typ: "m.room.power_levels", sender: alice, content: r.levels(`"invite":50,`)}
	return []authCase{
		{ThirdPartyBanned, false, "banned", nil, one, nil, third(bob, eve, sign(`{"mxid":"@eve:e.test","token":"tok"}`))},
		{ThirdPartyBanned, true, "not banned", nil, one, nil, good},
		{ThirdPartyUnsigned, false, "no signed", nil, one, nil, third(bob, carol, "")},
		{ThirdPartyUnsigned, true, "signed", nil, one, nil, good},
		{ThirdPartyShape, false, "no mxid", nil, one, nil, third(bob, carol, sign(`{"token":"tok"}`))},
		{ThirdPartyShape, false, "no token", nil, one, nil, third(bob, carol, sign(`{"mxid":"@carol:c.test"}`))},
		{ThirdPartyShape, true, "both", nil, one, nil, good},
		{ThirdPartyTarget, false, "another's", nil, one, nil, third(bob, carol, sign(`{"mxid":"@x:c.test","token":"tok"}`))},
		{ThirdPartyTarget, true, "the target's", nil, one, nil, good},
		{ThirdPartyUnknown, false, "another token", nil, one, nil, third(bob, carol, sign(`{"mxid":"@carol:c.test","token":"tik"}`))},
		{ThirdPartyUnknown, false, "a token that is a number", nil, []pdu{{typ: "m.room.third_party_invite", sender: bob, content: `{"public_key":"` + key + `"}`}}, nil, third(bob, carol, sign(`{"mxid":"@carol:c.test","token":5}`))},
		{ThirdPartyUnknown, true, "an empty token", nil, []pdu{{typ: "m.room.third_party_invite", sender: bob, content: `{"public_key":"` + key + `"}`}}, nil, third(bob, carol, sign(`{"mxid":"@carol:c.test","token":""}`))},
		{ThirdPartyUnknown, true, "the token", nil, one, nil, good},
		{ThirdPartySender, false, "another asked", nil, asked(alice, `"public_key":"`+key+`"`), nil, good},
		{ThirdPartySender, true, "the sender asked", nil, one, nil, good},
		{ThirdPartySignature, false, "another key", nil, asked(bob, `"public_key":"`+other+`"`), nil, good},
		{ThirdPartySignature, false, "not signed", nil, one, nil, third(bob, carol, `,"signed":{"mxid":"@carol:c.test","token":"tok","signatures":{}}`)},
		{ThirdPartySignature, true, "one of several keys", nil, asked(bob, `"public_key":"`+other+`","public_keys":[{"public_key":"`+other+`"},{"public_key":"`+key+`"}]`), nil, good},
		{ThirdPartySignature, true, "by one who has left", nil, append(one, pdu{typ: "m.room.member", key: bob, sender: bob, content: member("leave")}), nil, good},
		{InviteNotJoined, false, "not in the room", nil, nil, nil, invite(carol, "@x:c.test", member("invite"))},
		{InviteNotJoined, true, "in the room", nil, nil, nil, invite(bob, carol, member("invite"))},
		{InviteTarget, false, "joined", nil, nil, nil, invite(bob, dave, member("invite"))},
		{InviteTarget, false, "banned", nil, nil, nil, invite(bob, eve, member("invite"))},
		{InviteTarget, true, "has left", nil, []pdu{{typ: "m.room.member", key: dave, sender: dave, content: member("leave")}}, nil, invite(bob, dave, member("invite"))},
		{InviteLevel, false, "below", nil, []pdu{kicker}, nil, invite(dave, carol, member("invite"))},
		{InviteLevel, true, "at it", nil, []pdu{kicker}, nil, invite(bob, carol, member("invite"))},
		{InviteLevel, true, "0 unless set", nil, nil, nil, invite(dave, carol, member("invite"))},
		{ThirdPartyLevel, false, "below", nil, []pdu{kicker}, nil, pdu{typ: "m.room.third_party_invite", key: "t", sender: dave, content: `{}`}},
		{ThirdPartyLevel, true, "0 unless set, whatever state events need", nil, nil, nil, pdu{typ: "m.room.third_party_invite", key: "t", sender: dave, content: `{}`}},
		{ThirdPartyLevel, true, "its own type's level does not matter", nil, []pdu{{typ: "m.room.power_levels", sender: alice, content: r.levels(`"events":{"m.room.third_party_invite":90},`)}}, nil, pdu{typ: "m.room.third_party_invite", key: "t", sender: dave, content: `{}`}},
	}
}
