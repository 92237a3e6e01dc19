package acceptance

import (
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
