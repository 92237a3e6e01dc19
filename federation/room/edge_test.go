package room

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// TestHashMismatch receives an event whose content was changed on the way: it
// is taken in its redacted form.
func TestHashMismatch(t *testing.T) {
	t.Parallel()
	p := newWorld(t).peer()
	room, root := p.shared("11")
	ev := p.make(room, message(xenia, "true"), root)
	forged := bytes.Replace(ev.JSON(), []byte(`"body":"true"`), []byte(`"body":"lies"`), 1)
	bad, err := matrix.ParseEvent(room.Version, forged)
	if err != nil || bad.HashOK() {
		t.Fatalf("hash ok %v, %v", bad.HashOK(), err)
	}
	out, err := p.world.rooms.Receive(t.Context(), bad)
	if err != nil || !out.New || string(out.Event.Content()) != "{}" {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestSourceOtherRoom checks that resolution never sees events of other rooms.
func TestSourceOtherRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	room, other := w.create(Creation{Creator: alice}), w.create(Creation{Creator: alice})
	mine, foreign := w.leaves(room)[0], w.leaves(other)[0]
	w.read(func(rx *storage.Rx) error {
		s := &source{rx: rx, room: room.Num}
		list, err := s.Events([]matrix.EventID{foreign.ID(), mine.ID(), "$nothing"})
		if err != nil || list[0].Event != nil || list[1].Event == nil || list[2].Event != nil {
			t.Errorf("events %v, %v", list, err)
		}
		gens, err := s.Generations([]matrix.EventID{foreign.ID(), mine.ID(), "$nothing"})
		if err != nil || gens[0] != 0 || gens[1] != mine.Generation || gens[2] != 0 {
			t.Errorf("generations %v, %v", gens, err)
		}
		return nil
	})
}

// TestCacheRedacted checks that an event which was kept reads as redacted once it is.
func TestCacheRedacted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	room := w.create(Creation{Creator: alice, Name: "secret"})
	name := w.state(room, typeName, "")
	w.state(room, typeName, "")
	w.send(room, Draft{Type: matrix.TypeRedaction, Sender: alice, Redacts: name.ID()})
	for range 2 {
		if got := string(w.state(room, typeName, "").Content()); got != "{}" {
			t.Errorf("content %s after its redaction", got)
		}
	}
}

// TestCacheBound fills the cache far over its bound.
func TestCacheBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	room := w.create(Creation{Creator: alice})
	c := &w.rooms.cache
	c.limit = 64 << 10
	for i := range 100 {
		ev := w.send(room, message(alice, fmt.Sprintf("%04d%04096d", i, 0)))
		c.put(ev.Event, false)
		if c.get(ev.ID(), false) == nil || c.get(ev.ID(), true) != nil {
			t.Fatal("what was kept last is not there, or in a form it has not")
		}
	}
	var bytes int
	for _, generation := range []map[cacheKey]*matrix.Event{c.young, c.old} {
		for _, ev := range generation {
			bytes += cost(ev)
		}
	}
	if bytes > 2*c.limit || bytes == 0 {
		t.Errorf("%d bytes are kept, the bound is %d", bytes, 2*c.limit)
	}
}

// TestAwaited receives the parent of an event that came before it, as when a
// gap is filled: it is no forward extremity, and its own parents are none.
func TestAwaited(t *testing.T) {
	t.Parallel()
	p := newWorld(t).peer()
	room, root := p.shared("12")
	first := p.make(room, setting(xenia, typeTopic, "", content("topic", "first")), root)
	ghost := storage.Event{Event: first, Num: 1 << 40, Room: room.Num, StateBefore: root.StateBefore}
	second := p.transplant(p.make(room, message(xenia, "second"), root), room.Version, ghost)
	// The second event comes with the state before it from elsewhere.
	p.write(func(tx *storage.Tx) error {
		ev, err := tx.AddEvent(room, storage.NewEvent{Event: second, Place: storage.Live, Depth: 50, Generation: 5, StateBefore: p.stateOf(tx, room)})
		if err != nil {
			return err
		}
		return tx.SetExtremities(room.Num, []storage.EventNum{root.Num, ev.Num})
	})
	out, err := p.world.rooms.Receive(t.Context(), first)
	if err != nil || !out.New || out.Event.Pos <= 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	if got := p.leaves(room); len(got) != 1 || got[0].ID() != second.ID() {
		t.Errorf("extremities %v, want the event that named it", ids(got))
	}
	p.sound(room)
}

func (p *peer) stateOf(tx *storage.Tx, room storage.Room) storage.StateNum {
	now, err := tx.RoomByNum(room.Num)
	if err != nil {
		p.tb.Fatal(err)
	}
	return now.State
}

// TestRejectedInState has resolution bring an event into the state that this
// server rejected: a local event must not name it, or it would be rejected.
func TestRejectedInState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	room := w.create(Creation{Creator: alice, Version: "11", Preset: PresetPublic})
	rule := w.state(room, matrix.TypeJoinRules, "")
	w.read(func(rx *storage.Rx) error {
		room, err := rx.RoomByNum(room.Num)
		if err != nil {
			return err
		}
		state := w.rooms.current(rx, room.Num)
		bad := state.get(matrix.TypeJoinRules, "")
		bad.Standing = uint8(rules.RejectedByState)
		state.seen[rules.Key{Type: matrix.TypeJoinRules}] = bad
		leaves, err := rx.Extremities(room.Num)
		if err != nil {
			return err
		}
		ev, _, err := w.rooms.build(rx, room, state, leaves, member(bob, bob, matrix.MembershipJoin))
		// By its own auth events the room has no join rules, and so is closed.
		if !is(err, matrix.Forbidden) {
			t.Errorf("join by a rejected join rule: %v, want M_FORBIDDEN", err)
		}
		for _, id := range ev.AuthEvents() {
			if id == rule.ID() {
				t.Error("a rejected event is among the auth events")
			}
		}
		return nil
	})
}

// TestTooLarge sends content that fits no event.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	room := w.create(Creation{Creator: alice})
	for _, c := range []struct {
		d    Draft
		code matrix.Code
	}{
		{message(alice, string(bytes.Repeat([]byte("x"), matrix.MaxEventSize))), matrix.TooLarge},
		{setting(alice, "m.x", string(bytes.Repeat([]byte("k"), 256)), content()), matrix.TooLarge},
		{Draft{Type: "m.x", Sender: alice, Content: jsontext.Value(`[]`)}, matrix.BadJSON},
		{Draft{Type: "m.x", Sender: alice, Content: jsontext.Value(`{"a":1.5}`)}, matrix.BadJSON},
		{setting(alice, matrix.TypeMember, "nobody", content("membership", "invite")), matrix.InvalidParam},
		{Draft{Type: matrix.TypeRedaction, Sender: alice}, matrix.MissingParam},
		{setting(alice, matrix.TypePowerLevels, "", content("users", map[matrix.UserID]string{bob: "50"})), matrix.BadJSON},
	} {
		if _, err := w.trySend(room, c.d); !is(err, c.code) {
			t.Errorf("%s: %v, want %s", c.d.Type, err, c.code)
		}
	}
	w.sound(room)
}

// TestLock checks that a room's lock can be waited for in vain, and is gone afterwards.
func TestLock(t *testing.T) {
	t.Parallel()
	var l locks
	unlock, err := l.lock(t.Context(), "!a:x")
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.lock(t.Context(), "!b:x")
	if err != nil {
		t.Fatal(err)
	}
	other()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.lock(ctx, "!a:x"); err == nil {
		t.Fatal("locked twice")
	}
	unlock()
	if len(l.rooms) != 0 {
		t.Errorf("%d locks are left", len(l.rooms))
	}
}
