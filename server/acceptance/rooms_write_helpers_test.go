package acceptance

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"net/http"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/testserver"
	"hearth/storage"
	"hearth/storage/matrix"
)

// stateEvent is a state event as a client is told it.
type stateEvent struct {
	ID      matrix.EventID `json:"event_id"`
	Type    string         `json:"type"`
	Key     string         `json:"state_key"`
	Sender  matrix.UserID  `json:"sender"`
	Content jsontext.Value `json:"content"`
}

// roomState is the current state of a room as the client is told it, by type
// and state key with a space between.
func roomState(t *testing.T, c *testserver.Client, room matrix.RoomID) map[string]stateEvent {
	t.Helper()
	var list []stateEvent
	c.Must("GET", testserver.RoomPath(room, "state"), nil).Decode(t, &list)
	state := map[string]stateEvent{}
	for _, e := range list {
		if err := e.Content.Canonicalize(); err != nil {
			t.Fatal(err)
		}
		state[e.Type+" "+e.Key] = e
	}
	return state
}

// wantState compares the content of one state event, empty if there must be none.
func wantState(t *testing.T, c *testserver.Client, room matrix.RoomID, typ, key, want string) {
	t.Helper()
	if got := string(roomState(t, c, room)[typ+" "+key].Content); got != want {
		t.Errorf("%s %q: got %s, want %s", typ, key, got, want)
	}
}

// wantMember compares a user's membership, as another is told it.
func wantMember(t *testing.T, as *testserver.Client, room matrix.RoomID, who *testserver.Client, want string) {
	t.Helper()
	if got := as.Membership(room, who.UserID); got != want {
		t.Errorf("%s: got %q, want %q", who.UserID, got, want)
	}
}

// timeline is what a member reads of a room from its start.
func timeline(t *testing.T, c *testserver.Client, room matrix.RoomID) []stateEvent {
	t.Helper()
	var all []stateEvent
	from := ""
	for {
		var page struct {
			Chunk []stateEvent `json:"chunk"`
			End   string       `json:"end"`
		}
		c.Must("GET", testserver.RoomPath(room, "messages")+"?dir=f&limit=100"+from, nil).Decode(t, &page)
		all = append(all, page.Chunk...)
		if page.End == "" || len(page.Chunk) == 0 {
			return all
		}
		from = "&from=" + page.End
	}
}

// bodiesOf lists the contents of a room's events of one type, in order.
func bodiesOf(t *testing.T, c *testserver.Client, room matrix.RoomID, typ string) []string {
	t.Helper()
	var list []string
	for _, e := range timeline(t, c, room) {
		if e.Type == typ {
			list = append(list, string(e.Content))
		}
	}
	return list
}

// publicRoom is a room anyone may join, with these users in it.
func publicRoom(owner *testserver.Client, members ...*testserver.Client) matrix.RoomID {
	room := owner.CreateRoom(`{"preset":"public_chat"}`)
	for _, m := range members {
		m.Join(room)
	}
	return room
}

// nowhere is a room that no server has.
const nowhere matrix.RoomID = "!nowhere:elsewhere.test"

func forbidden(c *testserver.Client, method, path, body string) {
	c.Want(http.StatusForbidden, matrix.Forbidden, method, path, body)
}

// suspend suspends a user.
func suspend(t *testing.T, hs *testserver.Server, who *testserver.Client) {
	t.Helper()
	err := hs.Store().Write(t.Context(), "suspend", func(tx *storage.Tx) error {
		u, err := tx.UserByID(who.UserID)
		if err != nil {
			return err
		}
		return tx.SuspendUser(u.Num, true)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// registerAdmin makes an administrator, on a server whose shared secret is "shared".
func registerAdmin(t *testing.T, hs *testserver.Server, name string) *testserver.Client {
	t.Helper()
	const path = "/_synapse/admin/v1/register"
	var nonce struct {
		Nonce string `json:"nonce"`
	}
	a, err := hs.Do(t.Context(), "", "GET", path, nil)
	if err != nil || a.Status != http.StatusOK {
		t.Fatal(a, err)
	}
	a.Decode(t, &nonce)
	mac := hmac.New(sha1.New, []byte("shared"))
	mac.Write([]byte(nonce.Nonce + "\x00" + name + "\x00" + testserver.Password + "\x00admin"))
	a, err = hs.Do(t.Context(), "", "POST", path, map[string]any{
		"nonce": nonce.Nonce, "username": name, "password": testserver.Password, "admin": true, "mac": hex.EncodeToString(mac.Sum(nil)),
	})
	if err != nil || a.Status != http.StatusOK {
		t.Fatal(a, err)
	}
	return hs.Login(name)
}
