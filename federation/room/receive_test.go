package room

import (
	"context"
	"errors"
	"slices"
	"testing"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

var tested = []matrix.RoomVersion{"1", "2", "3", "6", "10", "12"}

// TestFork has both servers send after the same event, and a local event merge
// what came of it.
func TestFork(t *testing.T) {
	t.Parallel()
	for _, v := range tested {
		p := newWorld(t).peer()
		room, root := p.shared(v)
		p.send(room, setting(alice, typeName, "", content("name", "ours")))
		p.accept(room, setting(xenia, typeTopic, "", content("topic", "theirs")), root)
		leaves := p.leaves(room)
		if len(leaves) != 2 {
			t.Fatalf("%s: %d extremities, want 2", v, len(leaves))
		}
		p.sound(room)
		if p.state(room, typeName, "") == nil || p.state(room, typeTopic, "") == nil {
			t.Errorf("%s: the state of one branch is missing", v)
		}
		ev := p.send(room, message(bob, "both"))
		if got := slices.Sorted(slices.Values(ev.PrevEvents())); !slices.Equal(got, ids(leaves)) {
			t.Errorf("%s: parents %v, want %v", v, got, ids(leaves))
		}
		if got := p.leaves(room); len(got) != 1 || got[0].Num != ev.Num {
			t.Errorf("%s: extremities %v, want the message", v, ids(got))
		}
		p.sound(room)
		p.read(func(rx *storage.Rx) error { return parses(rx, room) })
	}
}

// TestSoftFailure plays the example of the specification: a user who evades a
// ban, and another server that refers to it.
func TestSoftFailure(t *testing.T) {
	t.Parallel()
	for _, v := range tested {
		p := newWorld(t).peer()
		room, a := p.shared(v)
		b := p.send(room, member(alice, yuri, matrix.MembershipBan))
		c := p.give(room, setting(yuri, typeTopic, "", content("topic", "evaded")), a)
		if !c.Event.SoftFailed || c.Event.Pos != 0 || !errors.Is(c.Reason, &rules.Refusal{Rule: rules.SenderNotJoined}) {
			t.Fatalf("%s: %+v, want a soft failure", v, c)
		}
		if got := p.leaves(room); len(got) != 1 || got[0].Num != b.Num {
			t.Fatalf("%s: extremities %v, want the ban", v, ids(got))
		}
		if p.state(room, typeTopic, "") != nil {
			t.Errorf("%s: a soft-failed event is in the state", v)
		}
		p.sound(room)
		d := p.accept(room, message(xenia, "refers to both"), b, c.Event)
		if got := p.leaves(room); len(got) != 1 || got[0].Num != d.Num {
			t.Errorf("%s: extremities %v, want the last event", v, ids(got))
		}
		p.sound(room)
	}
}

// TestRejected sends what the state before it, or its own auth events, refuse.
func TestRejected(t *testing.T) {
	t.Parallel()
	for _, v := range tested {
		p := newWorld(t).peer()
		room, root := p.shared(v)
		left := p.accept(room, member(yuri, yuri, matrix.MembershipLeave), root)
		// Built on the event before yuri left, so its auth events are fine; but
		// it names the leave as its parent.
		d := setting(yuri, typeTopic, "", content("topic", "too late"))
		ev := p.transplant(p.make(room, d, root), room.Version, left)
		out, err := p.world.rooms.Receive(t.Context(), ev)
		if err != nil || out.Event.Standing != uint8(rules.RejectedByState) || out.Event.Pos != 0 {
			t.Errorf("%s: %+v, %v; want a rejection by state", v, out, err)
		}
		stranger := p.give(room, setting("@zoe:peer.example", typeTopic, "", content("topic", "hi")), left)
		if stranger.Event.Standing != uint8(rules.RejectedByAuth) {
			t.Errorf("%s: %+v; want a rejection by auth events", v, stranger)
		}
		if got := p.leaves(room); len(got) != 1 || got[0].Num != left.Num {
			t.Errorf("%s: extremities %v, want the leave", v, ids(got))
		}
		// An event after a rejected one is judged as any other.
		p.accept(room, message(xenia, "fine"), stranger.Event, out.Event)
		if got := p.state(room, typeTopic, ""); got != nil {
			t.Errorf("%s: the topic of a rejected event is in the state", v)
		}
		p.sound(room)
	}
}

// transplant gives an event another parent, signed anew.
func (p *peer) transplant(ev *matrix.Event, v *matrix.Version, parent storage.Event) *matrix.Event {
	p.tb.Helper()
	t := matrix.Template{
		RoomID: ev.RoomID(), Type: ev.Type(), Sender: ev.Sender(), Content: ev.Content(), OriginServerTS: ev.OriginServerTS(),
		Depth: ev.Depth() + 1, PrevEvents: []matrix.EventID{parent.ID()}, AuthEvents: ev.AuthEvents(),
		EventID: newEventID(v, peerName), Hashes: map[matrix.EventID][32]byte{parent.ID(): parent.ReferenceHash()},
	}
	if key, ok := ev.StateKey(); ok {
		t.StateKey = &key
	}
	p.read(func(rx *storage.Rx) error {
		auth, err := rx.Events(ev.AuthEvents())
		for _, a := range auth {
			t.Hashes[a.ID()] = a.ReferenceHash()
		}
		return err
	})
	out, err := matrix.Build(v, t, p.rooms.signer())
	if err != nil {
		p.tb.Fatal(err)
	}
	return out
}

// TestReceiveTwice receives an event again, also at once.
func TestReceiveTwice(t *testing.T) {
	t.Parallel()
	p := newWorld(t).peer()
	room, root := p.shared("12")
	ev := p.make(room, message(xenia, "once"), root)
	results := make(chan Outcome, 8)
	for range cap(results) {
		go func() {
			out, err := p.world.rooms.Receive(context.Background(), ev)
			if err != nil {
				t.Error(err)
			}
			results <- out
		}()
	}
	fresh := 0
	for range cap(results) {
		if out := <-results; out.New {
			fresh++
		} else if out.Event.ID() != ev.ID() {
			t.Errorf("outcome is of %s", out.Event.ID())
		}
	}
	if fresh != 1 {
		t.Errorf("new %d times, want once", fresh)
	}
	p.sound(room)
}

// TestMissing receives events whose parents or auth events are not here.
func TestMissing(t *testing.T) {
	t.Parallel()
	p := newWorld(t).peer()
	room, root := p.shared("10")
	first := p.make(room, message(xenia, "one"), root)
	lost := storage.Event{Event: first, Num: 1 << 40, Room: room.Num, StateBefore: root.StateBefore}
	second := p.transplant(first, room.Version, lost)
	var missing *MissingError
	if _, err := p.world.rooms.Receive(t.Context(), second); !errors.As(err, &missing) || !slices.Equal(missing.Parents, []matrix.EventID{first.ID()}) {
		t.Fatalf("error %v, want that the parent is missing", err)
	}
	for _, ev := range []*matrix.Event{first, second} {
		if out, err := p.world.rooms.Receive(t.Context(), ev); err != nil || !out.New {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	other, _ := p.shared("10")
	foreign := p.make(other, message(xenia, "other"), p.leaves(other)...)
	moved := p.transplant(foreign, room.Version, root) // parent of one room, ID of the other
	if _, err := p.world.rooms.Receive(t.Context(), moved); !is(err, matrix.BadJSON) {
		t.Errorf("event with a parent of another room: %v", err)
	}
	p.sound(room)
	p.sound(other)
}

// TestForeignAuth receives an event that is authorized by events of another
// room, where its sender has all power.
func TestForeignAuth(t *testing.T) {
	t.Parallel()
	for _, v := range []matrix.RoomVersion{"10", "12"} {
		p := newWorld(t).peer()
		room, root := p.shared(v)
		other := p.create(Creation{Creator: alice, Version: v, Preset: PresetPublic})
		p.accept(other, member(yuri, yuri, matrix.MembershipJoin), p.leaves(other)...)
		d := setting(yuri, matrix.TypeJoinRules, "", content("join_rule", "public"))
		ev := p.make(other, d, p.leaves(other)...)
		tmpl := matrix.Template{
			RoomID: room.ID, Type: d.Type, StateKey: d.StateKey, Sender: yuri, Content: d.Content, Depth: 50,
			PrevEvents: []matrix.EventID{root.ID()}, AuthEvents: ev.AuthEvents(), OriginServerTS: 1,
		}
		bad, err := matrix.Build(room.Version, tmpl, p.rooms.signer())
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.world.rooms.Receive(t.Context(), bad)
		if err != nil || out.Event.Standing != uint8(rules.RejectedByAuth) {
			t.Errorf("%s: %+v, %v; want a rejection by auth events", v, out, err)
		}
		p.sound(room)
	}
}

// TestRedactions redacts in both orders, and what may not be redacted.
func TestRedactions(t *testing.T) {
	t.Parallel()
	for _, v := range append(tested, "11") {
		p := newWorld(t).peer()
		room, root := p.shared(v)
		redact := func(from matrix.UserID, what matrix.EventID) Draft {
			return Draft{Type: matrix.TypeRedaction, Sender: from, Redacts: what, Content: content("reason", "bad")}
		}
		// The redaction comes before what it names.
		target := p.make(room, message(xenia, "secret"), root)
		red := p.give(room, redact(xenia, target.ID()), root)
		if red.Event.Pos != 0 || red.Reason != nil {
			t.Fatalf("%s: a redaction of nothing: %+v", v, red)
		}
		out, err := p.world.rooms.Receive(t.Context(), target)
		if err != nil || !out.New {
			t.Fatalf("%s: %+v, %v", v, out, err)
		}
		p.redacted(t, target.ID(), true)
		// Own events, and those of others by power or not at all.
		mine := p.send(room, message(bob, "mine"))
		if _, err := p.trySend(room, redact(carol, mine.ID())); err == nil {
			t.Errorf("%s: a stranger redacted an event", v)
		}
		p.mustAct((*Rooms).Join, room, Act{Sender: carol})
		if _, err := p.trySend(room, redact(carol, mine.ID())); !is(err, matrix.Forbidden) {
			t.Errorf("%s: carol redacts bob's event: %v", v, err)
		}
		if _, err := p.trySend(room, redact(carol, "$nothing")); !is(err, matrix.NotFound) {
			t.Errorf("%s: redaction of nothing: %v", v, err)
		}
		p.redacted(t, mine.ID(), false)
		ev := p.send(room, Draft{Type: matrix.TypeRedaction, Sender: bob, Content: content("redacts", mine.ID())})
		if ev.Redacts() != mine.ID() {
			t.Errorf("%s: redacts %q", v, ev.Redacts())
		}
		p.redacted(t, mine.ID(), true)
		// yuri has no power over bob's events. Until version 2 the rules say
		// so, later the redaction has no effect.
		other := p.send(room, message(bob, "other"))
		no := p.give(room, redact(yuri, other.ID()), other)
		if no.Event.Pos != 0 {
			t.Errorf("%s: a redaction without effect was told: %+v", v, no)
		}
		p.redacted(t, other.ID(), false)
		p.accept(room, redact(xenia, other.ID()), p.leaves(room)...)
		p.redacted(t, other.ID(), true)
		p.sound(room)
	}
}

func (w *world) redacted(t *testing.T, id matrix.EventID, want bool) {
	t.Helper()
	w.read(func(rx *storage.Rx) error {
		ev, err := rx.Event(id)
		if err == nil && (ev.RedactedBy != 0) != want {
			t.Errorf("%s %s: redacted %v, want %v", ev.Type(), id, !want, want)
		}
		return err
	})
}

// TestOutlier receives an event that is here already beside the graph.
func TestOutlier(t *testing.T) {
	t.Parallel()
	p := newWorld(t).peer()
	room, root := p.shared("11")
	ev := p.make(room, setting(xenia, typeTopic, "", content("topic", "t")), root)
	p.write(func(tx *storage.Tx) error {
		_, err := tx.AddEvent(room, storage.NewEvent{Event: ev, Outlier: true, Generation: 7})
		return err
	})
	out, err := p.world.rooms.Receive(t.Context(), ev)
	if err != nil || !out.New || out.Event.Outlier || out.Event.Pos <= 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	if got := p.state(room, typeTopic, ""); got == nil || got.ID() != ev.ID() {
		t.Error("the outlier did not come into the state")
	}
	p.sound(room)
}

// TestManyExtremities sends to a room with more extremities than an event may
// name as parents.
func TestManyExtremities(t *testing.T) {
	t.Parallel()
	for _, v := range []matrix.RoomVersion{"1", "10", "12"} {
		p := newWorld(t).peer()
		room, root := p.shared(v)
		for i := range 2*matrix.MaxPrevEvents + 5 {
			d := message(xenia, "fork")
			if i%3 == 0 {
				d = setting(xenia, typeTopic, "", content("topic", i))
			}
			d.TS = int64(1000 - i) // so that the state after all is not that after the last ones
			p.accept(room, d, root)
		}
		p.sound(room)
		before := len(p.leaves(room))
		if err := p.store.Write(t.Context(), "no plan", func(tx *storage.Tx) error {
			_, err := p.world.rooms.Send(tx, room, message(bob, "x"))
			return err
		}); err == nil {
			t.Fatal("sent without a plan")
		}
		ev := p.send(room, setting(bob, typeTopic, "", content("topic", "merged")))
		if len(ev.PrevEvents()) != matrix.MaxPrevEvents {
			t.Errorf("%s: %d parents", v, len(ev.PrevEvents()))
		}
		p.sound(room)
		if got := len(p.leaves(room)); got != before-matrix.MaxPrevEvents+1 {
			t.Errorf("%s: %d extremities, had %d", v, got, before)
		}
		p.mustAct((*Rooms).Join, room, Act{Sender: carol})
		p.sound(room)
		p.send(room, message(carol, "hello"))
		p.sound(room)
		if got := len(p.leaves(room)); got != 1 {
			t.Errorf("%s: %d extremities in the end, want 1", v, got)
		}
		p.read(func(rx *storage.Rx) error { return befores(rx, room) })
	}
}

// TestNeitherBranch resolves two branches to power levels that are in neither
// of their states, but in the auth chain of one: those of the other branch
// ban who sent its later ones.
func TestNeitherBranch(t *testing.T) {
	t.Parallel()
	for _, v := range []matrix.RoomVersion{"2", "6", "12"} {
		p := newWorld(t).peer()
		room, root := p.shared(v)
		levels := func(sender matrix.UserID, ts int64, topic int) Draft {
			users := map[matrix.UserID]int{bob: 50, xenia: 50}
			if v != "12" {
				users[alice] = 100
			}
			d := setting(sender, matrix.TypePowerLevels, "", content("users", users, "events",
				map[string]int{typeTopic: topic, matrix.TypePowerLevels: 50}))
			d.TS = ts
			return d
		}
		one := p.accept(room, levels(alice, 3, 3), root)
		two := p.accept(room, levels(xenia, 4, 4), one)
		two = p.accept(room, levels(xenia, 5, 5), two) // one is in no state that is read
		other := p.accept(room, levels(alice, 1, 1), root)
		ban := member(alice, xenia, matrix.MembershipBan)
		ban.TS = 2
		p.accept(room, ban, other)
		if got := len(p.leaves(room)); got != 2 {
			t.Fatalf("%s: %d extremities, want 2", v, got)
		}
		p.sound(room)
		if got := p.state(room, matrix.TypePowerLevels, "").ID(); got != one.ID() {
			t.Errorf("%s: power levels %s, want %s; later ones are %s and %s", v, got, one.ID(), two.ID(), other.ID())
		}
	}
}

// TestPlanHolds looks at which changes of a room make a plan void.
func TestPlanHolds(t *testing.T) {
	t.Parallel()
	p := newWorld(t).peer()
	room, root := p.shared("12")
	ours := p.send(room, setting(alice, typeName, "", content("name", "ours")))
	holds := func(pl *plan) (ok bool) {
		leaves := p.leaves(room)
		p.read(func(rx *storage.Rx) error {
			now, err := rx.RoomByNum(room.Num)
			ok = pl.holds(now, leaves)
			return err
		})
		return ok
	}
	plan := func(parents ...storage.Event) (pl *plan) {
		ev := p.make(room, setting(xenia, typeTopic, "", content("topic", "theirs")), parents...)
		p.read(func(rx *storage.Rx) (err error) {
			pl, _, err = p.world.rooms.planReceived(rx, ev)
			return err
		})
		return pl
	}
	fork, child := plan(root), plan(ours)
	if !holds(fork) || !holds(child) {
		t.Fatal("a plan is void at once")
	}
	p.send(room, message(bob, "hi"))
	if holds(child) {
		t.Error("the plan of an event after the extremity holds, though there is another one")
	}
	if fork = plan(root); !holds(fork) {
		t.Fatal("a plan is void at once")
	}
	p.send(room, message(bob, "hi"))
	if !holds(fork) {
		t.Error("the plan of a fork is void after a message")
	}
	p.send(room, setting(bob, typeTopic, "", content("topic", "ours")))
	if holds(fork) {
		t.Error("the plan of a fork holds after a change of the state")
	}
	p.accept(room, message(xenia, "fork"), root)
	if fork = plan(root); !holds(fork) {
		t.Fatal("a plan is void at once")
	}
	p.send(room, message(bob, "merges"))
	if holds(fork) {
		t.Error("the plan of a third branch holds after the others were merged")
	}
}
