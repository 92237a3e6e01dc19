package room

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// TestForksAtRandom has local users and another server act in a room at once,
// the latter on any events it likes, late and twice. At every moment the
// current state must be the resolved state after the extremities.
func TestForksAtRandom(t *testing.T) {
	t.Parallel()
	versions := matrix.RoomVersions()
	for seed := range storagetest.Scale(12) {
		v := versions[seed%len(versions)]
		t.Run(fmt.Sprintf("seed %d version %s", seed, v), func(t *testing.T) {
			t.Parallel()
			f := &forks{peer: newWorld(t).peer(), users: []matrix.UserID{alice, bob, carol, xenia, yuri}}
			f.room, _ = f.shared(v)
			f.run(uint64(seed))
		})
	}
}

// forks is one random run.
type forks struct {
	*peer
	room  storage.Room
	users []matrix.UserID

	mu       sync.Mutex // guards the counts
	softFail int
	rejected int
	accepted int
}

func (f *forks) run(seed uint64) {
	const each = 20
	var wg sync.WaitGroup
	start := func(n uint64, fn func(*rand.Rand)) {
		rng := rand.New(rand.NewPCG(seed, n))
		wg.Go(func() {
			for range each {
				fn(rng)
			}
		})
	}
	start(1, f.local)
	start(2, f.local)
	start(3, f.foreign)
	start(4, f.foreign)
	start(5, func(*rand.Rand) { f.sound(f.room) })
	wg.Wait()
	f.sound(f.room)
	f.send(f.room, message(alice, "the end"))
	f.sound(f.room)
	f.read(func(rx *storage.Rx) error { return befores(rx, f.room) })
	f.tb.Logf("%d accepted, %d soft-failed, %d rejected", f.accepted, f.softFail, f.rejected)
}

// local does something as a local user; a refusal is fine.
func (f *forks) local(rng *rand.Rand) {
	sender := f.users[rng.IntN(3)]
	if _, err := f.trySend(f.room, f.draft(rng, sender)); err != nil && !is(err, matrix.Forbidden) && !is(err, matrix.NotFound) {
		f.tb.Errorf("send: %v", err)
	}
}

// foreign has an event received that was made on one to three events of the room.
func (f *forks) foreign(rng *rand.Rand) {
	var parents []storage.Event
	f.read(func(rx *storage.Rx) error {
		known, err := all(rx, f.room)
		if err != nil {
			return err
		}
		if rng.IntN(2) == 0 {
			parents, err = rx.Extremities(f.room.Num)
			parents = parents[:min(len(parents), 3)]
			return err
		}
		for range 1 + rng.IntN(2) {
			recent := known[max(0, len(known)-12):]
			if e := recent[rng.IntN(len(recent))]; len(without([]storage.Event{e}, parents)) > 0 {
				parents = append(parents, e)
			}
		}
		return nil
	})
	ev := f.make(f.room, f.draft(rng, f.users[3+rng.IntN(2)]), parents...)
	for range 1 + rng.IntN(2) {
		out, err := f.world.rooms.Receive(context.Background(), ev)
		if err != nil {
			f.tb.Errorf("receive: %v", err)
			return
		}
		f.count(out)
	}
}

func (f *forks) count(out Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !out.New:
	case out.Event.SoftFailed:
		f.softFail++
	case out.Event.Standing != uint8(rules.Accepted):
		f.rejected++
	default:
		f.accepted++
	}
}

// draft is something a user may or may not do.
func (f *forks) draft(rng *rand.Rand, sender matrix.UserID) Draft {
	other := f.users[1+rng.IntN(len(f.users)-1)]
	number := rng.IntN(1_000_000)
	switch rng.IntN(18) {
	case 0, 1:
		return setting(sender, typeName, "", content("name", number))
	case 2, 10, 11, 12:
		return setting(sender, typeTopic, "", content("topic", number))
	case 3:
		if sender != alice { // who has the last word
			return member(sender, sender, matrix.MembershipLeave)
		}
	case 4, 5, 13, 14:
		return member(sender, sender, matrix.MembershipJoin)
	case 6:
		return member(sender, other, matrix.MembershipBan)
	case 7:
		return member(sender, other, matrix.MembershipLeave)
	case 8:
		return setting(sender, matrix.TypeJoinRules, "", content("join_rule", []string{"public", "public", "invite"}[number%3]))
	case 9:
		return f.levels(sender, number)
	}
	return message(sender, fmt.Sprint(number))
}

// levels gives some users some power.
func (f *forks) levels(sender matrix.UserID, number int) Draft {
	users := map[matrix.UserID]int{bob: 50, xenia: 50}
	if !f.room.Version.PrivilegedCreators {
		users[alice] = 100
	}
	users[f.users[1+number%4]] = 10 * (number % 6)
	return setting(sender, matrix.TypePowerLevels, "", content("users", users, "events", map[string]int{typeTopic: number % 50}))
}

// TestResolutionIsAtomic has the COMMIT of a received event fail: nothing of
// it may be left.
func TestResolutionIsAtomic(t *testing.T) {
	t.Parallel()
	p := newWorld(t).peer()
	room, root := p.shared("10")
	p.send(room, setting(alice, typeName, "", content("name", "ours")))
	ev := p.make(room, setting(xenia, typeTopic, "", content("topic", "theirs")), root)
	before := ids(p.leaves(room))
	storagetest.FailCommit(t, p.store)
	if _, err := p.world.rooms.Receive(t.Context(), ev); err == nil {
		t.Fatal("received through a COMMIT that failed")
	}
	if got := ids(p.leaves(room)); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("extremities %v, want %v", got, before)
	}
	p.read(func(rx *storage.Rx) error {
		if _, err := rx.Event(ev.ID()); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("the event is there: %v", err)
		}
		return nil
	})
	p.sound(room)
	if out, err := p.world.rooms.Receive(t.Context(), ev); err != nil || !out.New {
		t.Errorf("again: %+v, %v", out, err)
	}
	p.sound(room)
}

// An accepted event ends what it comes after, also where it does by way of one
// that was refused: an ancestor is no other branch, and undoes nothing.
func TestAncestorsBehindRefusedEvents(t *testing.T) {
	t.Parallel()
	for _, version := range []matrix.RoomVersion{"1", "10", "12"} {
		p := newWorld(t).peer()
		room, before := p.shared(version)
		topic := func(text string, ts int64) Draft {
			d := setting(xenia, typeTopic, "", content("topic", text))
			d.TS = ts
			return d
		}
		old := p.accept(room, topic("old", 5000), before)
		ban := p.accept(room, member(alice, yuri, matrix.MembershipBan), before)
		refused := p.give(room, message(yuri, "S"), old) // softly: the branch has no ban
		again := p.give(room, message(yuri, "S"), refused.Event)
		if !refused.Event.SoftFailed || !again.Event.SoftFailed {
			t.Fatalf("version %s: %+v, %+v", version, refused, again)
		}
		now := p.accept(room, topic("new", 4000), again.Event)
		if got, want := ids(p.leaves(room)), ids([]storage.Event{ban, now}); !slices.Equal(got, want) {
			t.Errorf("version %s: the extremities are %v, want %v", version, got, want)
		}
		if got := string(p.state(room, typeTopic, "").Content()); got != `{"topic":"new"}` {
			t.Errorf("version %s: the topic is %s", version, got)
		}
		p.sound(room)
	}
}
