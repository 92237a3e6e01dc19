package room

import (
	"testing"

	"hearth/storage"
	"hearth/storage/matrix"
)

// TestEveryVersion makes a room of every version and uses it.
func TestEveryVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, v := range matrix.RoomVersions() {
		room := w.create(Creation{Creator: alice, Version: v, Preset: PresetPublic, Name: "n", Topic: "t", Invites: []matrix.UserID{carol}})
		if got := w.state(room, matrix.TypeCreate, "").Create().RoomVersion; got != v {
			t.Errorf("room version %q, want %q", got, v)
		}
		w.mustAct((*Rooms).Join, room, Act{Sender: bob})
		ev := w.send(room, message(bob, "hello"))
		if ev.Pos <= 0 || ev.Generation < 2 {
			t.Errorf("%s: message at position %d, generation %d", v, ev.Pos, ev.Generation)
		}
		if got := w.membership(room, carol); got != matrix.MembershipInvite {
			t.Errorf("%s: carol's membership %q, want invite", v, got)
		}
		w.mustAct((*Rooms).Leave, room, Act{Sender: bob})
		if _, err := w.trySend(room, message(bob, "gone")); !is(err, matrix.Forbidden) {
			t.Errorf("%s: message of who left: %v, want M_FORBIDDEN", v, err)
		}
		w.read(func(rx *storage.Rx) error { return parses(rx, room) })
	}
}
