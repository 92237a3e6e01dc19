package acceptance

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

func TestJoinedRooms(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	rooms := func(c *testserver.Client) (list []string) {
		var out struct {
			Rooms []string `json:"joined_rooms"`
		}
		c.Must("GET", v3+"/joined_rooms", nil).Decode(t, &out)
		if out.Rooms == nil {
			t.Error("joined_rooms is missing")
		}
		slices.Sort(out.Rooms)
		return out.Rooms
	}
	if got := rooms(bob); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	one, two, three := privateRoom(alice, ""), privateRoom(alice, ""), privateRoom(alice, "")
	enter(one, alice, bob)
	enter(two, alice, bob)
	alice.Invite(three, bob)
	want := []string{string(one), string(two)}
	slices.Sort(want)
	if got := rooms(bob); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	bob.Leave(one)
	alice.Ban(two, bob)
	if got := rooms(bob); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestJoinedMembers(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := privateRoom(alice, "world_readable")
	enter(room, alice, bob)
	alice.Invite(room, carol)
	bob.SetState(room, matrix.TypeMember, string(bob.UserID), `{"membership":"join","displayname":"Bob \"B\"","avatar_url":"mxc://a/b"}`)
	alice.SetState(room, matrix.TypeMember, string(alice.UserID), `{"membership":"join","displayname":7}`)
	var got struct {
		Joined map[matrix.UserID]map[string]any `json:"joined"`
	}
	get(t, alice, &got, room, "", "joined_members")
	want := fmt.Sprint(map[matrix.UserID]map[string]any{
		alice.UserID: {"display_name": nil, "avatar_url": nil},
		bob.UserID:   {"display_name": `Bob "B"`, "avatar_url": "mxc://a/b"},
	})
	if fmt.Sprint(got.Joined) != want {
		t.Errorf("got %v, want %v", got.Joined, want)
	}
	hiddenFrom(carol, 403, room, "", "joined_members") // invited, and the room is readable by everyone
	bob.Leave(room)
	hiddenFrom(bob, 403, room, "", "joined_members")
	hiddenFrom(alice, 403, "!nowhere:elsewhere.test", "", "joined_members")
}

// sortedWords is words in alphabetical order, for lists without one.
func sortedWords(events []told) string {
	list := strings.Fields(words(events))
	slices.Sort(list)
	return strings.Join(list, " ")
}

func members(t *testing.T, c *testserver.Client, room matrix.RoomID, query string) string {
	t.Helper()
	var out struct {
		Chunk []told `json:"chunk"`
	}
	get(t, c, &out, room, query, "members")
	for _, e := range out.Chunk {
		if e.Room != room || e.ID == "" || e.Type != matrix.TypeMember {
			t.Errorf("got %+v", e)
		}
	}
	return sortedWords(out.Chunk)
}

func TestMembers(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol, dave := hs.Register("alice"), hs.Register("bob"), hs.Register("carol"), hs.Register("dave")
	room := privateRoom(alice, "")
	enter(room, alice, bob)
	alice.Invite(room, carol)
	alice.Ban(room, dave)
	for query, want := range map[string]string{
		"":                                      "@alice=join @bob=join @carol=invite @dave=ban",
		"membership=join":                       "@alice=join @bob=join",
		"membership=leave":                      "",
		"not_membership=join":                   "@carol=invite @dave=ban",
		"membership=ban&not_membership=":        "@dave=ban",
		"membership=join&not_membership=invite": "@alice=join @bob=join @dave=ban", // either is enough
	} {
		if got := members(t, alice, room, query); got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	hiddenFrom(carol, 403, room, "", "members")
	hiddenFrom(dave, 403, room, "", "members")
	hiddenFrom(alice, 403, "!nowhere:elsewhere.test", "", "members")

	// Who left sees who was there then.
	bob.Leave(room)
	alice.Unban(room, dave)
	carol.Join(room)
	if got := members(t, bob, room, ""); got != "@alice=join @bob=leave @carol=invite @dave=ban" {
		t.Errorf("bob, who left: got %s", got)
	}
	if got := members(t, alice, room, ""); got != "@alice=join @bob=leave @carol=join @dave=leave" {
		t.Errorf("alice: got %s", got)
	}
	alice.Ban(room, carol)
	alice.Invite(room, dave)
	if got := members(t, carol, room, ""); got != "@alice=join @bob=leave @carol=ban @dave=leave" {
		t.Errorf("carol, who was banned: got %s", got)
	}
	bob.Forget(room)
	hiddenFrom(bob, 403, room, "", "members")
}

func TestMembersAtAPoint(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := privateRoom(alice, "joined")
	early := alice.Sync().NextBatch
	enter(room, alice, bob)
	middle := alice.Sync().NextBatch
	alice.Say(room, "x")
	placed := messages(t, alice, room, "dir=b&limit=1").End // before what alice said
	enter(room, alice, carol)
	late := alice.Sync().NextBatch
	bob.Leave(room)
	at := func(token string) string { return "at=" + url.QueryEscape(token) }
	for token, want := range map[string]string{
		early: "@alice=join", middle: "@alice=join @bob=join", placed: "@alice=join @bob=join",
		late: "@alice=join @bob=join @carol=join", alice.Sync().NextBatch: "@alice=join @bob=leave @carol=join",
	} {
		if got := members(t, alice, room, at(token)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	// What was before them they may not see, what was after they left neither. A
	// place before the first that they were told means their joining.
	var first struct {
		Rooms struct {
			Join map[matrix.RoomID]struct {
				Timeline struct {
					Start string `json:"prev_batch"`
				} `json:"timeline"`
			} `json:"join"`
		} `json:"rooms"`
	}
	for _, c := range []*testserver.Client{alice, carol} {
		want := map[*testserver.Client]string{alice: "@alice=join", carol: "@alice=join @bob=join @carol=join"}[c]
		c.Must("GET", v3+`/sync?filter={"room":{"timeline":{"limit":100}}}`, nil).Decode(t, &first)
		if got := members(t, c, room, at(first.Rooms.Join[room].Timeline.Start)); got != want {
			t.Errorf("%s: at the start: got %s, want %s", c.UserID, got, want)
		}
	}
	for _, token := range []string{middle, placed} {
		if got := members(t, carol, room, at(token)); got != "@alice=join @bob=join @carol=join" {
			t.Errorf("carol: got %s", got)
		}
	}
	if got := members(t, bob, room, at(late)); got != "@alice=join @bob=join @carol=join" {
		t.Errorf("bob: got %s", got)
	}
	carol.Leave(room)
	hiddenFrom(carol, 403, room, at(middle), "members")
	if got := members(t, bob, room, at(alice.Sync().NextBatch)); got != "@alice=join @bob=leave @carol=join" {
		t.Errorf("bob, later: got %s", got)
	}
	// Who reads a room of the whole world without being in it reads it at any time.
	open := privateRoom(alice, "world_readable")
	alone := messages(t, carol, open, "dir=b&limit=1").Start
	enter(open, alice, bob)
	for _, c := range []*testserver.Client{alice, carol} {
		if got := members(t, c, open, at(alone)); got != "@alice=join" {
			t.Errorf("%s, of an open room: got %s", c.UserID, got)
		}
	}
	if got := members(t, alice, room, at(middle)+"&membership=join&not_membership=leave"); got != "@alice=join @bob=join" {
		t.Errorf("got %s", got)
	}
}

func stateOf(t *testing.T, c *testserver.Client, room matrix.RoomID) map[string]told {
	t.Helper()
	var list []told
	get(t, c, &list, room, "", "state")
	state := map[string]told{}
	for _, e := range list {
		if e.Room != room || e.Key == nil {
			t.Errorf("got %+v", e)
		}
		state[e.Type+"|"+*e.Key] = e
	}
	return state
}

func TestState(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := privateRoom(alice, "")
	alice.SetState(room, "m.room.topic", "", `{"topic":"one"}`)
	alice.SetState(room, "m.test", "a/b", `{"n":1}`)
	enter(room, alice, bob)
	topic := func(c *testserver.Client) string {
		t.Helper()
		all := fmt.Sprint(stateOf(t, c, room)["m.room.topic|"].Content["topic"])
		for _, path := range []string{"/m.room.topic", "/m.room.topic/"} {
			var one struct {
				Topic string `json:"topic"`
			}
			c.Must("GET", testserver.RoomPath(room, "state")+path, nil).Decode(t, &one)
			if one.Topic != all {
				t.Errorf("the list has %s, %s has %s", all, path, one.Topic)
			}
		}
		var whole told
		get(t, c, &whole, room, "format=event", "state", "m.room.topic")
		if whole.Type != "m.room.topic" || whole.Room != room || whole.ID == "" || whole.Content["topic"] != all {
			t.Errorf("got %+v", whole)
		}
		return all
	}
	if got := topic(bob); got != "one" {
		t.Errorf("got %s", got)
	}
	var keyed map[string]any
	get(t, bob, &keyed, room, "format=content", "state", "m.test", "a/b")
	if fmt.Sprint(keyed) != "map[n:1]" {
		t.Errorf("got %v", keyed)
	}
	hiddenFrom(bob, 404, room, "", "state", "m.test")
	hiddenFrom(bob, 404, room, "", "state", "m.nosuch", "x")
	for _, parts := range [][]string{{"state"}, {"state", "m.room.topic"}, {"state", "m.nosuch"}, {"state", "m.room.member", string(bob.UserID)}} {
		hiddenFrom(carol, 403, room, "", parts...)
		hiddenFrom(carol, 403, "!nowhere:elsewhere.test", "", parts...)
	}
	alice.Invite(room, carol)
	hiddenFrom(carol, 403, room, "", "state")

	alice.Kick(room, bob)
	alice.SetState(room, "m.room.topic", "", `{"topic":"two"}`)
	if got := topic(bob); got != "one" {
		t.Errorf("bob, who was kicked, got %s", got)
	}
	if got := topic(alice); got != "two" {
		t.Errorf("got %s", got)
	}
	bob.Forget(room)
	hiddenFrom(bob, 403, room, "", "state")
	// Everyone may read it now, as it is now.
	alice.SetState(room, "m.room.history_visibility", "", `{"history_visibility":"world_readable"}`)
	for _, c := range []*testserver.Client{bob, carol} {
		if got := topic(c); got != "two" {
			t.Errorf("%s got %s", c.UserID, got)
		}
	}
}
