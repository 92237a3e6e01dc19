package syncer

import (
	"fmt"
	"strings"
	"testing"

	"hearth/federation/room"
	"hearth/storage"
)

const freshState = "create guest_access history_visibility join_rules member(@alice)=join power_levels"

// A first sync tells the newest events and the state before them; what follows
// tells only what is new.
func TestFirstAndNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.person("alice")
	r := alice.public()
	for _, text := range []string{"1", "2", "3", "4"} {
		alice.say(r, text)
	}
	got := alice.sync(`{"room":{"timeline":{"limit":3}}}`).Rooms.Join[r.ID]
	want(t, "first timeline", got.timeline(), "message=2 message=3 message=4")
	wantState(t, "first state", got.stateText(), freshState)
	if !got.Timeline.Limited || got.Timeline.Prev == "" || got.Summary == nil || got.Summary.Joined != 1 {
		t.Errorf("got %+v", got)
	}
	if n := alice.sync("").rooms(); n != 0 {
		t.Errorf("%d rooms with nothing new", n)
	}
	alice.say(r, "5")
	alice.set(r, "m.room.name", "", `{"name":"N"}`)
	got = alice.sync("").Rooms.Join[r.ID]
	want(t, "next timeline", got.timeline(), "message=5 name=N")
	wantState(t, "next state", got.stateText(), "")
	if got.Timeline.Limited {
		t.Error("nothing is missing, and the timeline is limited")
	}
	all := alice.sync(`{"room":{"timeline":{"limit":100}}}`, first).Rooms.Join[r.ID]
	want(t, "whole timeline", all.timeline(), "create member(@alice)=join power_levels join_rules history_visibility guest_access "+
		"message=1 message=2 message=3 message=4 message=5 name=N")
	wantState(t, "state before everything", all.stateText(), "")
	if all.Timeline.Limited {
		t.Error("the timeline reaches the start of the room, and is limited")
	}
}

// The state section of a gap is exact: what changed in it, what the timeline
// changes again as it was at the timeline's start, nothing else.
func TestGap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.person("alice")
	r := alice.public()
	alice.set(r, "m.room.name", "", `{"name":"A"}`)
	alice.set(r, "x.kept", "", `{"n":1}`)
	alice.sync("")
	since := alice.since
	alice.set(r, "m.room.name", "", `{"name":"B"}`)
	alice.set(r, "m.room.name", "", `{"name":"C"}`)
	alice.set(r, "x.gap", "k", `{"n":2}`)
	alice.say(r, "in the gap")
	alice.say(r, "1")
	alice.set(r, "m.room.name", "", `{"name":"D"}`)
	alice.set(r, "x.late", "", `{"n":3}`)
	const filter = `{"room":{"timeline":{"limit":3}}}`
	got := alice.sync(filter).Rooms.Join[r.ID]
	want(t, "timeline", got.timeline(), "message=1 name=D x.late=3")
	wantState(t, "state", got.stateText(), "name=C x.gap(k)=2")
	if !got.Timeline.Limited || got.After != nil {
		t.Errorf("limited %v, state_after %v", got.Timeline.Limited, got.After)
	}
	alice.since = since
	got = alice.sync(filter, stateAfter).Rooms.Join[r.ID]
	want(t, "timeline with state_after", got.timeline(), "message=1 name=D x.late=3")
	wantState(t, "state_after", got.afterText(), "name=D x.gap(k)=2 x.late=3")
	if got.State != nil {
		t.Error("both state and state_after are told")
	}
	alice.since = since
	got = alice.sync(filter, fullState).Rooms.Join[r.ID]
	wantState(t, "full state", got.stateText(), freshState+" name=C x.gap(k)=2 x.kept=1")
}

// What the filter takes out of the timeline is in the state all the same, and
// what it takes out of everything is nothing to tell.
func TestFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.person("alice"), w.person("bob")
	r, other := alice.public(), alice.public()
	bob.act(r, "join", nil)
	alice.sync("")
	since := alice.since
	alice.set(r, "m.room.name", "", `{"name":"N"}`)
	alice.say(r, "a")
	bob.say(r, "b")
	alice.say(other, "o")
	for _, c := range []struct {
		filter, timeline, state string
		limited                 bool
	}{
		{`{}`, "name=N message=a message=b", "", false},
		{`{"room":{"timeline":{"types":["m.room.mess*"]}}}`, "message=a message=b", "name=N", false},
		{`{"room":{"timeline":{"not_types":["m.room.message"]}}}`, "name=N", "", false},
		{`{"room":{"timeline":{"senders":["@bob:test"]}}}`, "message=b", "name=N", false},
		{`{"room":{"timeline":{"not_senders":["@bob:test"],"limit":1}}}`, "message=a", "name=N", true},
		{`{"room":{"timeline":{"limit":0}}}`, "", "name=N", true},
		{`{"room":{"timeline":{"types":[]}}}`, "", "name=N", false},
		{`{"room":{"timeline":{"types":["m.room.message"],"limit":2},"state":{"types":[]}}}`, "message=a message=b", "", false},
		{`{"room":{"timeline":{"contains_url":true}}}`, "", "name=N", false},
		{`{"room":{"timeline":{"rooms":[]}}}`, "", "name=N", false},
	} {
		alice.since = since
		got := alice.sync(c.filter).Rooms.Join[r.ID]
		if got.State == nil {
			t.Errorf("%s: the room is not told", c.filter)
			continue
		}
		want(t, "timeline of "+c.filter, got.timeline(), c.timeline)
		wantState(t, "state of "+c.filter, got.stateText(), c.state)
		if got.Timeline.Limited != c.limited {
			t.Errorf("%s: limited %v", c.filter, !c.limited)
		}
	}
	for filter, rooms := range map[string]int{
		`{}`: 2, `{"room":{"rooms":["` + string(r.ID) + `"]}}`: 1, `{"room":{"not_rooms":["` + string(r.ID) + `"]}}`: 1, `{"room":{"rooms":[]}}`: 0,
		// That a room is named now is told by its summary.
		`{"room":{"timeline":{"types":[]},"state":{"types":[]}}}`: 1, `{"room":{"timeline":{"limit":0},"state":{"senders":["@bob:test"]}}}`: 1,
	} {
		alice.since = since
		if n := alice.sync(filter).rooms(); n != rooms {
			t.Errorf("%s: %d rooms, want %d", filter, n, rooms)
		}
	}
	// The summary is told when it changes, also where the filter hides all else.
	const blind = `{"room":{"timeline":{"types":[]},"state":{"types":[]}}}`
	alice.sync(blind)
	alice.set(r, "m.room.name", "", `{"name":"M"}`)
	bob.set(r, "m.room.member", string(bob.id), `{"membership":"join","displayname":"B"}`)
	if n := alice.sync(blind).rooms(); n != 0 {
		t.Errorf("%d rooms are told, and nothing the client wants changed", n)
	}
	bob.act(r, "leave", nil)
	if s := alice.sync(blind).Rooms.Join[r.ID].Summary; s == nil || s.Joined != 1 {
		t.Errorf("the summary is %+v, and one member is left", s)
	}
}

// A filter that lets few events of a busy room through does not read all of it,
// and says so.
func TestScanBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.person("alice")
	r := alice.public()
	alice.sync("")
	alice.set(r, "x.rare", "", `{"n":1}`)
	w.write(func(tx *storage.Tx) error {
		for range maxScan + scanPage {
			if _, err := w.rooms.Send(tx, r, room.Draft{Type: "x.often", Sender: alice.id}); err != nil {
				return err
			}
		}
		return nil
	})
	got := alice.sync(`{"room":{"timeline":{"types":["x.rare"]}}}`).Rooms.Join[r.ID]
	want(t, "timeline", got.timeline(), "")
	wantState(t, "state", got.stateText(), "x.rare=1")
	if !got.Timeline.Limited {
		t.Error("the timeline claims to be complete")
	}
}

// With lazy loading the state has only those members that something told needs.
func TestLazyMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob, carol, dan := w.person("alice"), w.person("bob"), w.person("carol"), w.person("dan")
	r := alice.public()
	alice.set(r, "m.room.name", "", `{"name":"N"}`) // no heroes
	for _, p := range []*person{bob, carol, dan} {
		p.act(r, "join", nil)
	}
	bob.say(r, "b")
	const lazy = `{"room":{"timeline":{"limit":1},"state":{"lazy_load_members":true}}}`
	rest := "create guest_access history_visibility join_rules "
	got := alice.sync(lazy).Rooms.Join[r.ID]
	wantState(t, "first state", got.stateText(), rest+"member(@alice)=join member(@bob)=join name=N power_levels")
	carol.say(r, "c")
	got = alice.sync(lazy).Rooms.Join[r.ID]
	wantState(t, "next state", got.stateText(), "member(@carol)=join")
	// Whoever moved in a gap is told, and a profile as it was at the start.
	dan.act(r, "leave", nil)
	bob.set(r, "m.room.member", string(bob.id), `{"membership":"join","displayname":"B"}`)
	got = alice.sync(lazy).Rooms.Join[r.ID]
	want(t, "timeline", got.timeline(), "member(@bob)=join")
	wantState(t, "gap state", got.stateText(), "member(@dan)=leave") // it has bob as he was
	bob.act(r, "leave", nil)
	got = alice.sync(lazy, stateAfter).Rooms.Join[r.ID]
	wantState(t, "state_after", got.afterText(), "member(@bob)=leave")
	got = alice.sync(lazy, fullState).Rooms.Join[r.ID]
	wantState(t, "full state", got.stateText(), rest+"member(@alice)=join name=N power_levels")
	// Heroes need their memberships, too.
	alice.set(r, "m.room.name", "", `{"name":""}`)
	got = alice.sync(redundant).Rooms.Join[r.ID]
	wantState(t, "state with heroes", got.stateText(), "member(@alice)=join member(@carol)=join")
}

// Who comes back is told who moved meanwhile, of members that were told before.
func TestLazyMembersOfOneWhoComesBack(t *testing.T) {
	t.Parallel()
	const lazy = `{"room":{"timeline":{"limit":1},"state":{"lazy_load_members":true}}}`
	for what, away := range map[string]func(alice, bob, carol *person, r storage.Room) (told string){
		"gone": func(alice, bob, carol *person, r storage.Room) string {
			bob.act(r, "leave", nil)
			bob.sync(lazy)
			carol.act(r, "leave", nil)
			return ""
		},
		"invited again": func(alice, bob, carol *person, r storage.Room) string {
			carol.act(r, "leave", nil)
			bob.act(r, "leave", nil)
			alice.act(r, "invite", bob)
			bob.sync(lazy)
			return ""
		},
		"in and out": func(alice, bob, carol *person, r storage.Room) string {
			bob.act(r, "leave", nil)
			bob.sync(lazy)
			carol.act(r, "leave", nil)
			bob.act(r, "join", nil)
			bob.act(r, "leave", nil)
			return bob.sync(lazy).Rooms.Leave[r.ID].stateText()
		},
	} {
		w := newWorld(t)
		alice, bob, carol := w.person("alice"), w.person("bob"), w.person("carol")
		r := alice.public()
		alice.set(r, "m.room.name", "", `{"name":"N"}`) // no heroes
		bob.act(r, "join", nil)
		carol.act(r, "join", nil)
		carol.say(r, "hi")
		bob.sync(lazy)
		got := away(alice, bob, carol, r)
		bob.act(r, "join", nil)
		if got += bob.sync(lazy).Rooms.Join[r.ID].stateText(); !strings.Contains(got, "member(@carol)=leave") {
			t.Errorf("%s: the state is %s, and carol has left", what, got)
		}
	}
}

const redundant = `{"room":{"state":{"lazy_load_members":true,"include_redundant_members":true}}}`

// A member is told once to who loads lazily, and again only where that answer
// may not have arrived, where the member moved, and on request.
func TestRedundantMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.person("alice"), w.person("bob")
	r := alice.public()
	alice.set(r, "m.room.name", "", `{"name":"N"}`) // no heroes
	bob.act(r, "join", nil)
	alice.say(r, "a")
	const lazy = `{"room":{"timeline":{"limit":1},"state":{"lazy_load_members":true}}}`
	alice.sync(lazy)
	n := 0
	says := func(what, filter, members string, how ...func(*Request)) {
		t.Helper()
		n++
		bob.say(r, fmt.Sprint(n))
		got := alice.sync(filter, how...).Rooms.Join[r.ID]
		want(t, "timeline", got.timeline(), fmt.Sprintf("message=%d", n))
		state := got.State
		if state == nil {
			state = got.After
		}
		wantState(t, what, sorted(state.Events), members)
	}
	const member = "member(@bob)=join"
	says("the first time", lazy, member)
	says("the next time", lazy, "")
	says("with state_after", lazy, "", stateAfter)
	says("on request", redundant, member)
	says("after that request", lazy, "")

	// An answer that did not arrive told nothing.
	bob.act(r, "leave", nil)
	bob.act(r, "join", nil)
	alice.act(r, "kick", bob)
	alice.sync(lazy)
	bob.act(r, "join", nil)
	says("after an absence", lazy, member)
	carol := w.person("carol")
	carol.act(r, "join", nil)
	alice.sync(`{"room":{"timeline":{"limit":1,"not_types":["m.room.member"]},"state":{"lazy_load_members":true,"not_types":["m.room.member"]}}}`)
	carol.say(r, "c")
	since := alice.since
	for _, what := range []string{"carol", "carol again, as the answer was lost"} {
		alice.since = since
		wantState(t, what, alice.sync(lazy).Rooms.Join[r.ID].stateText(), "member(@carol)=join")
	}
	carol.say(r, "d")
	wantState(t, "carol, who is known", alice.sync(lazy).Rooms.Join[r.ID].stateText(), "")
	carol.say(r, "e")
	alice.since = since
	wantState(t, "carol, to who went back", alice.sync(lazy).Rooms.Join[r.ID].stateText(), "member(@carol)=join")

	// A filter that hides a membership leaves it untold.
	says("bob, to who went back", `{"room":{"state":{"lazy_load_members":true,"not_senders":["@bob:test"]}}}`, "")
	says("bob, once he is not hidden", lazy, member)
	// Two clients with the token of one device, told different things at one time.
	alice.sync(lazy, first)
	quiet := alice.since
	alice.sync(`{"room":{"timeline":{"limit":20},"state":{"lazy_load_members":true}}}`, first)
	alice.since = quiet
	carol.say(r, "f")
	wantState(t, "carol, whom the other client knows", alice.sync(lazy).Rooms.Join[r.ID].stateText(), "member(@carol)=join")
	// Who joins anew is told of everybody.
	alice.act(r, "leave", nil)
	alice.sync(lazy)
	alice.act(r, "join", nil)
	says("bob, in a room that was entered", lazy, "create guest_access history_visibility join_rules member(@alice)=join "+member+" name=N power_levels")
}

// What is remembered of members is bounded, and what is not remembered is told.
func TestToldMembersAreBounded(t *testing.T) {
	t.Parallel()
	var m toldMembers
	check := func() {
		t.Helper()
		size := 0
		for _, d := range m.devices {
			size += d.size()
		}
		if size != m.size || size > maxToldMembers {
			t.Fatalf("%d things are remembered and %d are counted, of at most %d", size, m.size, maxToldMembers)
		}
	}
	tell := func(device, at int64, events int) *telling {
		told := m.begin(device, at)
		for range events {
			told.told = append(told.told, storage.EventNum(len(told.told)+1))
		}
		told.sent()
		check()
		return told
	}
	for device := range int64(50) {
		at := int64(0)
		for range 3 {
			at = tell(device, at, maxToldMembers/20).answer
		}
	}
	if at := tell(100, 0, maxToldMembers+1).answer; m.begin(100, at).has(1) {
		t.Error("more is remembered than there is room for")
	}
	at := tell(200, 0, 2).answer
	old, now := m.begin(200, at), m.begin(200, at)
	if old.has(1) || !now.has(2) {
		t.Error("of two requests of a device, not the last alone goes on")
	}
	old.sent()
	if m.begin(200, old.answer).has(1) {
		t.Error("a request that another overtook was counted")
	}
	check()
}

// The summary is told when it changes: counts, and who gives an unnamed room
// its name, but never the user.
func TestSummary(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob, carol := w.person("alice"), w.person("bob"), w.person("carol")
	r := alice.public()
	alice.act(r, "invite", bob)
	carol.act(r, "join", nil)
	summary := func(heroes string, joined, invited int) {
		t.Helper()
		s := alice.sync("").Rooms.Join[r.ID].Summary
		if s == nil {
			t.Fatal("no summary")
		}
		got := ""
		for _, h := range s.Heroes {
			got += string(h) + " "
		}
		if got != heroes || s.Joined != joined || s.Invited != invited {
			t.Errorf("got %q %d %d, want %q %d %d", got, s.Joined, s.Invited, heroes, joined, invited)
		}
	}
	summary("@bob:test @carol:test ", 2, 1)
	alice.say(r, "x")
	if s := alice.sync("").Rooms.Join[r.ID].Summary; s != nil {
		t.Errorf("a message changed the summary to %+v", s)
	}
	bob.act(r, "join", nil)
	summary("@carol:test @bob:test ", 3, 0)
	carol.act(r, "leave", nil)
	bob.act(r, "leave", nil)
	summary("@carol:test @bob:test ", 1, 0)
	alice.set(r, "m.room.name", "", `{"name":"N"}`)
	summary("", 1, 0)
}
