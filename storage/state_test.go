package storage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// within runs fn in one unit.
func within(t testing.TB, s *storage.Store, fn func(*storage.Tx) error) {
	t.Helper()
	if err := s.Write(context.Background(), "test", fn); err != nil {
		t.Fatal(err)
	}
}

func newRoom(t testing.TB, s *storage.Store, id matrix.RoomID) (room storage.Room) {
	t.Helper()
	v, ok := matrix.VersionOf("12")
	if !ok {
		t.Fatal("room version 12 is not known")
	}
	within(t, s, func(tx *storage.Tx) (err error) {
		room, err = tx.AddRoom(id, v)
		return err
	})
	return room
}

func member(n int, event storage.EventNum) storage.StateKeyed {
	return storage.StateKeyed{Type: "m.room.member", StateKey: fmt.Sprintf("@u%d:test.example", n), Event: event}
}

func TestStateBasics(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	room := newRoom(t, s, "!a:test.example").Num
	within(t, s, func(tx *storage.Tx) error {
		empty, err := tx.ChildState(room, 0, nil)
		if err != nil || empty == 0 {
			t.Fatalf("empty state: %d, %v", empty, err)
		}
		again, err := tx.ChildState(room, 0, []storage.StateKeyed{member(1, 0)})
		if err != nil || again != empty {
			t.Errorf("removing what is not there: %d, %v; want %d", again, err, empty)
		}
		one, err := tx.ChildState(room, 0, []storage.StateKeyed{member(1, 11)})
		if err != nil {
			t.Fatal(err)
		}
		two, err := tx.ChildState(room, one, []storage.StateKeyed{member(2, 12), member(1, 13)})
		if err != nil {
			t.Fatal(err)
		}
		same, err := tx.StoreState(room, []storage.StateNum{one}, []storage.StateKeyed{member(2, 12), member(1, 13)})
		if err != nil || same != two {
			t.Errorf("the same content: %d, %v; want %d", same, err, two)
		}
		back, err := tx.ChildState(room, two, []storage.StateKeyed{member(2, 0), member(1, 11)})
		if err != nil || back != one {
			t.Errorf("back to the first: %d, %v; want %d", back, err, one)
		}
		state, err := tx.State(two)
		if want := []storage.StateKeyed{member(1, 13), member(2, 12)}; err != nil || !slices.Equal(state, want) {
			t.Errorf("state %v, %v; want %v", state, err, want)
		}
		if e, err := tx.StateEvent(two, "m.room.member", "@u2:test.example"); e != 12 || err != nil {
			t.Errorf("event of u2: %d, %v", e, err)
		}
		if e, err := tx.StateEvent(one, "m.room.member", "@u2:test.example"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("event of u2 before: %d, %v", e, err)
		}
		got, err := tx.StateEvents(two, storage.StateKey{"m.room.member", "@u2:test.example"}, storage.StateKey{"x", "y"},
			storage.StateKey{"m.room.member", "@u1:test.example"})
		if want := []storage.EventNum{12, 0, 13}; err != nil || !slices.Equal(got, want) {
			t.Errorf("events %v, %v; want %v", got, err, want)
		}
		diff, err := tx.StateDiff(two, one)
		if want := []storage.StateKeyed{member(1, 11), member(2, 0)}; err != nil || !slices.Equal(diff, want) {
			t.Errorf("difference %v, %v; want %v", diff, err, want)
		}
		if _, err := tx.State(9999); err == nil || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("a state that is not there: %v", err)
		}
		return nil
	})
}

// TestSameHashIsNotSameState gives a state the hash of another, which is then
// made: the hash does not depend on the room, so a second room tells it.
func TestSameHashIsNotSameState(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	room, other := newRoom(t, s, "!a:test.example").Num, newRoom(t, s, "!b:test.example").Num
	second := []storage.StateKeyed{member(1, 1), member(2, 3)}
	var first, parent storage.StateNum
	within(t, s, func(tx *storage.Tx) (err error) {
		if first, err = tx.ChildState(room, 0, []storage.StateKeyed{member(1, 1), member(2, 2)}); err != nil {
			return err
		}
		if parent, err = tx.ChildState(room, 0, second[:1]); err != nil {
			return err
		}
		_, err = tx.StoreState(other, nil, second)
		return err
	})
	storage.EditRaw(t, s.Path(), fmt.Sprintf("UPDATE state_snapshots SET hash = (SELECT hash FROM state_snapshots WHERE room = %d) WHERE num = %d", other, first))
	within(t, s, func(tx *storage.Tx) error {
		child, err := tx.ChildState(room, parent, second[1:])
		if err != nil || child == first {
			t.Errorf("the child is state %d, %v; another than %d has its hash", child, err, first)
		}
		whole, err := tx.StoreState(room, nil, second)
		if err != nil || whole != child {
			t.Errorf("the same content is state %d, %v; want %d", whole, err, child)
		}
		if got, err := tx.State(child); err != nil || !slices.Equal(got, second) {
			t.Errorf("state %v, %v; want %v", got, err, second)
		}
		return nil
	})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
