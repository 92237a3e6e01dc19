package acceptance

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

func eventPath(room matrix.RoomID, id matrix.EventID) string {
	return testserver.RoomPath(room, "event", string(id))
}

func TestRoomEvent(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room, other := privateRoom(alice, "joined"), privateRoom(alice, "")
	before := alice.Say(room, "before")
	enter(room, alice, bob)
	txn := alice.NextTxn()
	during := alice.SendTxn(room, "m.room.message", txn, `{"body":"during","msgtype":"m.text"}`)
	bob.Leave(room)
	after := alice.Say(room, "after")
	read := func(c *testserver.Client, id matrix.EventID) (e told) {
		t.Helper()
		c.Must("GET", eventPath(room, id), nil).Decode(t, &e)
		return e
	}
	e := read(alice, during)
	if e.ID != during || e.Room != room || e.Sender != alice.UserID || e.String() != "during" || e.TS == 0 || e.Unsigned.Txn != txn || e.Unsigned.Membership != "join" {
		t.Errorf("got %+v", e)
	}
	if again := hs.Login("alice"); read(again, during).Unsigned.Txn != "" {
		t.Error("another device is told the transaction ID")
	}
	if e := read(bob, during); e.Unsigned.Txn != "" || e.Unsigned.Membership != "join" {
		t.Errorf("got %+v", e)
	}
	none := func(c *testserver.Client, room matrix.RoomID, id matrix.EventID) string {
		t.Helper()
		return string(c.Want(http.StatusNotFound, matrix.NotFound, "GET", eventPath(room, id), nil).Body)
	}
	// Hidden, in another room, never sent: the answers do not differ.
	answer := none(alice, room, "$nosuch")
	for _, got := range []string{
		none(bob, room, before), none(bob, room, after), none(carol, room, during), none(carol, room, "$nosuch"),
		none(alice, other, during), none(alice, "!nowhere:elsewhere.test", during), none(carol, other, "$nosuch"),
	} {
		if got != answer {
			t.Errorf("got %s, want %s", got, answer)
		}
	}
	// Redacted, it says so.
	alice.Redact(room, during, "rude")
	if e := read(alice, during); len(e.Content) > 0 || !strings.Contains(string(e.Unsigned.Because), "rude") {
		t.Errorf("got %+v", e)
	}
	if e := read(bob, during); len(e.Content) > 0 || strings.Contains(string(e.Unsigned.Because), "rude") || len(e.Unsigned.Because) == 0 {
		t.Errorf("bob, who left before, got %+v", e)
	}
	// While everyone may read, everyone may read this too.
	alice.SetState(room, "m.room.history_visibility", "", `{"history_visibility":"world_readable"}`)
	public := alice.Say(room, "public")
	if e := read(carol, public); e.String() != "public" || e.Unsigned.Membership != "leave" {
		t.Errorf("got %+v", e)
	}
	none(carol, room, after)
	alice.SetState(room, "m.room.history_visibility", "", `{"history_visibility":"joined"}`)
	read(carol, public)
}

// contextOf is an answer of /context.
type contextOf struct {
	Start  string `json:"start"`
	End    string `json:"end"`
	Event  told   `json:"event"`
	Before []told `json:"events_before"`
	After  []told `json:"events_after"`
	State  []told `json:"state"`
}

func around(t *testing.T, c *testserver.Client, room matrix.RoomID, id matrix.EventID, query string) (out contextOf) {
	t.Helper()
	get(t, c, &out, room, query, "context", string(id))
	if out.Before == nil || out.After == nil || out.State == nil || out.Start == "" || out.End == "" {
		t.Errorf("something is missing: %+v", out)
	}
	return out
}

func TestContext(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := privateRoom(alice, "")
	enter(room, alice, bob)
	var ids []matrix.EventID
	for i := range 10 {
		ids = append(ids, alice.Say(room, fmt.Sprint(i)))
	}
	for query, want := range map[string][2]string{
		"": {"4 3 2 1 0", "6 7 8 9"}, "limit=4": {"4 3", "6 7"}, "limit=5": {"4 3", "6 7 8"}, "limit=1": {"", "6"}, "limit=0": {"", ""},
	} {
		got := around(t, alice, room, ids[5], query)
		if got.Event.ID != ids[5] || words(got.Before) != want[0] || words(got.After) != want[1] {
			t.Errorf("%s: got %s | %s | %s", query, words(got.Before), got.Event, words(got.After))
		}
		// The tokens go on where this ended.
		rest := words(messages(t, alice, room, "dir=f&limit=100&from="+got.End).Chunk)
		if all := strings.TrimSpace(want[1] + " " + rest); all != "6 7 8 9" {
			t.Errorf("%s: forwards got %s", query, all)
		}
		back := words(messages(t, alice, room, "dir=b&limit=6&from="+got.Start).Chunk)
		if all := strings.TrimSpace(want[0] + " " + back); !strings.HasPrefix(all, "4 3 2 1 0 @bob=join") {
			t.Errorf("%s: backwards got %s", query, all)
		}
	}

	// The state is that at the last event, whatever came later.
	alice.SetState(room, "m.room.topic", "", `{"topic":"one"}`)
	marked := bob.Say(room, "marked")
	alice.SetState(room, "m.room.topic", "", `{"topic":"two"}`)
	topic := func(c contextOf) (topics string) {
		for _, e := range c.State {
			if e.Type == "m.room.topic" {
				topics += fmt.Sprint(e.Content["topic"])
			}
		}
		return topics
	}
	if got := topic(around(t, alice, room, marked, "limit=0")); got != "one" {
		t.Errorf("got %s", got)
	}
	if got := topic(around(t, alice, room, marked, "limit=2")); got != "two" {
		t.Errorf("got %s", got)
	}

	// A filter holds back all but the event itself; lazy loading only members.
	with := func(filter string) contextOf {
		return around(t, alice, room, marked, "limit=8&filter="+url.QueryEscape(filter))
	}
	got := with(`{"types":["m.room.topic"]}`)
	if got.Event.ID != marked || words(got.Before) != "topic" || words(got.After) != "topic" || words(got.State) != "topic" {
		t.Errorf("got %s | %s | %s", words(got.Before), words(got.After), words(got.State))
	}
	if got = with(`{"types":["m.room.member"],"lazy_load_members":true,"limit":0}`); sortedWords(got.State) != "@bob=join" {
		t.Errorf("got %s", words(got.State))
	}
	if got = with(`{"lazy_load_members":true}`); !strings.HasPrefix(sortedWords(got.State), "@alice=join @bob=join create ") {
		t.Errorf("got %s", sortedWords(got.State))
	}
	if got = with(`{"limit":2}`); len(got.Before)+len(got.After) != 2 {
		t.Errorf("got %d events", len(got.Before)+len(got.After))
	}

	hiddenFrom(carol, 403, room, "", "context", string(marked))
	hiddenFrom(carol, 403, room, "", "context", "$nosuch")
	hiddenFrom(alice, 403, "!nowhere:elsewhere.test", "", "context", string(marked))
	hiddenFrom(alice, 404, room, "", "context", "$nosuch")
	hiddenFrom(alice, 404, privateRoom(alice, ""), "", "context", string(marked))
}

func TestContextOfOneWhoLeft(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := privateRoom(alice, "joined")
	before := alice.Say(room, "before")
	enter(room, alice, bob)
	during := alice.Say(room, "during")
	bob.Leave(room)
	after := alice.Say(room, "after")
	got := around(t, bob, room, during, "limit=6")
	if words(got.Before) != "@bob=join" && !strings.HasPrefix(words(got.Before), "@bob=join ") || words(got.After) != "@bob=leave" {
		t.Errorf("got %s | %s", words(got.Before), words(got.After))
	}
	if strings.Contains(words(got.Before), "before") {
		t.Error("bob sees what was before him")
	}
	hiddenFrom(bob, 404, room, "", "context", string(before))
	hiddenFrom(bob, 404, room, "", "context", string(after))
	alice.SetState(room, "m.room.history_visibility", "", `{"history_visibility":"world_readable"}`)
	public := alice.Say(room, "public")
	got = around(t, carol, room, public, "limit=6")
	if words(got.Before) != "history_visibility" || words(got.After) != "" {
		t.Errorf("who peeks got %s | %s", words(got.Before), words(got.After))
	}
	hiddenFrom(carol, 404, room, "", "context", string(after))
}

func TestTimestampToEvent(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := privateRoom(alice, "joined")
	hidden := alice.Say(room, "hidden")
	enter(room, alice, bob)
	seen := alice.Say(room, "seen")
	last := alice.Say(room, "last")
	path := v1 + "/rooms/" + url.PathEscape(string(room)) + "/timestamp_to_event"
	nearest := func(c *testserver.Client, dir string, ts int64) (e told) {
		t.Helper()
		c.Must("GET", fmt.Sprintf("%s?dir=%s&ts=%d", path, dir, ts), nil).Decode(t, &e)
		return e
	}
	ts := func(id matrix.EventID) (e told) {
		alice.Must("GET", eventPath(room, id), nil).Decode(t, &e)
		return e
	}
	if got := nearest(alice, "b", 1<<60); got.ID != last || got.TS != ts(last).TS {
		t.Errorf("got %+v, want %s", got, last)
	}
	first := nearest(alice, "f", 0)
	if e := ts(first.ID); e.Type != matrix.TypeCreate {
		t.Errorf("got %s", e.Type)
	}
	if got := nearest(alice, "f", ts(hidden).TS); got.TS != ts(hidden).TS {
		t.Errorf("got %+v", got)
	}
	if got := nearest(bob, "b", ts(seen).TS); got.TS != ts(seen).TS {
		t.Errorf("got %+v", got)
	}
	// What bob may not see is passed over: between the first events of the room,
	// when its history was shared, and his joining, he finds the joining.
	for _, e := range []matrix.EventID{hidden} {
		got := nearest(bob, "f", ts(e).TS)
		if got.ID == hidden {
			t.Error("bob is told of a hidden event")
		}
		bob.Must("GET", eventPath(room, got.ID), nil)
	}
	alice.Want(http.StatusNotFound, matrix.NotFound, "GET", path+"?dir=f&ts=99999999999999", nil)
	alice.Want(http.StatusNotFound, matrix.NotFound, "GET", path+"?dir=b&ts=1", nil)
	carol.Want(http.StatusForbidden, matrix.Forbidden, "GET", path+"?dir=b&ts=1", nil)
}
