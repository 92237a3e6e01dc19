package acceptance

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// A backup that is made while people talk becomes the database again, and all
// go on with what they have: access tokens, sync tokens and memory. Every room
// comes with its whole state and a gap before its timeline, so that nobody puts
// the two histories together; after the gap no event is missing or there twice.
// That is so also for who has more to-device messages waiting than one answer
// holds, and for who was to hear of having left a room.
func TestRoomsAfterRestore(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	root := hs.Register("root")
	var followers []*testserver.Follower
	for _, name := range []string{"ann", "ben", "cat"} {
		followers = append(followers, testserver.NewFollower(hs.Register(name)))
	}
	ann, ben, cat := followers[0], followers[1], followers[2]
	var rooms []matrix.RoomID
	for _, version := range []string{"12", "10", "2"} {
		rooms = append(rooms, publicRoomOf(root, version, ann.Client, ben.Client, cat.Client))
	}
	followers = append(followers, testserver.NewFollower(root))
	for _, f := range followers {
		f.CatchUp()
	}

	// What ben and cat do not hear of before the end.
	ben.Leave(rooms[2])
	ben.Leave(rooms[1])
	ben.Forget(rooms[1])
	for i := range 150 {
		root.SendToDevice("m.test", cat.Client, number(i))
	}
	kept := ann.SendTxn(rooms[0], "m.a", "kept", `{}`)

	backup := talkWhile(t, rooms[0], followers, hs.Backup)
	lost := ann.SendTxn(rooms[0], "m.a", "lost", `{}`)
	for _, f := range []*testserver.Follower{ann, followers[3]} {
		f.CatchUp()
		f.Check()
	}
	pos := hs.Store().Pos()
	hs.Restore(backup)
	if now := hs.Store().Pos(); now <= pos {
		t.Errorf("positions go on at %d after %d were published", now, pos)
	}

	if again := ann.SendTxn(rooms[0], "m.a", "kept", `{}`); again != kept {
		t.Errorf("a request from before the backup was performed again: %s and %s", kept, again)
	}
	if again := ann.SendTxn(rooms[0], "m.a", "lost", `{}`); again == lost {
		t.Errorf("a request from after the backup was answered from nowhere: %s", again)
	}
	for _, f := range followers {
		f.Anew()
	}
	talkWhile(t, rooms[0], followers, func() (none string) { return })
	for _, f := range followers {
		f.CatchUp()
		for id, r := range f.Rooms {
			if len(r.Events) == 0 || r.Events[0].ID != "" {
				t.Errorf("%s: the timeline of %s has no gap at its start", f.UserID, id)
			}
		}
		f.Check()
	}
	if ben.Rooms[rooms[1]].Section != "leave" || ben.Rooms[rooms[2]].Section != "leave" {
		t.Error("ben's device was not told that he left")
	}
}

// talkWhile has all users say something until fn has returned, but at least as
// many times that it overlaps.
func talkWhile(t *testing.T, room matrix.RoomID, all []*testserver.Follower, fn func() string) string {
	t.Helper()
	var stop atomic.Bool
	var wg sync.WaitGroup
	begun := make(chan struct{}, len(all))
	for _, f := range all {
		wg.Go(func() {
			for n := 0; n < 12 || !stop.Load(); n++ {
				f.Say(room, fmt.Sprint(n))
				f.SetState(room, "m.test", string(f.UserID), number(n))
				if n == 2 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range all {
		<-begun
	}
	out := fn()
	stop.Store(true)
	wg.Wait()
	return out
}

// publicRoomOf is a public room of a version with some in it.
func publicRoomOf(by *testserver.Client, version string, members ...*testserver.Client) matrix.RoomID {
	room := by.CreateRoom(`{"preset":"public_chat","room_version":"` + version + `","power_level_content_override":{"state_default":0}}`)
	for _, m := range members {
		m.Join(room)
	}
	return room
}
