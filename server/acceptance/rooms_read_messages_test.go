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

// say sends the numbers of [from, upto) as messages.
func sayNumbers(c *testserver.Client, room matrix.RoomID, from, upto int) {
	for i := from; i < upto; i++ {
		c.Say(room, fmt.Sprint(i))
	}
}

// everything pages to the end, and fails where an event comes twice.
func everything(t *testing.T, c *testserver.Client, room matrix.RoomID, query string) (all []told) {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[matrix.EventID]bool{}
	for range 1000 {
		p := messages(t, c, room, values.Encode())
		for _, e := range p.Chunk {
			if seen[e.ID] {
				t.Fatalf("%s comes twice", e)
			}
			seen[e.ID] = true
		}
		all = append(all, p.Chunk...)
		if p.End == "" {
			return all
		}
		if p.End == values.Get("from") {
			t.Fatal("a page leads to itself")
		}
		values.Set("from", p.End)
	}
	t.Fatal("paging has no end")
	return nil
}

func TestMessages(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := privateRoom(alice, "")
	enter(room, alice, bob)
	sayNumbers(alice, room, 0, 25)
	p := messages(t, bob, room, "dir=b")
	wantWords(t, "ten by default", p.Chunk, "24 23 22 21 20 19 18 17 16 15")
	if p.Start == "" || p.End == "" || p.State != nil || p.Chunk[0].Room != room {
		t.Errorf("got %+v", p)
	}
	second := messages(t, bob, room, "dir=b&limit=3&from="+p.End)
	wantWords(t, "second page", second.Chunk, "14 13 12")
	if second.Start != p.End {
		t.Errorf("start is %s, from was %s", second.Start, p.End)
	}
	wantWords(t, "and forwards again", messages(t, bob, room, "dir=f&limit=5&from="+second.End).Chunk, "12 13 14 15 16")
	wantWords(t, "up to a token", messages(t, bob, room, "dir=b&limit=50&from="+p.End+"&to="+second.End).Chunk, "14 13 12")
	wantWords(t, "forwards up to a token", messages(t, bob, room, "dir=f&limit=50&from="+second.End+"&to="+p.End).Chunk, "12 13 14")
	if p := messages(t, bob, room, "dir=b&limit=3&from="+p.End+"&to="+second.End); p.End != "" {
		t.Error("there is more before the end that was asked for")
	}

	back, on := everything(t, bob, room, "dir=b&limit=4"), everything(t, bob, room, "dir=f&limit=7")
	slices.Reverse(back)
	if words(back) != words(on) || !strings.HasPrefix(words(on), "create @alice=join ") || !strings.HasSuffix(words(on), " 23 24") {
		t.Errorf("backwards\n%s\nforwards\n%s", words(back), words(on))
	}
	if p := messages(t, bob, room, "dir=b&limit=1000"); p.End != "" || len(p.Chunk) != len(on) {
		t.Errorf("one page of all has %d events and end %q", len(p.Chunk), p.End)
	}
	if p := messages(t, bob, room, "dir=b&limit=0"); p.End == "" || len(p.Chunk) != 0 {
		t.Errorf("a page of none has %d events and end %q", len(p.Chunk), p.End)
	}

	hiddenFrom(carol, 403, room, "dir=b", "messages")
	hiddenFrom(carol, 403, "!nowhere:elsewhere.test", "dir=b", "messages")
	alice.Invite(room, carol)
	hiddenFrom(carol, 403, room, "dir=b", "messages")
}

// What a client was told by /sync, and what lies between, are together
// everything, and nothing twice.
func TestMessagesBesideSync(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	room := privateRoom(alice, "")
	enter(room, alice, bob)
	filter := url.Values{"filter": {`{"room":{"timeline":{"limit":3}}}`}}
	first := bob.SyncWith(filter)
	sayNumbers(alice, room, 0, 10)
	second := bob.SyncWith(filter)
	line := second.Rooms.Join[room].Timeline
	if !line.Limited || len(line.Events) != 3 {
		t.Fatalf("got %+v", line)
	}
	gap := messages(t, bob, room, "dir=b&limit=4&from="+line.Prev+"&to="+first.NextBatch)
	wantWords(t, "the gap", gap.Chunk, "6 5 4 3")
	gap = messages(t, bob, room, "dir=b&limit=4&from="+gap.End+"&to="+first.NextBatch)
	wantWords(t, "its rest", gap.Chunk, "2 1 0")
	if gap.End != "" {
		t.Error("the gap has no end")
	}
	wantWords(t, "from its other side", messages(t, bob, room, "dir=f&limit=50&from="+first.NextBatch+"&to="+line.Prev).Chunk, "0 1 2 3 4 5 6")
	wantWords(t, "without an end", messages(t, bob, room, "dir=f&limit=50&from="+first.NextBatch).Chunk, "0 1 2 3 4 5 6 7 8 9")
	wantWords(t, "before the timeline", messages(t, bob, room, "dir=b&limit=8&from="+line.Prev).Chunk, "6 5 4 3 2 1 0 @bob=join")
	wantWords(t, "before the sync", messages(t, bob, room, "dir=b&limit=2&from="+first.NextBatch).Chunk, "@bob=join @bob=invite")
	wantWords(t, "after the last sync", messages(t, bob, room, "dir=f&from="+second.NextBatch).Chunk, "")
}

func TestMessagesFilters(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	room := privateRoom(alice, "")
	enter(room, alice, bob)
	sayNumbers(alice, room, 0, 3)
	bob.Say(room, "bob")
	alice.Send(room, "m.room.message", `{"body":"picture","msgtype":"m.image","url":"mxc://a/b"}`)
	alice.SetState(room, "m.room.topic", "", `{"topic":"t"}`)
	for filter, want := range map[string]string{
		`{"types":["m.room.message"]}`:                                              "picture bob 2 1 0",
		`{"types":["m.room.*"],"not_types":["m.room.m*","m.room.[a-z]"],"limit":1}`: "topic",
		`{"not_types":["m.*"]}`:                                                     "",
		`{"senders":["` + string(bob.UserID) + `"]}`:                                "bob @bob=join",
		`{"not_senders":["` + string(alice.UserID) + `"]}`:                          "bob @bob=join",
		`{"contains_url":true}`:                                                     "picture",
		`{"contains_url":false,"types":["m.room.message"]}`:                         "bob 2 1 0",
		`{"rooms":["!nowhere:elsewhere.test"]}`:                                     "",
		`{"not_rooms":["` + string(room) + `"]}`:                                    "",
		`{"types":["m.room.message"],"limit":2}`:                                    "picture bob",
	} {
		wantWords(t, filter, messagesWith(t, alice, room, "dir=b&limit=100", filter).Chunk, want)
	}
	p := messagesWith(t, alice, room, "dir=b&limit=3", `{"types":["m.room.message"]}`)
	p = messagesWith(t, alice, room, "dir=b&limit=3&from="+p.End, `{"types":["m.room.message"]}`)
	wantWords(t, "second page of a filter", p.Chunk, "1 0")

	lazy := `{"types":["m.room.message"],"lazy_load_members":true}`
	for dir, want := range map[string]string{"b": "picture bob", "f": "0 1"} {
		p := messagesWith(t, alice, room, "limit=2&dir="+dir, lazy)
		wantWords(t, dir, p.Chunk, want)
		members := map[string]string{"b": "@alice=join @bob=join", "f": "@alice=join"}[dir]
		if got := sortedWords(p.State); got != members {
			t.Errorf("%s: members are %s, want %s", dir, got, members)
		}
	}
	if p := messagesWith(t, alice, room, "dir=b", `{"types":[],"lazy_load_members":true}`); len(p.Chunk) > 0 || len(p.State) > 0 {
		t.Errorf("got %+v", p)
	}
}

func TestMessagesOfOneWhoLeft(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := privateRoom(alice, "joined")
	sayNumbers(alice, room, 0, 2)
	enter(room, alice, bob)
	sayNumbers(alice, room, 2, 4)
	alice.Kick(room, bob)
	sayNumbers(alice, room, 4, 6)
	for _, limit := range []string{"1", "3", "100"} {
		back, on := everything(t, bob, room, "dir=b&limit="+limit), everything(t, bob, room, "dir=f&limit="+limit)
		slices.Reverse(back)
		if words(back) != words(on) || !strings.HasSuffix(words(on), " history_visibility @bob=join 2 3 @bob=leave") {
			t.Errorf("backwards\n%s\nforwards\n%s", words(back), words(on))
		}
	}
	late := alice.Sync().NextBatch
	wantWords(t, "from a later token", messages(t, bob, room, "dir=b&limit=2&from="+late).Chunk, "@bob=leave 3")
	wantWords(t, "after a later token", messages(t, bob, room, "dir=f&from="+late).Chunk, "")
	bob.Forget(room)
	hiddenFrom(bob, 403, room, "dir=b", "messages")

	// Peeking: only what everyone may read.
	alice.SetState(room, "m.room.history_visibility", "", `{"history_visibility":"world_readable"}`)
	sayNumbers(alice, room, 6, 8)
	for _, c := range []*testserver.Client{bob, carol} {
		wantWords(t, "peeking", everything(t, c, room, "dir=b&limit=1"), "7 6 history_visibility")
	}
	alice.SetState(room, "m.room.history_visibility", "", `{"history_visibility":"shared"}`)
	hiddenFrom(carol, 403, room, "dir=b", "messages")
}

// Paging a room to its start, while others send to it, gives each event once and
// none that came later.
func TestMessagesWithConcurrentSends(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	room := privateRoom(alice, "")
	enter(room, alice, bob)
	sayNumbers(alice, room, 0, 30)
	before := everything(t, alice, room, "dir=b&limit=1000")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				bob.Say(room, fmt.Sprint("meanwhile", i))
			}
		}
	}()
	defer func() { <-done }()
	defer close(stop)
	from := messages(t, alice, room, "dir=b&limit=1")
	got := everything(t, alice, room, "dir=b&limit=2&from="+from.End)
	all := slices.Concat(from.Chunk, got)
	i := slices.IndexFunc(all, func(e told) bool { return e.ID == before[0].ID })
	if i < 0 || words(all[i:]) != words(before) {
		t.Errorf("got\n%s, want at its end\n%s", words(all), words(before))
	}
}

func TestRoomInitialSync(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := privateRoom(alice, "")
	enter(room, alice, bob)
	sayNumbers(alice, room, 0, 5)
	bob.Must("PUT", v3+"/user/"+url.PathEscape(string(bob.UserID))+"/rooms/"+url.PathEscape(string(room))+"/account_data/m.test", `{"n":1}`)
	type initial struct {
		Room       matrix.RoomID `json:"room_id"`
		Membership string        `json:"membership"`
		Visibility string        `json:"visibility"`
		Messages   page          `json:"messages"`
		State      []told        `json:"state"`
		Data       []told        `json:"account_data"`
	}
	read := func(c *testserver.Client, query string) (i initial) {
		t.Helper()
		get(t, c, &i, room, query, "initialSync")
		return i
	}
	got := read(bob, "limit=3")
	if got.Room != room || got.Membership != "join" || got.Visibility != "private" || fmt.Sprint(got.Data[0].Type, got.Data[0].Content) != "m.testmap[n:1]" {
		t.Errorf("got %+v", got)
	}
	wantWords(t, "messages", got.Messages.Chunk, "2 3 4")
	wantWords(t, "before them", messages(t, bob, room, "dir=b&limit=2&from="+got.Messages.Start).Chunk, "1 0")
	if state := words(got.State); !strings.Contains(state, "create") || !strings.Contains(state, "@bob=join") {
		t.Errorf("state is %s", state)
	}
	sayNumbers(alice, room, 5, 6)
	wantWords(t, "after them", messages(t, bob, room, "dir=f&from="+got.Messages.End).Chunk, "5")
	bob.Leave(room)
	sayNumbers(alice, room, 6, 7)
	if got = read(bob, "limit=2"); got.Membership != "leave" || words(got.Messages.Chunk) != "5 @bob=leave" {
		t.Errorf("who left got %+v", got)
	}
	hiddenFrom(carol, 403, room, "", "initialSync")
	hiddenFrom(carol, 403, "!nowhere:elsewhere.test", "", "initialSync")
	alice.SetState(room, "m.room.history_visibility", "", `{"history_visibility":"world_readable"}`)
	sayNumbers(alice, room, 7, 8)
	if got = read(carol, ""); got.Membership != "" || words(got.Messages.Chunk) != "history_visibility 7" || len(got.State) == 0 || len(got.Data) != 0 {
		t.Errorf("who peeks got %+v", got)
	}
}
