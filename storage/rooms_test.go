package storage_test

import (
	"errors"
	"slices"
	"testing"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

func TestRooms(t *testing.T) {
	t.Parallel()
	for _, version := range []matrix.RoomVersion{"1", "3", "10", "12"} {
		t.Run(string(version), func(t *testing.T) {
			t.Parallel()
			s := storagetest.Open(t)
			r := newRoomTest(t, s, version)
			msg := r.message(alice, "hello")
			r.read(func(rx *storage.Rx) error {
				room := must[storage.Room](t)(rx.Room(r.id))
				if room.Version.ID != version || room.Num != r.num || room.LatestPos != msg.Pos || room.Joined != 1 {
					t.Errorf("room %+v", room)
				}
				e := must[storage.Event](t)(rx.Event(msg.ID()))
				if e.ID() != msg.ID() || string(e.JSON()) != string(msg.JSON()) || e.Num != msg.Num || e.Event.RoomID() != r.id {
					t.Errorf("event %+v", e)
				}
				create := must[storage.Event](t)(rx.CurrentState(r.num, matrix.TypeCreate, ""))
				if create.Event.RoomID() != r.id || create.StateBefore != 0 {
					t.Errorf("create event of %s, want %s", create.Event.RoomID(), r.id)
				}
				_, err := rx.Room("!other:test.example")
				if !errors.Is(err, storage.ErrNotFound) {
					t.Errorf("unknown room: %v", err)
				}
				return nil
			})
			err := s.Write(t.Context(), "again", func(tx *storage.Tx) error {
				_, err := tx.AddRoom(r.id, r.v)
				return err
			})
			if !errors.Is(err, storage.ErrConflict) {
				t.Errorf("a second room of the ID: %v", err)
			}
		})
	}
}

func TestEventLists(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	r := newRoomTest(t, s, "11")
	a, b := r.message(alice, "a"), r.message(alice, "b")
	r.read(func(rx *storage.Rx) error {
		list := must[[]storage.Event](t)(rx.Events([]matrix.EventID{b.ID(), "$none", a.ID(), b.ID()}))
		if len(list) != 4 || list[0].Num != b.Num || list[1].Event != nil || list[1].Num != 0 || list[2].Num != a.Num || list[3].Num != b.Num {
			t.Errorf("events by ID: %v", list)
		}
		list = must[[]storage.Event](t)(rx.EventsByNum([]storage.EventNum{b.Num, 999, a.Num}))
		if len(list) != 3 || list[0].ID() != b.ID() || list[1].Event != nil || list[2].ID() != a.ID() {
			t.Errorf("events by number: %v", list)
		}
		gens := must[[]int64](t)(rx.GenerationsIn(r.num, []matrix.EventID{"$none", a.ID()}))
		if !slices.Equal(gens, []int64{0, a.Generation}) || a.Generation == 0 {
			t.Errorf("generations %v", gens)
		}
		return nil
	})
	err := s.Write(t.Context(), "again", func(tx *storage.Tx) error {
		room := must[storage.Room](t)(tx.RoomByNum(r.num))
		_, err := tx.AddEvent(room, storage.NewEvent{Event: a.Event, Depth: 9, Place: storage.Live, StateBefore: room.State})
		return err
	})
	if !errors.Is(err, storage.ErrConflict) {
		t.Errorf("an event stored twice: %v", err)
	}
}

// TestUntoldEvents keeps outliers, rejected and soft-failed events from every
// list of what was told.
func TestUntoldEvents(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	r := newRoomTest(t, s, "11")
	last := r.message(alice, "last")
	untold := func(text string, n storage.NewEvent) (stored storage.Event) {
		e := r.draft("m.room.message", nil, bob, `{"body":"`+text+`"}`, []storage.Event{last})
		within(t, s, func(tx *storage.Tx) (err error) {
			stored, err = r.append(tx, e, []storage.Event{last}, must[storage.Room](t)(tx.RoomByNum(r.num)).State, n)
			return err
		})
		return stored
	}
	soft := untold("soft", storage.NewEvent{SoftFailed: true})
	rejected := untold("rejected", storage.NewEvent{Standing: 1})
	outlier := untold("outlier", storage.NewEvent{Outlier: true})
	r.read(func(rx *storage.Rx) error {
		events, _, err := rx.Timeline(r.num, storage.Cursor{}, true, 100)
		if err != nil || len(events) != 3 || events[0].Num != last.Num {
			t.Errorf("timeline: %d events, %v", len(events), err)
		}
		if events, limited, err := rx.RoomNews(r.num, last.Pos, rx.Pos(), 10); len(events) != 0 || limited || err != nil {
			t.Errorf("news: %d events, %v, %v", len(events), limited, err)
		}
		if e := must[[]storage.Event](t)(rx.EventsByTime(r.num, 1<<50, 0, false, 1)); len(e) != 1 || e[0].Num != last.Num {
			t.Errorf("latest by time is %v", e)
		}
		if told, err := rx.HasToldChild(last.Num); told || err != nil {
			t.Errorf("told child of the last: %v, %v", told, err)
		}
		if kids := must[[]storage.Event](t)(rx.Children(last.Num)); len(kids) != 2 || kids[0].Num != soft.Num || !kids[0].SoftFailed || kids[1].Standing != 1 {
			t.Errorf("children: %v", kids)
		}
		o := must[storage.Event](t)(rx.Event(outlier.ID()))
		if !o.Outlier || o.StateBefore != 0 || o.Pos != 0 || o.Depth != 0 {
			t.Errorf("outlier %+v", o)
		}
		if got := must[storage.Room](t)(rx.Room(r.id)).LatestPos; got != last.Pos {
			t.Errorf("latest position %d, want %d", got, last.Pos)
		}
		return nil
	})
	for _, n := range []storage.NewEvent{{SoftFailed: true}, {Standing: 2}, {Outlier: true}} {
		err := s.Write(t.Context(), "told", func(tx *storage.Tx) error {
			n.Place, n.Event, n.Depth = storage.Live, r.draft("x", nil, bob, `{}`, []storage.Event{last}), 9
			_, err := tx.AddEvent(must[storage.Room](t)(tx.RoomByNum(r.num)), n)
			return err
		})
		if err == nil {
			t.Errorf("%+v was told", n)
		}
	}
	_ = rejected
}

// TestMissingParents lets a child come before its parent, and an outlier join
// the graph.
func TestMissingParents(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	r := newRoomTest(t, s, "11")
	root := r.message(alice, "root")
	late := r.draft("m.room.message", nil, bob, `{"body":"late"}`, []storage.Event{root})
	lateStored := storage.Event{Event: late, Depth: 4}
	child := r.draft("m.room.message", nil, bob, `{"body":"child"}`, []storage.Event{lateStored})
	state := func(tx *storage.Tx) storage.StateNum { return must[storage.Room](t)(tx.RoomByNum(r.num)).State }
	var stored storage.Event
	within(t, s, func(tx *storage.Tx) (err error) {
		if _, err = r.append(tx, child, []storage.Event{lateStored}, state(tx), storage.NewEvent{Place: storage.Live}); err != nil {
			return err
		}
		stored, err = r.append(tx, late, nil, 0, storage.NewEvent{Outlier: true})
		return err
	})
	r.read(func(rx *storage.Rx) error {
		missing := must[[]storage.MissingParent](t)(rx.MissingParents(r.num, 10))
		if len(missing) != 1 || missing[0].ID != late.ID() || missing[0].Depth != 5 {
			t.Errorf("missing: %+v", missing)
		}
		if ends := must[[]storage.Event](t)(rx.Extremities(r.num)); len(ends) != 2 {
			t.Errorf("extremities %v", ends)
		}
		return nil
	})
	within(t, s, func(tx *storage.Tx) error {
		room := must[storage.Room](t)(tx.RoomByNum(r.num))
		e := must[storage.Event](t)(tx.PromoteOutlier(room, stored.Num, storage.NewEvent{Place: storage.Backfilled, Depth: 4, Generation: 2, StateBefore: room.State}))
		if e.Pos >= 0 || e.Outlier || e.ID() != late.ID() {
			t.Errorf("promoted %+v", e)
		}
		if _, err := tx.PromoteOutlier(room, stored.Num, storage.NewEvent{Depth: 4}); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("promoted twice: %v", err)
		}
		if told, err := tx.HasToldChild(e.Num); !told || err != nil {
			t.Errorf("the parent has a told child: %v, %v", told, err)
		}
		// The root has a child now.
		return tx.SetExtremities(r.num, []storage.EventNum{stored.Num - 1})
	})
	r.read(func(rx *storage.Rx) error {
		if missing := must[[]storage.MissingParent](t)(rx.MissingParents(r.num, 10)); len(missing) != 0 {
			t.Errorf("still missing: %+v", missing)
		}
		events, _, err := rx.Timeline(r.num, storage.Cursor{}, true, 2)
		if err != nil || len(events) != 2 || events[0].ID() != child.ID() || events[1].ID() != late.ID() {
			t.Errorf("timeline %v, %v", events, err)
		}
		events, limited, err := rx.RoomNews(r.num, 0, rx.Pos(), 2)
		if err != nil || !limited || len(events) != 2 || events[0].ID() != root.ID() || events[1].ID() != child.ID() {
			t.Errorf("news %v, %v, %v", events, limited, err)
		}
		return nil
	})
}
