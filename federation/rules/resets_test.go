package rules

import (
	"strings"
	"testing"

	"hearth/storage/matrix"
)

// The tests of this file are situations in which state resolution is known to
// reset state, or to be attacked, each with the reason for what must come out.

// reset is one situation. Events go on from baseState. Auth events are given
// without the create event, which is added where the room version wants it.
type reset struct {
	name   string
	events []pdu
	states []string // beside "create alice"
	mark   map[string]Standing
	want   map[matrix.StateRes]string // beside "create alice", by algorithm; v2 also counts for v2.1 unless that is named
}

func (c *reset) run(t *testing.T, v *matrix.Version) {
	r := newRoom(t, v.ID)
	base := baseState(r)
	r.add(base[0])
	auth := func(p pdu) pdu {
		if !v.RoomIDFromCreate {
			p.auth = "create " + p.auth
		}
		return p
	}
	base[1].prev = "create"
	base[2].auth, base[3].auth = "alice", "alice levels"
	base[4].auth, base[5].auth, base[6].auth = "levels rules", "levels rules", "alice levels"
	base[3].content = joinRule("public")
	for _, p := range base[1:] {
		r.add(auth(p))
	}
	for _, p := range c.events {
		if p.content == "LEVELS" {
			p.content = r.levels("")
		}
		p.content = strings.Replace(p.content, `"users":{`, `"users":{`+aliceAt100(v), 1)
		r.add(auth(p))
	}
	for id, standing := range c.mark {
		r.mark(id, standing)
	}
	want, ok := c.want[v.StateRes]
	if !ok && v.StateRes == matrix.StateResV2_1 {
		want, ok = c.want[matrix.StateResV2]
	}
	if !ok {
		return
	}
	states := make([]string, len(c.states))
	for i, ids := range c.states {
		states[i] = "create alice " + ids
	}
	r.want(r.resolve(states...), "create alice "+want)
}

func aliceAt100(v *matrix.Version) string {
	if v.PrivilegedCreators {
		return ""
	}
	return `"` + alice + `":100,`
}

const (
	v1  = matrix.StateResV1
	v2  = matrix.StateResV2
	v21 = matrix.StateResV2_1
)

var resets = []reset{
	{
		// The example of "Soft failure": a banned user goes on in a branch
		// that does not know the ban. From v2 on the ban, a power event, comes
		// first, and what the banned user sent is refused. v1 sees no conflict
		// in a topic that only one branch has.
		name: "ban evasion with a state event",
		events: []pdu{
			{id: "ban", typ: "m.room.member", key: bob, sender: alice, content: member("ban"), auth: "alice levels bob"},
			{id: "topic", typ: "m.room.topic", sender: bob, content: `{}`, auth: "levels bob"},
		},
		states: []string{"levels rules ban", "levels rules bob topic"},
		want:   map[matrix.StateRes]string{v1: "levels rules ban topic", v2: "levels rules ban"},
	},
	{
		// The same with a time before the ban's: the ban comes first because
		// it is a power event, not because of its time.
		name: "ban evasion with a state event from the past",
		events: []pdu{
			{id: "ban", typ: "m.room.member", key: bob, sender: alice, content: member("ban"), auth: "alice levels bob", ts: 50},
			{id: "topic", typ: "m.room.topic", sender: bob, content: `{}`, auth: "levels bob", ts: 20},
		},
		states: []string{"levels rules ban", "levels rules bob topic"},
		want:   map[matrix.StateRes]string{v1: "levels rules ban topic", v2: "levels rules ban"},
	},
	{
		// And so does a kick.
		name: "kick evasion with a state event from the past",
		events: []pdu{
			{id: "kick", typ: "m.room.member", key: bob, sender: alice, content: member("leave"), auth: "alice levels bob", ts: 50},
			{id: "topic", typ: "m.room.topic", sender: bob, content: `{}`, auth: "levels bob", ts: 20},
		},
		states: []string{"levels rules kick", "levels rules bob topic"},
		want:   map[matrix.StateRes]string{v2: "levels rules kick"},
	},
	{
		// Leaving by oneself takes nobody's ability away: what bob did before,
		// by time, stays.
		name: "a leave is no kick",
		events: []pdu{
			{id: "leave", typ: "m.room.member", key: bob, sender: bob, content: member("leave"), auth: "levels bob", ts: 50},
			{id: "topic", typ: "m.room.topic", sender: bob, content: `{}`, auth: "levels bob", ts: 20},
		},
		states: []string{"levels rules leave", "levels rules bob topic"},
		want:   map[matrix.StateRes]string{v2: "levels rules leave topic"},
	},
	{
		// A banned user sends another join, with a later time than the ban's,
		// in a branch that does not know the ban.
		name: "ban evasion with a join",
		events: []pdu{
			{id: "ban", typ: "m.room.member", key: bob, sender: alice, content: member("ban"), auth: "alice levels bob", ts: 50},
			{id: "again", typ: "m.room.member", key: bob, sender: bob, content: member("join"), auth: "levels bob rules", ts: 900},
		},
		states: []string{"levels rules ban", "levels rules again"},
		want:   map[matrix.StateRes]string{v1: "levels rules ban", v2: "levels rules ban"},
	},
	{
		// The same with a time before the ban's: a time that the sender chose
		// must not help either.
		name: "ban evasion with a join from the past",
		events: []pdu{
			{id: "ban", typ: "m.room.member", key: bob, sender: alice, content: member("ban"), auth: "alice levels bob", ts: 50},
			{id: "again", typ: "m.room.member", key: bob, sender: bob, content: member("join"), auth: "levels bob rules", ts: 20},
		},
		states: []string{"levels rules ban", "levels rules again"},
		want:   map[matrix.StateRes]string{v1: "levels rules ban", v2: "levels rules ban"},
	},
	{
		// Alice takes bob's power away while bob gives carol power. Who has
		// more power goes first, so bob's change fails. v1 goes by depth, and
		// bob claims a greater one, but is not allowed by alice's either.
		name: "demotion against a change by the demoted",
		events: []pdu{
			{id: "demote", typ: "m.room.power_levels", sender: alice, content: `{"users":{"@bob:b.test":0}}`, auth: "alice levels", ts: 60},
			{id: "grant", typ: "m.room.power_levels", sender: bob, content: `{"users":{"@bob:b.test":50,"@carol:c.test":50}}`, auth: "levels bob", ts: 61},
		},
		states: []string{"demote rules bob", "grant rules bob"},
		want:   map[matrix.StateRes]string{v1: "demote rules bob", v2: "demote rules bob"},
	},
	{
		// The same with bob's change first by time and by depth: still alice's
		// from v2 on. v1 begins with bob's, which then allows alice's.
		name: "demotion against an earlier change by the demoted",
		events: []pdu{
			{id: "demote", typ: "m.room.power_levels", sender: alice, content: `{"users":{"@bob:b.test":0}}`, auth: "alice levels", ts: 61},
			{id: "grant", typ: "m.room.power_levels", sender: bob, content: `{"users":{"@bob:b.test":50,"@carol:c.test":50}}`, auth: "levels bob", ts: 60},
		},
		states: []string{"demote rules bob", "grant rules bob"},
		want:   map[matrix.StateRes]string{v1: "demote rules bob", v2: "demote rules bob"},
	},
	{
		// Why v1 was replaced: bob's change stands on a change that is in
		// neither state, so the oldest levels do not allow it and the room
		// falls back to them. v2 has the change between in the auth difference
		// and applies all three.
		name: "stale power levels",
		events: []pdu{
			{id: "raise", typ: "m.room.power_levels", sender: alice, content: `{"users":{"@bob:b.test":50,"@dave:a.test":50}}`, auth: "alice levels"},
			{id: "last", typ: "m.room.power_levels", sender: dave, content: `{"users":{"@bob:b.test":50,"@carol:c.test":10,"@dave:a.test":50}}`, auth: "raise dave"},
		},
		states: []string{"levels rules dave", "last rules dave"},
		want:   map[matrix.StateRes]string{v1: "levels rules dave", v2: "last rules dave"},
	},
	{
		// What v2.1 mends with the conflicted state subgraph: the change
		// between ("raise") is in the auth chains of both states, so it is not
		// in the auth difference; v2 does not apply it, refuses dave's change
		// and resets the levels.
		name: "stale power levels, the change between known to all",
		events: []pdu{
			{id: "raise", typ: "m.room.power_levels", sender: alice, content: `{"users":{"@bob:b.test":50,"@dave:a.test":50}}`, auth: "alice levels"},
			{id: "last", typ: "m.room.power_levels", sender: dave, content: `{"users":{"@bob:b.test":50,"@carol:c.test":10,"@dave:a.test":50}}`, auth: "raise dave"},
			{id: "topic", typ: "m.room.topic", sender: alice, content: `{}`, auth: "alice raise"},
		},
		states: []string{"levels rules dave topic", "last rules dave topic"},
		want:   map[matrix.StateRes]string{v1: "levels rules dave topic", v2: "levels rules dave topic", v21: "last rules dave topic"},
	},
	{
		// What v2.1 mends by beginning with an empty state: bob changed the
		// join rules and has left since, which both states know. v2 asks the
		// unconflicted state whether bob may, who is no longer in the room,
		// and resets the join rules. v2.1 asks the state bob cites.
		name: "join rules by somebody who has left",
		events: []pdu{
			{id: "closed", typ: "m.room.join_rules", sender: bob, content: joinRule("invite"), auth: "levels bob"},
			{id: "gone", typ: "m.room.member", key: bob, sender: bob, content: member("leave"), auth: "levels bob"},
		},
		states: []string{"levels rules gone", "levels closed gone"},
		want:   map[matrix.StateRes]string{v1: "levels rules gone", v2: "levels rules gone", v21: "levels closed gone"},
	},
	{
		// The same for a user who was banned meanwhile: what they did before,
		// and all agree is banned now, is not undone in v2.1.
		name: "power levels by somebody who was banned since",
		events: []pdu{
			{id: "grant", typ: "m.room.power_levels", sender: bob, content: `{"users":{"@bob:b.test":50,"@carol:c.test":10}}`, auth: "levels bob"},
			{id: "ban", typ: "m.room.member", key: bob, sender: alice, content: member("ban"), auth: "alice grant bob"},
		},
		states: []string{"levels rules ban", "grant rules ban"},
		want:   map[matrix.StateRes]string{v1: "levels rules ban", v2: "levels rules ban", v21: "grant rules ban"},
	},
	{
		// A kick and the demotion of the kicker: the demotion's sender has
		// more power, so it goes first and the kick fails, though it was
		// earlier by time.
		name: "kick by somebody demoted meanwhile",
		events: []pdu{
			{id: "demote", typ: "m.room.power_levels", sender: alice, content: `{"users":{"@bob:b.test":0}}`, auth: "alice levels", ts: 70},
			{id: "kick", typ: "m.room.member", key: dave, sender: bob, content: member("leave"), auth: "levels bob dave", ts: 60},
		},
		states: []string{"demote rules bob dave", "levels rules bob kick"},
		want:   map[matrix.StateRes]string{v2: "demote rules bob dave"},
	},
	{
		// The join rules close while carol joins: a join rules event is a
		// power event and goes first, so carol does not get in. (v1 sees no
		// conflict in carol's membership.)
		name: "join against closing the room",
		events: []pdu{
			{id: "closed", typ: "m.room.join_rules", sender: alice, content: joinRule("invite"), auth: "alice levels"},
			{id: "carol", typ: "m.room.member", key: carol, sender: carol, content: member("join"), auth: "levels rules"},
		},
		states: []string{"levels closed", "levels rules carol"},
		want:   map[matrix.StateRes]string{v1: "levels closed carol", v2: "levels closed"},
	},
	{
		// A topic that rests on newer power levels wins over one that rests on
		// older ones, whatever times they claim.
		name: "mainline before time",
		events: []pdu{
			{id: "newer", typ: "m.room.power_levels", sender: alice, content: `{"users":{"@bob:b.test":50,"@carol:c.test":1}}`, auth: "alice levels"},
			{id: "old", typ: "m.room.topic", sender: bob, content: `{}`, auth: "levels bob", ts: 900, depth: 10},
			{id: "new", typ: "m.room.topic", sender: alice, content: `{}`, auth: "newer alice", ts: 20, depth: 11},
		},
		states: []string{"levels rules bob old", "newer rules bob new"},
		want:   map[matrix.StateRes]string{v1: "newer rules bob new", v2: "newer rules bob new"},
	},
	{
		// On equal mainline positions time decides: the later stays.
		name: "time",
		events: []pdu{
			{id: "one", typ: "m.room.topic", sender: bob, content: `{}`, auth: "levels bob", ts: 90},
			{id: "two", typ: "m.room.topic", sender: alice, content: `{}`, auth: "levels alice", ts: 91},
		},
		states: []string{"levels rules bob one", "levels rules bob two"},
		want:   map[matrix.StateRes]string{v1: "levels rules bob two", v2: "levels rules bob two"},
	},
	{
		// On equal times the ID does: the greater stays.
		name: "event ID",
		events: []pdu{
			{id: "one", typ: "m.room.topic", sender: bob, content: `{}`, auth: "levels bob", ts: 90, depth: 20},
			{id: "two", typ: "m.room.topic", sender: bob, content: `{}`, auth: "levels bob", ts: 90, depth: 21},
		},
		states: []string{"levels rules bob one", "levels rules bob two"},
		want:   map[matrix.StateRes]string{v1: "levels rules bob two", v2: "levels rules bob two"},
	},
	{
		// Of v1's other conflicts the deepest allowed event is taken: dave's is
		// deeper, but dave may not set the topic.
		name: "depth, as far as it is allowed",
		events: []pdu{
			{id: "one", typ: "m.room.topic", sender: bob, content: `{}`, auth: "levels bob", depth: 20},
			{id: "two", typ: "m.room.topic", sender: dave, content: `{}`, auth: "levels dave", depth: 21},
		},
		states: []string{"levels rules bob dave one", "levels rules bob dave two"},
		want:   map[matrix.StateRes]string{v1: "levels rules bob dave one", v2: "levels rules bob dave one"},
	},
	{
		// If the state allows none of them, there is none.
		name: "nothing is allowed",
		events: []pdu{
			{id: "one", typ: "m.room.topic", sender: dave, content: `{}`, auth: "levels dave"},
			{id: "two", typ: "m.room.topic", sender: dave, content: `{}`, auth: "levels dave"},
		},
		states: []string{"levels rules dave one", "levels rules dave two"},
		want:   map[matrix.StateRes]string{v1: "levels rules dave", v2: "levels rules dave"},
	},
	{
		// v1 takes the first power levels of a conflict unseen. An event that
		// its own auth events refuse must not be among them.
		name: "rejected power levels, the first by depth",
		events: []pdu{
			{id: "coup", typ: "m.room.power_levels", sender: dave, content: `{"users":{"@bob:b.test":0,"@dave:a.test":100}}`, auth: "levels dave", ts: 1, depth: 1},
			{id: "next", typ: "m.room.power_levels", sender: alice, content: `{"users":{"@bob:b.test":60}}`, auth: "levels alice"},
		},
		states: []string{"coup rules dave", "next rules dave"},
		mark:   map[string]Standing{"coup": RejectedByAuth},
		want:   map[matrix.StateRes]string{v1: "next rules dave", v2: "next rules dave"},
	},
	{
		// Bob's join was rejected, by the state before it. It is no longer
		// good as an auth event: nothing checks it again, as a conflicted event
		// is. So bob is not in the room and the topic is refused.
		name: "a rejected auth event",
		events: []pdu{
			{id: "topic", typ: "m.room.topic", sender: bob, content: `{}`, auth: "levels bob"},
		},
		states: []string{"levels rules", "levels rules topic"},
		mark:   map[string]Standing{"bob": RejectedByState},
		// Bob's join is in the auth difference, though, and takes part.
		want: map[matrix.StateRes]string{v2: "levels rules bob topic"},
	},
	{
		name: "an auth event that was rejected for good",
		events: []pdu{
			{id: "topic", typ: "m.room.topic", sender: bob, content: `{}`, auth: "levels bob"},
		},
		states: []string{"levels rules", "levels rules topic"},
		mark:   map[string]Standing{"bob": RejectedByAuth},
		want:   map[matrix.StateRes]string{v2: "levels rules"},
	},
	{
		// Known to all and yet rejected: not in the auth difference, so nothing
		// checks it again, and it must not serve as an auth event.
		name: "a rejected auth event that is nobody's difference",
		events: []pdu{
			{id: "name", typ: "m.room.name", sender: bob, content: `{}`, auth: "levels bob"},
			{id: "one", typ: "m.room.topic", sender: bob, content: `{}`, auth: "levels bob"},
			{id: "two", typ: "m.room.topic", sender: alice, content: `{}`, auth: "levels alice", ts: 5},
		},
		states: []string{"levels rules name one", "levels rules name two"},
		mark:   map[string]Standing{"bob": RejectedByState},
		want:   map[matrix.StateRes]string{v2: "levels rules name two"},
	},
}

func TestResets(t *testing.T) {
	for i := range resets {
		t.Run(resets[i].name, func(t *testing.T) {
			everyVersion(t, resets[i].run)
		})
	}
}

// TestCreateMissing: a server answered with a state that lacks the create
// event. It must come back, or at least not take the rest of the state with it.
func TestCreateMissing(t *testing.T) {
	everyVersion(t, func(t *testing.T, v *matrix.Version) {
		if v.StateRes == matrix.StateResV1 {
			return // a key that one state lacks is no conflict
		}
		r := newRoom(t, v.ID)
		r.add(baseState(r)...)
		auth := "create levels bob"
		if v.RoomIDFromCreate {
			auth = "levels bob"
		}
		r.add(pdu{id: "one", typ: "m.room.topic", sender: bob, content: `{}`, auth: auth},
			pdu{id: "two", typ: "m.room.topic", sender: bob, content: `{}`, auth: auth})
		r.want(r.resolve("create levels bob one", "levels bob two"), "create levels bob two")
		r.want(r.resolve("levels bob one", "levels bob two"), "levels bob two")
		// Not known at all: nothing can be authorized, what is agreed stays.
		if create := r.find("create"); v.RoomIDFromCreate {
			delete(r.stored, create)
			r.want(r.resolve("levels bob one", "levels bob two"), "levels bob")
		}
	})
}

// TestCreatorsStand: from room version 12 on nobody can take a creator's
// power, in whatever branch they try.
func TestCreatorsStand(t *testing.T) {
	r := newRoom(t, "12")
	base := baseState(r)
	base[1].prev = "create"
	base[2].auth, base[3].auth, base[4].auth = "alice", "alice levels", "levels rules"
	base[3].content = joinRule("public")
	r.add(base...)
	r.add(
		pdu{id: "ban", typ: "m.room.member", key: alice, sender: bob, content: member("ban"), auth: "levels bob alice"},
		pdu{id: "coup", typ: "m.room.power_levels", sender: bob, content: `{"users":{"@alice:a.test":0,"@bob:b.test":100}}`, auth: "levels bob"},
		pdu{id: "demote", typ: "m.room.power_levels", sender: alice, content: `{}`, auth: "levels alice", ts: 900},
	)
	got := r.resolve("create ban coup rules bob", "create alice demote rules bob")
	r.want(got, "create alice demote rules bob")
}
