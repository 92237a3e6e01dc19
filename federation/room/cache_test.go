package room

import (
	"bytes"
	"errors"
	"testing"

	"hearth/storage"
	"hearth/storage/matrix"
)

// TestCacheFailedUnit has a unit fail that appended power levels and read them:
// ones that came with another content, and so count as redacted. The next unit
// appends the true ones, under the same ID. The failed unit decides nothing.
func TestCacheFailedUnit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	room := w.create(Creation{Creator: alice, Version: "10"})
	levels := content("users", map[matrix.UserID]int{alice: 100}, "invite", 77)
	var whole *matrix.Event
	var generation int64
	w.read(func(rx *storage.Rx) (err error) {
		leaves, err := rx.Extremities(room.Num)
		if err != nil {
			return err
		}
		whole, generation, err = w.rooms.build(rx, room, w.rooms.current(rx, room.Num), leaves,
			setting(alice, matrix.TypePowerLevels, "", levels))
		return err
	})
	other, err := matrix.ParseEvent(room.Version, bytes.Replace(whole.JSON(), []byte(`"invite":77`), []byte(`"invite":11`), 1))
	if err != nil || other.HashOK() || other.Redacted().ID() != whole.ID() {
		t.Fatalf("%v, %v", other, err)
	}
	invite := func(tx *storage.Tx, ev *matrix.Event) (level int64, err error) {
		now, err := tx.RoomByNum(room.Num)
		if err != nil {
			return 0, err
		}
		leaves, err := tx.Extremities(room.Num)
		if err != nil {
			return 0, err
		}
		a := addition{ev: ev, before: now.State, depth: below(leaves), generation: generation, leaf: true}
		if _, err = w.rooms.append(tx, now, a); err != nil {
			return 0, err
		}
		state := w.rooms.current(tx.Rx, room.Num)
		return state.levels().InviteLevel(), state.err
	}
	failure := errors.New("the disk is full")
	err = w.try(func(tx *storage.Tx) error {
		if level, err := invite(tx, other.Redacted()); level != 0 || err != nil {
			t.Errorf("redacted levels ask %d of who invites; %v", level, err)
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Fatal(err)
	}
	w.write(func(tx *storage.Tx) error {
		level, err := invite(tx, whole)
		if level != 77 {
			t.Errorf("the levels ask %d of who invites, want 77", level)
		}
		return err
	})
	if got := w.state(room, matrix.TypePowerLevels, "").Content(); !bytes.Contains(got, []byte(`"invite":77`)) {
		t.Errorf("the levels are %s", got)
	}
}
