package rules_test

import (
	"encoding/base64"
	"fmt"
	"testing"

	"hearth/federation/rules"
	"hearth/storage/matrix"
)

// Where the package and the reference differed, or a reading had to be chosen, these
// tests hold what the specification's text decided.

// production shows the events of a small room to the code under test.
func (h *hand) production() *production {
	g := &graph{version: h.version, room: h.refRoom, byState: map[string]string{}}
	for id, e := range h.events {
		if e.rejected {
			g.byState[id] = "rejected"
		}
	}
	p := &production{g, map[string]*matrix.Event{}}
	for id, e := range h.events {
		ev, err := matrix.ParseEvent(versionOf(h.version), refCanonical(e.json))
		if err != nil {
			h.t.Fatal(err)
		}
		p.events[id] = ev
	}
	return p
}

// both asks the package and the reference for a verdict; they must say the same.
func (h *hand) both(e *refEvent, state refState) string {
	h.t.Helper()
	p := h.production()
	got, ref := verdict(rules.Authorize(p.events[e.id], p.state(state))), h.ruleState(e, state)
	if got != ref {
		h.t.Errorf("version %d: the package refuses by %q, the reference by %q", h.version, got, ref)
	}
	return got
}

// TestSettledNoJoinRules: which join_rule holds in a room without m.room.join_rules the
// rules do not say. Read to the letter nothing matches, and "otherwise, reject" would
// keep even the creator from changing their display name. It counts as "invite", as it
// does for other implementations: who is invited or joined may join, nobody else.
func TestSettledNoJoinRules(t *testing.T) {
	for version := 1; version <= 12; version++ {
		for members, allowed := range map[string]bool{"jji": true, "jjj": true, "jj-": false, "jjl": false, "jjb": false} {
			h := newHand(t, version)
			state := h.smallRoom("public", members)
			delete(state, refKey{"m.room.join_rules", ""})
			join := h.event(carol, "m.room.member", carol, `{"membership":"join"}`, []*refEvent{state[refKey{"m.room.power_levels", ""}]}, nil)
			if got := h.both(join, state); (got == "") != allowed {
				t.Errorf("version %d, memberships %s: refused by %q", version, members, got)
			}
		}
		// An event without a usable join_rule is another matter: it names no rule.
		h := newHand(t, version)
		state := h.smallRoom("public", "jji")
		none := h.event(alice, "m.room.join_rules", "", `{"join_rule":7}`, nil, nil)
		state[none.key()] = none
		if h.both(h.event(carol, "m.room.member", carol, `{"membership":"join"}`, []*refEvent{none}, nil), state) == "" {
			t.Errorf("version %d: a join_rule that is a number let an invited user in", version)
		}
	}
}

// TestSettledTokenNotString: "If there is no m.room.third_party_invite event in the
// current room state with state_key matching token, reject." A token that is no string
// matches no state_key, not even the empty one. (The package took it for empty.)
func TestSettledTokenNotString(t *testing.T) {
	for version := 1; version <= 12; version++ {
		for token, want := range map[string]bool{`""`: true, `5`: false, `null`: false} {
			h := newHand(t, version)
			state := h.smallRoom("invite", "jj-")
			invite := h.event(alice, "m.room.third_party_invite", "", fmt.Sprintf(`{"public_key":%q}`,
				base64.RawStdEncoding.EncodeToString(publicBytes("id.test"))), nil, nil)
			state[invite.key()] = invite
			signed := refDecode([]byte(fmt.Sprintf(`{"mxid":%q,"token":%s}`, carol, token)))
			refSign(signed, "id.test", "ed25519:0", graphKeys["id.test"])
			use := h.event(alice, "m.room.member", carol,
				fmt.Sprintf(`{"membership":"invite","third_party_invite":{"signed":%s}}`, refCanonical(signed)), []*refEvent{invite}, nil)
			if got := h.both(use, state); (got == "") != want {
				t.Errorf("version %d, token %s: refused by %q", version, token, got)
			}
		}
	}
}

// TestSettledMessageInAuthChain: rule 1 does not look at the auth_events of a create
// event, so a message can be in an auth chain. The iterative auth checks take "a sorted
// list of state events"; a message is none. (The reference entered it into the state.)
func TestSettledMessageInAuthChain(t *testing.T) {
	for version := 2; version <= 11; version++ {
		h := newHand(t, version)
		base := h.smallRoom("public", "jjj")
		create, pl := base[refKey{"m.room.create", ""}], base[refKey{"m.room.power_levels", ""}]
		m := base[refKey{"m.room.member", alice}]
		message := h.event(alice, "m.room.message", "-", `{}`, []*refEvent{m}, []*refEvent{create, pl, m})
		stray := h.event(alice, "m.room.create", "", fmt.Sprintf(`{"creator":%q,"room_version":"%d"}`, alice, version), nil, []*refEvent{message})
		topic := h.event(alice, "m.room.topic", "", `{}`, []*refEvent{m}, []*refEvent{stray, pl, m})
		h.bothResolve([]refState{base, h.after(topic, base)}, message.key(), nil)
	}
}

// bothResolve resolves states by both; they must agree, and have want at key.
func (h *hand) bothResolve(states []refState, key refKey, want *refEvent) {
	h.t.Helper()
	p := h.production()
	p.g.resolve = []graphResolution{{states, h.resolve(states)}}
	var d differences
	d.compareResolutions(p.g, p.events)
	for _, s := range d.list {
		h.t.Error(s)
	}
	if got := p.g.resolve[0].want[key]; got != want {
		h.t.Errorf("version %d: %v resolved to %v, want %v", h.version, key, got, want)
	}
}

// TestSettledThirdPartyInviteRedacted: version 11 keeps third_party_invite of an
// m.room.member but "only the signed key". One without it becomes an empty object: the
// key itself "is no longer redacted".
func TestSettledThirdPartyInviteRedacted(t *testing.T) {
	for version := 1; version <= 12; version++ {
		ev := refDecode([]byte(`{"type":"m.room.member","content":{"membership":"invite","third_party_invite":{"display_name":"d"}}}`))
		want := `{"content":{"membership":"invite"},"type":"m.room.member"}`
		if version >= 11 {
			want = `{"content":{"membership":"invite","third_party_invite":{}},"type":"m.room.member"}`
		}
		got, err := matrix.Redact(versionOf(version), refCanonical(ev))
		if err != nil || string(got) != want || string(refCanonical(refRedact(version, ev))) != want {
			t.Errorf("version %d: %s, %v", version, got, err)
		}
	}
}

// TestSettledV1Members: version 1 resolves conflicts between members in one pass, and
// its text does not say whether one member's outcome counts when the next is resolved,
// nor who is next. Both implementations let none count: only what earlier passes
// settled does, so that no order has to be made up. Here bob's join is in conflict, so
// his kick of carol finds him not joined, whatever becomes of him.
func TestSettledV1Members(t *testing.T) {
	h := newHand(t, 1)
	base := h.smallRoom("public", "jjj")
	create, pl := base[refKey{"m.room.create", ""}], base[refKey{"m.room.power_levels", ""}]
	bobs := h.event(bob, "m.room.member", bob, `{"membership":"join","displayname":"b"}`, nil, []*refEvent{create, pl})
	kick := h.event(bob, "m.room.member", carol, `{"membership":"leave"}`, nil, []*refEvent{create, pl})
	other := h.after(kick, h.after(bobs, base))
	h.bothResolve([]refState{base, other}, kick.key(), base[kick.key()])
	h.bothResolve([]refState{base, other}, bobs.key(), bobs)
}

// TestSettledOrderThroughUnconflicted: the reverse topological power ordering is "based
// on the DAG formed by auth events", of which the set to be sorted is a part: an event
// comes after all of its auth chain, also where the path leads through an event that
// is not in the set. Likewise step 1 adds "the events in the auth chain of P which also
// belong to the full conflicted set", by whatever path.
//
// Here alice's ban of carol is based on power levels that come after bob's kick of her,
// and that no state disputes. Without that link alice, the stronger, would go first,
// and bob's older kick would then lift the ban.
func TestSettledOrderThroughUnconflicted(t *testing.T) {
	for version := 2; version <= 11; version++ {
		h := newHand(t, version)
		base := h.smallRoom("public", "jjj")
		create, pl := base[refKey{"m.room.create", ""}], base[refKey{"m.room.power_levels", ""}]
		kick := h.event(bob, "m.room.member", carol, `{"membership":"leave"}`, nil,
			[]*refEvent{create, pl, base[refKey{"m.room.member", bob}]})
		rejoin := h.event(alice, "m.room.member", alice, `{"membership":"join"}`, nil, []*refEvent{create, pl, kick})
		levels := h.event(alice, "m.room.power_levels", "",
			`{"users":{"@alice:one.test":100,"@bob:two.test:8448":90}}`, nil, []*refEvent{create, pl, rejoin})
		ban := h.event(alice, "m.room.member", carol, `{"membership":"ban"}`, nil, []*refEvent{create, levels, rejoin})
		common := h.after(levels, h.after(rejoin, base))
		h.bothResolve([]refState{h.after(kick, common), h.after(ban, common)}, ban.key(), ban)
	}
}

// TestSettledChainThroughUnconflicted is the same for step 1: bob's older join is in
// the auth chain of the kick only by way of the undisputed power levels. Left to step
// 4, it would be applied after the kick and undo it: a state reset.
func TestSettledChainThroughUnconflicted(t *testing.T) {
	for version := 2; version <= 12; version++ {
		h := newHand(t, version)
		base := h.smallRoom("public", "jjj")
		var create []*refEvent
		if version <= 11 {
			create = []*refEvent{base[refKey{"m.room.create", ""}]}
		}
		auth := func(events ...*refEvent) []*refEvent { return append(events, create...) }
		pl := base[refKey{"m.room.power_levels", ""}]
		join := h.event(bob, "m.room.member", bob, `{"membership":"join"}`, nil, auth(pl, base[refKey{"m.room.join_rules", ""}]))
		rejoin := h.event(alice, "m.room.member", alice, `{"membership":"join"}`, nil, auth(pl, join))
		levels := h.event(alice, "m.room.power_levels", "", `{"users":{"@alice:one.test":100}}`, nil, auth(pl, rejoin))
		if version >= 12 { // creators are not listed
			levels = h.event(alice, "m.room.power_levels", "", `{"ban":60}`, nil, auth(pl, rejoin))
		}
		kick := h.event(alice, "m.room.member", bob, `{"membership":"leave"}`, nil, auth(levels, rejoin))
		common := h.after(levels, h.after(rejoin, base))
		h.bothResolve([]refState{h.after(join, common), h.after(kick, common)}, kick.key(), kick)
	}
}

// TestSettledRejectedAuthEvent: "the appropriate state event from the event's
// auth_events is used if the auth event is not rejected". carol's join, from before the
// room became invite-only, does not pass again, so only as an auth event can it let
// her set state.
func TestSettledRejectedAuthEvent(t *testing.T) {
	for version := 2; version <= 11; version++ {
		for _, rejected := range []bool{false, true} {
			h := newHand(t, version)
			base := h.smallRoom("public", "jj-")
			create, open := base[refKey{"m.room.create", ""}], base[refKey{"m.room.join_rules", ""}]
			pl := h.event(alice, "m.room.power_levels", "", `{"state_default":0,"users":{"@alice:one.test":100}}`, nil, []*refEvent{create})
			shut := h.event(alice, "m.room.join_rules", "", `{"join_rule":"invite"}`, nil, []*refEvent{create, pl})
			// Both states' auth chains hold the open rules, so they are not in dispute.
			rejoin := h.event(alice, "m.room.member", alice, `{"membership":"join"}`, nil, []*refEvent{create, pl, open})
			base = h.after(rejoin, h.after(shut, h.after(pl, base)))
			join := h.event(carol, "m.room.member", carol, `{"membership":"join"}`, nil, []*refEvent{create, pl, open})
			join.rejected = rejected
			custom := h.event(carol, "m.custom", carol, `{}`, nil, []*refEvent{create, pl, join})
			want := custom
			if rejected {
				want = nil
			}
			h.bothResolve([]refState{base, h.after(custom, base)}, custom.key(), want)
		}
	}
}
