package rules_test

import (
	"fmt"
	"slices"
	"testing"
)

// TestReferenceResolution works small forks through the text by hand.
func TestReferenceResolution(t *testing.T) {
	for version := 1; version <= 12; version++ {
		h := newHand(t, version)
		base := h.smallRoom("public", "jjj")
		create, pl := base[refKey{"m.room.create", ""}], base[refKey{"m.room.power_levels", ""}]
		member := func(u string) *refEvent { return base[refKey{"m.room.member", u}] }
		auth := func(more ...*refEvent) []*refEvent {
			if version <= 11 {
				more = append(more, create)
			}
			return append(more, pl)
		}
		// On one side alice bans bob; on the other bob, unaware, sets the topic.
		ban := h.event(alice, "m.room.member", bob, `{"membership":"ban"}`, nil, auth(member(alice), member(bob)))
		topic := h.event(bob, "m.room.topic", "", `{}`, nil, auth(member(bob)))
		got := h.resolve([]refState{h.after(ban, base), h.after(topic, base)})
		if got[ban.key()] != ban {
			t.Errorf("version %d: the ban is lost", version)
		}
		// For version 1 a topic that only one side has is no conflict. From version 2 on
		// it is one, and the ban, a power event, comes first.
		if kept := got[topic.key()] == topic; kept != (version == 1) {
			t.Errorf("version %d: the banned user's topic kept: %v", version, kept)
		}
		// Identical states resolve to themselves, and order does not matter.
		if same := h.resolve([]refState{base, base}); !refSameState(same, base) {
			t.Errorf("version %d: identical states resolve to another", version)
		}
		if again := h.resolve([]refState{h.after(topic, base), h.after(ban, base)}); !refSameState(again, got) {
			t.Errorf("version %d: order of the states matters", version)
		}
		// Two topics by the same sender under the same levels: the later timestamp is
		// applied last (version 1: the greater depth wins).
		later := h.event(bob, "m.room.topic", "", `{"topic":"later"}`, nil, auth(member(bob)))
		got = h.resolve([]refState{h.after(later, base), h.after(topic, base)})
		if got[topic.key()] != later {
			t.Errorf("version %d: the earlier topic won", version)
		}
	}
}

// TestReferenceMainline: a topic based on newer power levels beats one based on older
// ones whatever its timestamp.
func TestReferenceMainline(t *testing.T) {
	h := newHand(t, 6)
	base := h.smallRoom("public", "jjj")
	create, pl := base[refKey{"m.room.create", ""}], base[refKey{"m.room.power_levels", ""}]
	m := base[refKey{"m.room.member", alice}]
	pl2 := h.event(alice, "m.room.power_levels", "", `{"users":{"@alice:one.test":100}}`, nil, []*refEvent{create, pl, m})
	newer := h.event(alice, "m.room.topic", "", `{}`, nil, []*refEvent{create, pl2, m})
	older := h.event(alice, "m.room.topic", "", `{}`, nil, []*refEvent{create, pl, m})
	none := h.event(alice, "m.room.topic", "", `{}`, nil, []*refEvent{create, m})
	list := []*refEvent{newer, none, older}
	h.sortMainline(list, pl2)
	if want := []*refEvent{none, older, newer}; !slices.Equal(list, want) {
		t.Error("mainline order is wrong")
	}
}

// TestReferencePowerOrder: ancestors first, then power, then time, then ID.
func TestReferencePowerOrder(t *testing.T) {
	h := newHand(t, 6)
	base := h.smallRoom("public", "jjj")
	create, pl := base[refKey{"m.room.create", ""}], base[refKey{"m.room.power_levels", ""}]
	by := func(u string, more ...*refEvent) *refEvent {
		return h.event(u, "m.room.join_rules", "", fmt.Sprintf(`{"n":%d}`, h.n), nil,
			append(more, create, pl, base[refKey{"m.room.member", u}]))
	}
	early, strong := by(bob), by(alice)
	late := by(bob)
	child := by(alice, late)
	set := refSet{}
	for _, e := range []*refEvent{child, late, strong, early} {
		set[e.id] = e
	}
	if got := h.reverseTopologicalPowerOrder(set); !slices.Equal(got, []*refEvent{strong, early, late, child}) {
		t.Error("reverse topological power order is wrong")
	}
}

// TestReferenceSubgraph: what lies on a path between two conflicted events belongs to
// the subgraph; what merely hangs below or above does not.
func TestReferenceSubgraph(t *testing.T) {
	h := newHand(t, 12)
	make := func(auth ...*refEvent) *refEvent {
		return h.event(alice, "x", fmt.Sprint(h.n), `{}`, nil, auth)
	}
	below := make()
	low := make(below)
	left, right := make(low), make(low)
	middle := make(left)
	side := make()
	high := make(middle, side)
	above := make(high, right)
	conflicted := refSet{low.id: low, high.id: high}
	got := h.conflictedSubgraph(conflicted)
	for _, c := range []struct {
		e    *refEvent
		want bool
	}{{below, false}, {low, true}, {left, true}, {right, false}, {middle, true}, {side, false}, {high, true}, {above, false}} {
		if (got[c.e.id] != nil) != c.want {
			t.Errorf("event %s in the subgraph: %v", c.e.key().stateKey, !c.want)
		}
	}
	if alone := h.conflictedSubgraph(refSet{low.id: low, side.id: side}); len(alone) != 0 {
		t.Error("there is no path between unrelated events")
	}
}
