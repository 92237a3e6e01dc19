package storage_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

func idsOf(events []storage.Event) (ids []matrix.EventID) {
	for _, e := range events {
		ids = append(ids, e.ID())
	}
	return ids
}

// pages reads a room to its end, and counts each event once.
func (r *roomTest) pages(from storage.Cursor, backwards bool, limit int) (ids []matrix.EventID) {
	r.Helper()
	for {
		var events []storage.Event
		r.read(func(rx *storage.Rx) (err error) {
			events, from, err = rx.Timeline(r.num, from, backwards, limit)
			return err
		})
		ids = append(ids, idsOf(events)...)
		if len(events) < limit {
			return ids
		}
		if len(ids) > 1000 {
			r.Fatal("the pages do not end")
		}
	}
}

// TestTimelinePages pages through a room with a fork and backfilled events,
// while it grows.
func TestTimelinePages(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	r := newRoomTest(t, s, "11")
	base := r.message(alice, "base")
	var told []storage.Event
	fork := func(parent storage.Event, n int) storage.Event {
		e := r.draft("m.room.message", nil, bob, fmt.Sprintf(`{"body":"%d"}`, n), []storage.Event{parent})
		within(t, s, func(tx *storage.Tx) (err error) {
			parent, err = r.append(tx, e, []storage.Event{parent}, must[storage.Room](t)(tx.RoomByNum(r.num)).State, storage.NewEvent{Place: storage.Live})
			return err
		})
		told = append(told, parent)
		return parent
	}
	left, right := base, base
	for n := range 5 {
		left, right = fork(left, n), fork(right, 100+n)
	}
	var old storage.Event
	within(t, s, func(tx *storage.Tx) (err error) {
		e := r.draft("m.room.message", nil, bob, `{"body":"older"}`, nil)
		old, err = r.append(tx, e, nil, must[storage.Room](t)(tx.RoomByNum(r.num)).State, storage.NewEvent{Place: storage.Backfilled})
		return err
	})
	all := r.pages(storage.Cursor{}, true, 100)
	if len(all) != 14 || all[13] != old.ID() || all[0] != right.ID() || all[1] != left.ID() {
		t.Fatalf("%d events: %v", len(all), all)
	}
	forward := r.pages(storage.Cursor{}, false, 3)
	slices.Reverse(forward)
	if !slices.Equal(forward, all) {
		t.Errorf("forwards %v, want %v reversed", forward, all)
	}
	before := storage.Cursor{Before: s.Pos() + 1}
	for limit := 1; limit < 16; limit++ {
		r.message(alice, "meanwhile") // after the bound
		if got := r.pages(before, true, limit); !slices.Equal(got, all) {
			t.Errorf("by %d: %v, want %v", limit, got, all)
		}
	}
	// What came late into the middle of the graph is beyond the bound, too.
	fork(base, 200)
	if got := r.pages(before, true, 4); !slices.Equal(got, all) {
		t.Errorf("with a late fork: %v, want %v", got, all)
	}
	if got := r.pages(storage.Cursor{Before: told[0].Pos}, true, 2); len(got) != 4 || got[0] != base.ID() {
		t.Errorf("before %d: %v", told[0].Pos, got)
	}
	at := storage.Cursor{Depth: base.Depth, Pos: base.Pos}
	if got := r.pages(at, true, 2); !slices.Equal(got, all[11:]) {
		t.Errorf("behind base: %v, want %v", got, all[11:])
	}
}

// TestPageFromPosition begins at a position of the stream: neither what is
// newer nor how deep that is counts, but what was backfilled does, however deep.
func TestPageFromPosition(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	r := newRoomTest(t, s, "11")
	first := r.message(alice, "first")
	second := r.message(alice, "second")
	third := r.message(alice, "third")
	var deep storage.Event
	within(t, s, func(tx *storage.Tx) (err error) {
		e := r.draft("m.room.message", nil, bob, `{"body":"deep"}`, []storage.Event{third})
		deep, err = r.append(tx, e, []storage.Event{third}, must[storage.Room](t)(tx.RoomByNum(r.num)).State, storage.NewEvent{Place: storage.Backfilled})
		return err
	})
	if deep.Depth <= third.Depth {
		t.Fatalf("depth %d behind %d", deep.Depth, third.Depth)
	}
	got := r.pages(storage.Cursor{Before: second.Pos}, true, 1)
	if len(got) != 4 || got[0] != deep.ID() || got[1] != first.ID() {
		t.Errorf("before %d: %v, want %s, %s and two more", second.Pos, got, deep.ID(), first.ID())
	}
}

func TestRoomNews(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	r := newRoomTest(t, s, "11")
	after := s.Pos()
	var sent []storage.Event
	for n := range 5 {
		sent = append(sent, r.message(alice, fmt.Sprint(n)))
	}
	for _, c := range []struct {
		after, upto int64
		limit       int
		want        []storage.Event
		limited     bool
	}{
		{after, s.Pos(), 5, sent, false},
		{after, s.Pos(), 4, sent[1:], true},
		{sent[0].Pos, sent[3].Pos, 9, sent[1:4], false},
		{sent[4].Pos, s.Pos(), 9, nil, false},
		{after, s.Pos(), 0, nil, true},
	} {
		r.read(func(rx *storage.Rx) error {
			got, limited, err := rx.RoomNews(r.num, c.after, c.upto, c.limit)
			if err != nil || limited != c.limited || !slices.Equal(idsOf(got), idsOf(c.want)) {
				t.Errorf("news in (%d, %d], at most %d: %v, %v, %v", c.after, c.upto, c.limit, idsOf(got), limited, err)
			}
			return nil
		})
	}
}

func TestRoomsWithNews(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	rooms := make([]*roomTest, 130) // more than are looked at one by one
	for i := range rooms {
		rooms[i] = newRoomTest(t, s, "11")
		rooms[i].member(bob, bob, "join")
	}
	names := func(user matrix.UserID, after int64) (ids []matrix.RoomID) {
		t.Helper()
		rooms[0].read(func(rx *storage.Rx) error {
			for _, m := range must[[]storage.Membership](t)(rx.RoomsWithNews(user, after)) {
				if m.User != user || m.RoomID == "" {
					t.Errorf("membership %+v", m)
				}
				ids = append(ids, m.RoomID)
			}
			return nil
		})
		return ids
	}
	if got := names(alice, 0); len(got) != len(rooms) {
		t.Errorf("%d rooms since the start, want all", len(got))
	}
	since := s.Pos()
	rooms[3].message(alice, "hi")
	rooms[7].member(bob, bob, "leave")
	left := s.Pos()
	rooms[7].message(alice, "bob does not see this")
	ids := func(n ...int) (ids []matrix.RoomID) {
		for _, i := range n {
			ids = append(ids, rooms[i].id)
		}
		return ids
	}
	for _, c := range []struct {
		user  matrix.UserID
		after int64
		want  []matrix.RoomID
	}{
		{alice, since, ids(3, 7)}, {bob, since, ids(3, 7)}, {alice, left, ids(7)}, {bob, left, nil}, {carol, 0, nil},
	} {
		if got := names(c.user, c.after); !slices.Equal(got, c.want) {
			t.Errorf("news of %s after %d: %v, want %v", c.user, c.after, got, c.want)
		}
	}
	// The other way to find them must find the same.
	for i := range rooms[10:] {
		rooms[10+i].message(alice, "everywhere")
	}
	if got := names(bob, since); len(got) != 122 {
		t.Errorf("%d rooms of bob, want 122", len(got))
	}
	if got := names(bob, left); len(got) != 120 || slices.Contains(got, rooms[7].id) {
		t.Errorf("%d rooms of bob after he left one, want 120", len(got))
	}
}

func TestEventByTime(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	r := newRoomTest(t, s, "11")
	r.ts = 2_000_000_000_000
	a, b := r.message(alice, "a"), r.message(alice, "b")
	r.ts -= 1000
	c := r.message(alice, "by a slow clock")
	r.read(func(rx *storage.Rx) error {
		for _, q := range []struct {
			ts      int64
			forward bool
			want    storage.EventNum
		}{
			{a.OriginServerTS(), true, a.Num}, {a.OriginServerTS(), false, a.Num}, {a.OriginServerTS() + 1, true, b.Num},
			{a.OriginServerTS() - 1, false, c.Num}, {c.OriginServerTS() - 1, true, c.Num}, {1 << 52, false, b.Num},
		} {
			beside := storage.EventNum(0)
			if !q.forward {
				beside = math.MaxInt64
			}
			got := must[[]storage.Event](t)(rx.EventsByTime(r.num, q.ts, beside, q.forward, 1))
			if len(got) != 1 || got[0].Num != q.want {
				t.Errorf("event at %d (forward %v): %v, want %d", q.ts, q.forward, got, q.want)
			}
		}
		if after := must[[]storage.Event](t)(rx.EventsByTime(r.num, 1<<52, 0, true, 1)); len(after) != 0 {
			t.Errorf("after the last: %v", after)
		}
		return nil
	})
}
