package acceptance

import (
	"fmt"
	"strings"
	"testing"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// What happens in a room is for those in it: whoever never had to do with it,
// was only invited, or has left, is told nothing of what others do there.
func TestRoomWritesAreUnseen(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	stranger, invited, left, banned := hs.Register("stranger"), hs.Register("invited"), hs.Register("left"), hs.Register("banned")
	room := alice.CreateRoom(`{"preset":"private_chat","initial_state":[{"type":"m.room.history_visibility","content":{"history_visibility":"joined"}}]}`)
	for _, c := range []*testserver.Client{bob, left, banned} {
		alice.Invite(room, c)
		c.Join(room)
	}
	alice.Invite(room, invited)
	left.Leave(room)
	alice.Ban(room, banned)
	outside := []*testserver.Client{stranger, invited, left, banned}
	for _, c := range outside {
		c.Sync()
	}

	const secret = "secret-word"
	said := alice.Say(room, secret)
	events := []matrix.EventID{
		said, alice.SetState(room, "org.test", secret, `{"v":"`+secret+`"}`), alice.SetState(room, "m.room.name", "", `{"name":"`+secret+`"}`),
		alice.Redact(room, said, secret), alice.Send(room, "m.reaction", fmt.Sprintf(`{"m.relates_to":{"rel_type":"m.annotation","event_id":%q,"key":%q}}`, said, secret)),
	}
	alice.Must("PUT", testserver.AliasPath(matrix.RoomAlias("#"+secret+":"+string(hs.Name()))), inRoom(room))
	alice.Must("POST", testserver.RoomPath(room, "kick"), fmt.Sprintf(`{"user_id":%q,"reason":%q}`, bob.UserID, secret))

	for _, c := range outside {
		if got := string(c.Must("GET", v3+"/sync?since="+c.Since(), nil).Body); strings.Contains(got, secret) {
			t.Errorf("the sync of %s tells %s", c.UserID, got)
		}
		for _, id := range events {
			if a, err := c.Do(t.Context(), "GET", testserver.RoomPath(room, "event", string(id)), nil); err != nil || a.Status != 404 && a.Status != 403 {
				t.Errorf("%s reads %s: %v, %v", c.UserID, id, a, err)
			}
		}
		for _, path := range []string{"messages?dir=b", "state", "aliases", "members", "joined_members"} {
			a, err := c.Do(t.Context(), "GET", testserver.RoomPath(room)+"/"+path, nil)
			if err != nil || a.Status == 200 && strings.Contains(string(a.Body), secret) {
				t.Errorf("%s reads %s: %v, %v", c.UserID, path, a, err)
			}
		}
	}
	// Whoever was in it until then has seen all of it.
	if got := string(bob.Must("GET", v3+"/sync?filter="+`%7B%22room%22:%7B%22include_leave%22:true%7D%7D`, nil).Body); !strings.Contains(got, secret) {
		t.Error("a member was told nothing")
	}
}
