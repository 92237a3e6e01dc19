package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/testserver"
	"hearth/storage/matrix"
	"hearth/storage/storagetest/faultvfs"
)

// T2 for what takes many events: a disk that refuses one call in the middle of
// making a room, replacing it, entering it or changing it answers 500, and
// nobody sees anything of it, neither in a sync nor by name; the same request
// again is performed once, and what follows is decided by what is there.
func TestFailedRoomChangeLeavesNothing(t *testing.T) {
	t.Parallel()
	for what, fault := range map[string]struct {
		op   faultvfs.Op
		code faultvfs.Code
	}{
		"full disk":    {faultvfs.Write, faultvfs.Full},
		"commit error": {faultvfs.Sync, faultvfs.SyncError},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t)
			f.hs.Register("carol")
			d := &faultyRooms{faulty: f, watch: testserver.NewFollower(f.hs.Login("alice")), guest: testserver.NewFollower(f.bob)}
			match := func(c faultvfs.Call) bool { return c.WAL() && c.Op == fault.op }
			for skip := range 4 {
				d.life(func() { f.disk.FailNext(match, skip, 1, fault.code) })
				if skip == 1 {
					f.hs.Crash()
				}
			}
			if f.failed < 5 {
				t.Errorf("only %d faults were hit", f.failed)
			}
		})
	}
}

// faultyRooms makes the changes of alice's and bob's rooms on a disk that fails.
type faultyRooms struct {
	*faulty
	watch, guest *testserver.Follower
}

// life is one of a room, from its making to its replacement; each step fails
// where arm says, until it does not.
func (d *faultyRooms) life(arm func()) {
	d.t.Helper()
	d.n++
	name := fmt.Sprintf("room%d", d.n)
	alias := testserver.AliasPath(matrix.RoomAlias("#" + name + ":" + string(d.hs.Name())))
	before := len(d.rooms())
	made := d.change(arm, d.alice, http.MethodPost, v3+"/createRoom", fmt.Sprintf(`{"preset":"public_chat","room_alias_name":%q,
		"name":%q,"room_version":"10","invite":["@carol:%s"]}`, name, name, d.hs.Name()), func() {
		d.bob.Want(http.StatusNotFound, matrix.NotFound, http.MethodGet, alias, nil)
	})
	room := matrix.RoomID(fieldOf(d.t, made, "room_id"))
	if got := len(d.rooms()) - before; got != 1 {
		d.t.Fatalf("%d rooms were made", got)
	}
	d.events(room, 1, func() {
		d.change(arm, d.bob, http.MethodPost, testserver.RoomPath(room, "join"), "{}", func() { forbidden(d.bob, http.MethodPut, testserver.RoomPath(room, "send", "m.a", "x"), "{}") })
	})
	// What follows from power that a failed unit gave and took must not be found.
	forbidden(d.bob, http.MethodPut, testserver.RoomPath(room, "state", "m.room.name", ""), `{"name":"b"}`)
	d.events(room, 1, func() {
		d.change(arm, d.alice, http.MethodPut, testserver.RoomPath(room, "state", "m.room.power_levels", ""),
			fmt.Sprintf(`{"users":{%q:100,%q:50}}`, d.alice.UserID, d.bob.UserID),
			func() {
				forbidden(d.bob, http.MethodPut, testserver.RoomPath(room, "state", "m.room.name", ""), `{"name":"b"}`)
			})
	})
	d.events(room, 1, func() {
		d.change(arm, d.bob, http.MethodPut, testserver.RoomPath(room, "state", "m.room.name", ""), `{"name":"b"}`, nil)
	})
	said := d.alice.Say(room, "secret")
	d.events(room, 1, func() {
		d.change(arm, d.alice, http.MethodPut, testserver.RoomPath(room, "redact", string(said), "r"), "{}", func() {
			if got := fieldOf(d.t, d.bob.Must(http.MethodGet, testserver.RoomPath(room, "event", string(said)), nil), "content"); got == "{}" {
				d.t.Error("a redaction that failed has redacted")
			}
		})
	})
	before = len(d.rooms())
	next := matrix.RoomID(fieldOf(d.t, d.change(arm, d.alice, http.MethodPost, testserver.RoomPath(room, "upgrade"), `{"new_version":"12"}`, func() {
		if got := fieldOf(d.t, d.bob.Must(http.MethodGet, alias, nil), "room_id"); got != string(room) {
			d.t.Errorf("the alias moved to %s without a room", got)
		}
	}), "replacement_room"))
	if got := fieldOf(d.t, d.bob.Must(http.MethodGet, alias, nil), "room_id"); got != string(next) || len(d.rooms())-before != 1 {
		d.t.Errorf("replaced by %s, the alias points to %s; %d rooms more", next, got, len(d.rooms())-before)
	}
	for _, f := range []*testserver.Follower{d.watch, d.guest} {
		f.CatchUp()
		f.Check()
	}
}

// change makes a request while the disk fails as arm says, and again until it is
// answered 200. unseen looks, after each failure, where it could be seen.
func (d *faultyRooms) change(arm func(), by *testserver.Client, method, path, body string, unseen func()) *testserver.Answer {
	d.t.Helper()
	d.watch.CatchUp()
	d.guest.CatchUp()
	for arm(); ; {
		a, err := by.Do(d.t.Context(), method, path, body)
		d.disk.OnCall(nil)
		if err != nil {
			d.t.Fatal(err)
		}
		if a.Status == http.StatusOK {
			return a
		}
		if a.Status != http.StatusInternalServerError || a.Code() != matrix.Unknown {
			d.t.Fatalf("%s %s: got %s", method, path, a)
		}
		d.failed++
		for _, f := range []*testserver.Follower{d.watch, d.guest} {
			if quiet, err := f.Follow(d.t.Context(), 0); err != nil || !quiet {
				d.t.Fatalf("%s was told something of a request that failed: %v", f.UserID, err)
			}
		}
		if unseen != nil {
			unseen()
		}
	}
}

// events fails the test unless fn adds so many events to the room.
func (d *faultyRooms) events(room matrix.RoomID, want int, fn func()) {
	d.t.Helper()
	before := len(d.alice.Page(room, ""))
	fn()
	if got := len(d.alice.Page(room, "")) - before; got != want {
		d.t.Errorf("%d events, want %d", got, want)
	}
}

// rooms are those that alice is in.
func (d *faultyRooms) rooms() []matrix.RoomID {
	d.t.Helper()
	var out struct {
		Rooms []matrix.RoomID `json:"joined_rooms"`
	}
	d.alice.Must(http.MethodGet, v3+"/joined_rooms", nil).Decode(d.t, &out)
	return out.Rooms
}

// fieldOf is a field of an answer: a string, or what it is as JSON.
func fieldOf(t *testing.T, a *testserver.Answer, key string) string {
	t.Helper()
	var o map[string]jsontext.Value
	a.Decode(t, &o)
	return strings.Trim(string(o[key]), `"`)
}
