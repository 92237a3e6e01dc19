package acceptance

import (
	"fmt"
	"testing"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// State that is set again as it is makes no event: clients repeat requests of
// which they did not see the answer, and these have no transaction ID.
func TestStateSetAgain(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	room := publicRoom(alice, bob)
	raise(t, alice, room, "state_default", 0)
	set := func(c *testserver.Client, content string) matrix.EventID {
		return c.SetState(room, "m.test", "k", content)
	}
	count := func() int { return len(timeline(t, alice, room)) }

	first, n := set(bob, `{"a":1,"b":[true]}`), count()
	if again := set(bob, `{ "b": [true], "a": 1 }`); again != first || count() != n {
		t.Errorf("set again: %s, was %s; %d events, were %d", again, first, count(), n)
	}
	if hers := set(alice, `{"a":1,"b":[true]}`); hers == first {
		t.Error("what another says as well is no event of its own")
	}
	second := set(bob, `{"a":1,"b":[true]}`)
	if second == first || set(bob, `{"a":2}`) == second {
		t.Error("what replaces another's, or says something else, is no event of its own")
	}

	redacted := set(bob, `{}`)
	bob.Redact(room, redacted, "")
	if set(bob, `{}`) == redacted {
		t.Error("a redacted event answers for a new one")
	}

	// Who may not say it any more, may not say it again.
	raise(t, alice, room, "state_default", 50)
	forbidden(bob, "PUT", testserver.RoomPath(room, "state", "m.test", "k"), `{}`)
	path := testserver.RoomPath(room, "state", "m.room.member", string(bob.UserID))
	bob.Must("PUT", path, `{"membership":"join","displayname":"b"}`)
	n = count()
	bob.Must("PUT", path, `{"displayname":"b","membership":"join"}`)
	if count() != n {
		t.Errorf("%d events, want %d as before", count(), n)
	}
}

// Who may not read a room learns nothing else from what is wrong with a request.
func TestRefusedBeforeParametersAreRead(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	room := alice.CreateRoom("")
	event := string(alice.Say(room, "x"))
	in := func(parts ...string) string { return testserver.RoomPath(room, parts...) }
	for _, path := range []string{
		in("messages"), in("messages") + "?dir=x", in("messages") + "?dir=b&from=x", in("members") + "?membership=x",
		in("context", event) + "?limit=x", in("initialSync") + "?limit=x", in("state", "m.room.create") + "?format=x",
		fmt.Sprintf("/_matrix/client/v1/rooms/%s/timestamp_to_event", room),
	} {
		forbidden(bob, "GET", path, "")
		if a, err := alice.Do(t.Context(), "GET", path, nil); err != nil || a.Status != 400 {
			t.Errorf("%s: %v %v, want 400 for who may read it", path, a, err)
		}
	}
}
