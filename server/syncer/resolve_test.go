package syncer

import (
	"testing"

	"hearth/storage"
	"hearth/storage/matrix"
)

// resolveTo has resolution decide for an earlier state of the room.
func (w *world) resolveTo(r storage.Room, state storage.StateNum) {
	w.t.Helper()
	w.write(func(tx *storage.Tx) error {
		now, err := tx.RoomByNum(r.Num)
		if err != nil {
			return err
		}
		_, err = tx.SetCurrentState(now, state, tx.NextPos())
		tx.News(storage.News{Rooms: []matrix.RoomID{r.ID}})
		return err
	})
}

func (w *world) stateOf(r storage.Room) (s storage.StateNum) {
	w.t.Helper()
	err := w.store.Read(w.t.Context(), "test", func(rx *storage.Rx) error {
		now, err := rx.RoomByNum(r.Num)
		s = now.State
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// An event that resolution decided against is not in the timeline of a client
// that would take it for the state; it is in a gap. With state_after it is told
// where it was sent.
func TestOverruledInTimeline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.person("alice")
	r := alice.public()
	alice.set(r, "m.room.name", "", `{"name":"right"}`)
	alice.sync("")
	since := alice.since
	before := w.stateOf(r)
	alice.say(r, "1")
	alice.set(r, "m.room.name", "", `{"name":"wrong"}`)
	alice.say(r, "2")
	w.resolveTo(r, before)
	alice.say(r, "3")
	got := alice.sync("").Rooms.Join[r.ID]
	want(t, "timeline", got.timeline(), "message=2 message=3")
	wantState(t, "state", got.stateText(), "")
	if !got.Timeline.Limited {
		t.Error("the gap is not told")
	}
	alice.since = since
	got = alice.sync("", stateAfter).Rooms.Join[r.ID]
	want(t, "timeline with state_after", got.timeline(), "message=1 name=wrong message=2 message=3")
	wantState(t, "state_after", got.afterText(), "")
	got = alice.sync("", first).Rooms.Join[r.ID]
	want(t, "first timeline", got.timeline(), "message=2 message=3")
	wantState(t, "first state", got.stateText(), freshState+" name=right")
}

// The newest event is overruled: there is a gap and nothing after it.
func TestOverruledAtEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.person("alice")
	r := alice.public()
	alice.sync("")
	before := w.stateOf(r)
	alice.set(r, "m.room.name", "", `{"name":"wrong"}`)
	w.resolveTo(r, before)
	got := alice.sync("")
	only(t, got, 1, 0, 0, 0)
	want(t, "timeline", got.Rooms.Join[r.ID].timeline(), "")
	if !got.Rooms.Join[r.ID].Timeline.Limited {
		t.Error("the gap is not told")
	}
	only(t, alice.sync(""), 0, 0, 0, 0)
}

// Resolution brings back what the client was told otherwise: no event of the
// timeline says so, and the state does.
func TestBroughtBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.person("alice")
	r := alice.public()
	alice.set(r, "m.room.name", "", `{"name":"A"}`)
	before := w.stateOf(r)
	alice.set(r, "m.room.name", "", `{"name":"B"}`)
	alice.sync("")
	since := alice.since
	w.resolveTo(r, before)
	got := alice.sync("").Rooms.Join[r.ID]
	want(t, "timeline", got.timeline(), "")
	wantState(t, "state", got.stateText(), "name=A")
	alice.since = since
	alice.say(r, "1")
	got = alice.sync("", stateAfter).Rooms.Join[r.ID]
	want(t, "timeline", got.timeline(), "message=1")
	wantState(t, "state_after", got.afterText(), "name=A")
}

// Resolution undoes a join: the room is left, without an event that says so in
// the state, which has none of the user any more.
func TestMembershipVanished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.person("alice"), w.person("bob")
	r := alice.public()
	before := w.stateOf(r)
	bob.act(r, "join", nil)
	bob.sync("")
	alice.say(r, "1")
	w.resolveTo(r, before)
	got := bob.sync("")
	only(t, got, 0, 0, 0, 1)
	want(t, "timeline", got.Rooms.Leave[r.ID].timeline(), "message=1")
	only(t, bob.sync(""), 0, 0, 0, 0)
	only(t, bob.sync(`{"room":{"include_leave":true}}`, first), 0, 0, 0, 1)
}
