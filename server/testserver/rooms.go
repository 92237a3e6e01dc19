package testserver

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"hearth/storage/matrix"
)

const clientV3 = "/_matrix/client/v3"

// RoomPath is the path of something of a room: RoomPath(id, "state",
// "m.room.name"). Each part is percent-encoded.
func RoomPath(room matrix.RoomID, parts ...string) string {
	path := clientV3 + "/rooms/" + url.PathEscape(string(room))
	for _, p := range parts {
		path += "/" + url.PathEscape(p)
	}
	return path
}

// AliasPath is the path of an alias in the directory.
func AliasPath(alias matrix.RoomAlias) string {
	return clientV3 + "/directory/room/" + url.PathEscape(string(alias))
}

// CreateRoom makes a room by what POST /createRoom takes, as JSON text; empty
// means {}.
func (c *Client) CreateRoom(options string) matrix.RoomID {
	c.site.tb.Helper()
	if options == "" {
		options = "{}"
	}
	var out struct {
		Room matrix.RoomID `json:"room_id"`
	}
	c.Must(http.MethodPost, clientV3+"/createRoom", options).Decode(c.site.tb, &out)
	if out.Room == "" {
		c.site.tb.Fatal("createRoom answered without a room_id")
	}
	return out.Room
}

// Act does one of join, leave, forget, invite, kick, ban, unban in a room. The
// body is JSON text; empty means {}.
func (c *Client) Act(act string, room matrix.RoomID, body string) {
	c.site.tb.Helper()
	if body == "" {
		body = "{}"
	}
	c.Must(http.MethodPost, RoomPath(room, act), body)
}

// Join joins the room.
func (c *Client) Join(room matrix.RoomID) { c.site.tb.Helper(); c.Act("join", room, "") }

// JoinAlias joins the room that the alias points to.
func (c *Client) JoinAlias(alias matrix.RoomAlias) {
	c.site.tb.Helper()
	c.Must(http.MethodPost, clientV3+"/join/"+url.PathEscape(string(alias)), "{}")
}

// Leave leaves the room, rejects an invite to it or takes back a knock.
func (c *Client) Leave(room matrix.RoomID) { c.site.tb.Helper(); c.Act("leave", room, "") }

// Forget forgets a room that was left.
func (c *Client) Forget(room matrix.RoomID) { c.site.tb.Helper(); c.Act("forget", room, "") }

// Knock asks to be let into the room.
func (c *Client) Knock(room matrix.RoomID) {
	c.site.tb.Helper()
	c.Must(http.MethodPost, clientV3+"/knock/"+url.PathEscape(string(room)), "{}")
}

// Invite invites another user.
func (c *Client) Invite(room matrix.RoomID, whom *Client) {
	c.site.tb.Helper()
	c.Act("invite", room, whom.asTarget())
}

// Kick removes another user.
func (c *Client) Kick(room matrix.RoomID, whom *Client) {
	c.site.tb.Helper()
	c.Act("kick", room, whom.asTarget())
}

// Ban bans another user.
func (c *Client) Ban(room matrix.RoomID, whom *Client) {
	c.site.tb.Helper()
	c.Act("ban", room, whom.asTarget())
}

// Unban ends another user's ban.
func (c *Client) Unban(room matrix.RoomID, whom *Client) {
	c.site.tb.Helper()
	c.Act("unban", room, whom.asTarget())
}

func (c *Client) asTarget() string { return `{"user_id":` + quote(string(c.UserID)) + `}` }

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // not UTF-8: a mistake in the test
	}
	return string(b)
}

// Send sends an event with this content, as JSON text, under a new transaction ID.
func (c *Client) Send(room matrix.RoomID, eventType, content string) matrix.EventID {
	c.site.tb.Helper()
	return c.SendTxn(room, eventType, c.NextTxn(), content)
}

// SendTxn sends an event under a transaction ID of the caller's choice.
func (c *Client) SendTxn(room matrix.RoomID, eventType, txn, content string) matrix.EventID {
	c.site.tb.Helper()
	return c.event(RoomPath(room, "send", eventType, txn), content)
}

// Say sends a text message.
func (c *Client) Say(room matrix.RoomID, text string) matrix.EventID {
	c.site.tb.Helper()
	return c.Send(room, "m.room.message", `{"msgtype":"m.text","body":`+quote(text)+`}`)
}

// SetState sends a state event.
func (c *Client) SetState(room matrix.RoomID, eventType, stateKey, content string) matrix.EventID {
	c.site.tb.Helper()
	return c.event(RoomPath(room, "state", eventType, stateKey), content)
}

// Redact redacts an event, with a reason unless that is empty.
func (c *Client) Redact(room matrix.RoomID, event matrix.EventID, reason string) matrix.EventID {
	c.site.tb.Helper()
	body := "{}"
	if reason != "" {
		body = `{"reason":` + quote(reason) + `}`
	}
	return c.event(RoomPath(room, "redact", string(event), c.NextTxn()), body)
}

func (c *Client) event(path, body string) matrix.EventID {
	c.site.tb.Helper()
	var out struct {
		Event matrix.EventID `json:"event_id"`
	}
	c.Must(http.MethodPut, path, body).Decode(c.site.tb, &out)
	if !strings.HasPrefix(string(out.Event), "$") {
		c.site.tb.Fatalf("PUT %s answered with event_id %q", path, out.Event)
	}
	return out.Event
}

// StateContent is the content of a state event as this client is told it, as
// JSON text in canonical form.
func (c *Client) StateContent(room matrix.RoomID, eventType, stateKey string) string {
	c.site.tb.Helper()
	return canonical(c.site.tb, string(c.Must(http.MethodGet, RoomPath(room, "state", eventType, stateKey), nil).Body))
}

// Membership is a user's membership of a room in its current state, as this
// client is told it; empty if there is none.
func (c *Client) Membership(room matrix.RoomID, user matrix.UserID) string {
	c.site.tb.Helper()
	a, err := c.Do(c.site.tb.Context(), http.MethodGet, RoomPath(room, "state", matrix.TypeMember, string(user)), nil)
	if err != nil {
		c.site.tb.Fatalf("membership: %v", err)
	}
	if a.Status == http.StatusNotFound {
		return ""
	}
	var out struct {
		Membership string `json:"membership"`
	}
	if a.Status != http.StatusOK {
		c.site.tb.Fatalf("membership of %s: %s", user, a)
	}
	a.Decode(c.site.tb, &out)
	return out.Membership
}
