package acceptance

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// told is an event as a client reads it.
type told struct {
	ID       matrix.EventID `json:"event_id"`
	Type     string         `json:"type"`
	Key      *string        `json:"state_key"`
	Sender   matrix.UserID  `json:"sender"`
	Room     matrix.RoomID  `json:"room_id"`
	TS       int64          `json:"origin_server_ts"`
	Content  map[string]any `json:"content"`
	Unsigned struct {
		Membership string         `json:"membership"`
		Prev       map[string]any `json:"prev_content"`
		Txn        string         `json:"transaction_id"`
		Because    jsontext.Value `json:"redacted_because"`
	} `json:"unsigned"`
}

func (e told) String() string {
	switch {
	case e.Content["body"] != nil:
		return fmt.Sprint(e.Content["body"])
	case e.Type == matrix.TypeMember:
		return strings.SplitN(*e.Key, ":", 2)[0] + "=" + fmt.Sprint(e.Content["membership"])
	}
	return strings.TrimPrefix(e.Type, "m.room.")
}

// words are the events as a test writes them: what a message says, the type of
// other events, "@user=join" for memberships.
func words(events []told) string {
	var list []string
	for _, e := range events {
		list = append(list, e.String())
	}
	return strings.Join(list, " ")
}

// get reads something of a room into out.
func get(t *testing.T, c *testserver.Client, out any, room matrix.RoomID, query string, parts ...string) {
	t.Helper()
	c.Must("GET", testserver.RoomPath(room, parts...)+"?"+query, nil).Decode(t, out)
}

// hiddenFrom checks that a user may not read something of a room.
func hiddenFrom(c *testserver.Client, status int, room matrix.RoomID, query string, parts ...string) {
	code := matrix.Forbidden
	if status == 404 {
		code = matrix.NotFound
	}
	c.Want(status, code, "GET", testserver.RoomPath(room, parts...)+"?"+query, nil)
}

// page is one answer of /messages.
type page struct {
	Start string `json:"start"`
	End   string `json:"end"`
	Chunk []told `json:"chunk"`
	State []told `json:"state"`
}

func messages(t *testing.T, c *testserver.Client, room matrix.RoomID, query string) (p page) {
	t.Helper()
	get(t, c, &p, room, query, "messages")
	return p
}

// messagesWith is messages with a filter.
func messagesWith(t *testing.T, c *testserver.Client, room matrix.RoomID, query, filter string) page {
	t.Helper()
	return messages(t, c, room, query+"&filter="+url.QueryEscape(filter))
}

// privateRoom is one that others enter by invitation, with a history visibility
// of its own, empty for the default.
func privateRoom(owner *testserver.Client, visibility string) matrix.RoomID {
	if visibility == "" {
		return owner.CreateRoom(`{"preset":"private_chat"}`)
	}
	return owner.CreateRoom(fmt.Sprintf(`{"preset":"private_chat","initial_state":[{"type":"m.room.history_visibility","state_key":"","content":{"history_visibility":%q}}]}`, visibility))
}

func enter(room matrix.RoomID, owner *testserver.Client, members ...*testserver.Client) {
	for _, m := range members {
		owner.Invite(room, m)
		m.Join(room)
	}
}

func wantWords(t *testing.T, what string, events []told, want string) {
	t.Helper()
	if got := words(events); got != want {
		t.Errorf("%s: got\n%s, want\n%s", what, got, want)
	}
}
