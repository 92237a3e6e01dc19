package acceptance

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// TestGapIsPaged: what a limited timeline leaves out is what paging back from
// prev_batch to the client's token finds, each event once, while more are sent.
func TestGapIsPaged(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	room := alice.CreateRoom(`{"preset":"public_chat"}`)
	bob.Join(room)
	since := bob.Sync().NextBatch
	var sent []matrix.EventID
	for i := range 25 {
		sent = append(sent, alice.Say(room, fmt.Sprint(i)))
	}
	s := bob.SyncWith(url.Values{"filter": {`{"room":{"timeline":{"limit":4}}}`}})
	told := s.Rooms.Join[room].Timeline
	if !told.Limited || !slices.Equal(told.IDs(), sent[21:]) {
		t.Fatalf("got %v, limited %v", told.IDs(), told.Limited)
	}
	var paged []matrix.EventID
	for from := told.Prev; from != ""; {
		alice.Say(room, "meanwhile")
		q := url.Values{"from": {from}, "to": {since}, "dir": {"b"}, "limit": {"6"}}
		var page struct {
			Chunk []testserver.RoomEvent `json:"chunk"`
			End   string                 `json:"end"`
		}
		bob.Must(http.MethodGet, testserver.RoomPath(room, "messages")+"?"+q.Encode(), nil).Decode(t, &page)
		for _, e := range page.Chunk {
			paged = append(paged, e.ID)
		}
		if from = page.End; len(page.Chunk) == 0 {
			break
		}
	}
	slices.Reverse(paged)
	if !slices.Equal(paged, sent[:21]) {
		t.Errorf("paging found %d events, want the 21 that were left out:\ngot  %v\nwant %v", len(paged), paged, sent[:21])
	}
}

// TestSyncRoomShape compares the parts of a room's entry with the
// specification's, with either form of the state.
func TestSyncRoomShape(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	room := alice.CreateRoom(`{"preset":"public_chat"}`)
	other := alice.CreateRoom(`{"preset":"private_chat"}`)
	alice.Invite(other, bob)
	bob.Join(room)
	bob.Leave(room)
	for _, c := range []struct {
		who      *testserver.Client
		query    url.Values
		section  string
		room     matrix.RoomID
		want     []string
		timeline []string
	}{
		{alice, nil, "join", room, []string{"account_data", "ephemeral", "state", "summary", "timeline"}, []string{"events", "limited", "prev_batch"}},
		{alice, url.Values{"use_state_after": {"true"}}, "join", room, []string{"account_data", "ephemeral", "state_after", "summary", "timeline"}, []string{"events", "limited", "prev_batch"}},
		{bob, url.Values{"filter": {`{"room":{"include_leave":true}}`}}, "leave", room, []string{"account_data", "state", "timeline"}, []string{"events", "limited", "prev_batch"}},
		{bob, nil, "invite", other, []string{"invite_state"}, nil},
	} {
		c.who.Rewind("")
		rooms := map[string]map[matrix.RoomID]map[string]jsontext.Value{}
		if err := decode(c.who.SyncWith(c.query).Raw["rooms"], &rooms); err != nil {
			t.Fatal(err)
		}
		entry := rooms[c.section][c.room]
		if got := keys(entry); !slices.Equal(got, c.want) {
			t.Errorf("%s %s: got %v, want %v", c.who.UserID, c.section, got, c.want)
		}
		timeline := map[string]jsontext.Value{}
		if c.timeline == nil {
			continue
		}
		if err := decode(entry["timeline"], &timeline); err != nil {
			t.Fatal(err)
		}
		if got := keys(timeline); !slices.Equal(got, c.timeline) {
			t.Errorf("%s %s: timeline has %v, want %v", c.who.UserID, c.section, got, c.timeline)
		}
	}
}

func keys(m map[string]jsontext.Value) []string {
	var names []string
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

// TestEventShapeInSync: an event in /sync has no room_id; its sender's device,
// and nobody else, is told the transaction; event_fields and event_format shape
// it.
func TestEventShapeInSync(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	phone := hs.Login("alice")
	room := alice.CreateRoom(`{"preset":"public_chat"}`)
	bob.Join(room)
	for _, c := range []*testserver.Client{alice, bob, phone} {
		c.Sync()
	}
	id := alice.SendTxn(room, "m.room.message", "T1", `{"body":"b","msgtype":"m.text"}`)
	for c, txn := range map[*testserver.Client]string{alice: "T1", bob: "", phone: ""} {
		since := c.Since()
		events := c.Sync().Rooms.Join[room].Timeline.Events
		if len(events) != 1 || events[0].ID != id || events[0].Room != "" || events[0].Unsigned.TxnID != txn || events[0].Unsigned.Membership != "join" {
			t.Errorf("%s %s: got %+v", c.UserID, c.DeviceID, events)
		}
		c.Rewind(since)
		events = c.SyncWith(url.Values{"filter": {`{"event_fields":["content.body"]}`}}).Rooms.Join[room].Timeline.Events
		if len(events) != 1 || events[0].Type != "" || canonical(t, string(events[0].Content)) != `{"body":"b"}` {
			t.Errorf("with event_fields: got %+v", events)
		}
		c.Rewind(since)
		raw := c.SyncWith(url.Values{"filter": {`{"event_format":"federation"}`}}).Raw["rooms"]
		var rooms struct {
			Join map[matrix.RoomID]struct {
				Timeline struct {
					Events []map[string]jsontext.Value `json:"events"`
				} `json:"timeline"`
			} `json:"join"`
		}
		if err := decode(raw, &rooms); err != nil {
			t.Fatal(err)
		}
		if e := rooms.Join[room].Timeline.Events; len(e) != 1 || e[0]["auth_events"] == nil || e[0]["hashes"] == nil {
			t.Errorf("with event_format: got %s", raw)
		}
	}
}
