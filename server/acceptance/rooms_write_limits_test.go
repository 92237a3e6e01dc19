package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"hearth/server/config"
	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// Whatever others receive or have to store counts against the sender's limit.
func TestRoomWritesAreLimited(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t, testserver.Config(func(c *config.Config) {
		c.RateLimits.Enabled = true
		c.RateLimits.Sending = config.Rate{PerSecond: 0.001, Burst: 2}
	}))
	alice, bob := hs.Register("alice"), hs.Register("bob")
	room := publicRoom(alice)
	alice.Say(room, "x")
	vars := strings.NewReplacer("{roomId}", string(room), "{roomIdOrAlias}", string(room), "{roomAlias}", "%23a:hs.test",
		"{eventType}", "m.test", "{stateKey}", "k", "{txnId}", "1", "{eventId}", "$x")
	n := 0
	for _, route := range hs.Routes() {
		method, path, _ := strings.Cut(route, " ")
		about := strings.Contains(path, "/rooms/") || strings.Contains(path, "/directory/") || strings.HasSuffix(path, "}") && strings.Contains(path, "{roomIdOrAlias}")
		if method == "GET" || path != createRoom && !about || strings.Contains(path, "account_data") || strings.Contains(path, "/federation/") {
			continue
		}
		n++
		a := alice.Want(http.StatusTooManyRequests, matrix.LimitExceeded, method, vars.Replace(path), `{}`)
		var body struct {
			After int `json:"retry_after_ms"`
		}
		if err := json.Unmarshal(a.Body, &body); err != nil || body.After <= 0 || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %s, Retry-After %q", route, a, a.Header.Get("Retry-After"))
		}
	}
	if n < 19 {
		t.Errorf("looked at %d routes", n)
	}
	bob.Join(room) // another's limit is another
}

// A room is made of so many events and invites, and has so many aliases; who
// asks for more is told the bound, and nothing of the request is done.
func TestRoomsAreBounded(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t, testserver.Config(func(c *config.Config) {
		c.Rooms = config.Rooms{MaxInitialState: 20, MaxInvites: 10, MaxAliases: 2}
	}))
	alice := hs.Register("alice")
	list := func(n int, one string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]"
	}
	const event = `{"type":"m.test","content":{}}`
	before := joinedRooms(t, alice)
	alice.Want(413, matrix.TooLarge, "POST", createRoom, `{"initial_state":`+list(21, event)+`}`)
	alice.Want(413, matrix.TooLarge, "POST", createRoom, `{"invite":`+list(11, `"@bob:hs.test"`)+`}`)
	if after := joinedRooms(t, alice); after != before {
		t.Errorf("%s were made of requests that were refused", after)
	}
	room := alice.CreateRoom(`{"room_alias_name":"one","initial_state":` + list(20, event) + `}`)
	alice.Must("PUT", testserver.AliasPath("#two:hs.test"), inRoom(room))
	alice.Want(413, matrix.TooLarge, "PUT", testserver.AliasPath("#three:hs.test"), inRoom(room))
	alice.Must("DELETE", testserver.AliasPath("#one:hs.test"), nil)
	alice.Must("PUT", testserver.AliasPath("#three:hs.test"), inRoom(room))
}

// A request that makes many events counts as many: nobody makes others wait
// longer by asking for all at once. It is let through when the sender was quiet
// for long enough, however much it asks for.
func TestLargeRequestsCountMore(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t, testserver.Config(func(c *config.Config) {
		c.RateLimits.Enabled = true
		c.RateLimits.Sending = config.Rate{PerSecond: 0.001, Burst: 30}
	}))
	events := `{"initial_state":[` + strings.TrimSuffix(strings.Repeat(`{"type":"m.test","content":{}},`, 16), ",") + `]}`
	alice := hs.Register("alice")
	alice.CreateRoom(events)
	alice.Want(http.StatusTooManyRequests, matrix.LimitExceeded, "POST", createRoom, events)
	alice.CreateRoom("") // a small one is let through still

	bob := hs.Register("bob")
	bob.CreateRoom(strings.Replace(events, `[`, `[`+strings.Repeat(`{"type":"m.test","content":{}},`, 80), 1))
	bob.Want(http.StatusTooManyRequests, matrix.LimitExceeded, "POST", createRoom, `{}`)

	carol := hs.Register("carol")
	room := carol.CreateRoom("")
	for i := range 20 {
		carol.Act("ban", room, fmt.Sprintf(`{"user_id":"@spam%d:elsewhere.test"}`, i))
	}
	carol.Want(http.StatusTooManyRequests, matrix.LimitExceeded, "POST", testserver.RoomPath(room, "upgrade"), `{"new_version":"12"}`)
}
