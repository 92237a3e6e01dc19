package acceptance

import (
	"fmt"
	"net/http"
	"testing"

	"hearth/server/config"
	"hearth/server/testserver"
)

// A web client asks every two seconds how its registration stands while its user
// is at a stage. That is no registration, however long it takes; asking for
// another name on the way counts like any other question.
func TestWaitingAtAStageIsNoRegistration(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t, testserver.Config(func(c *config.Config) {
		c.RateLimits.Enabled = true
		c.RateLimits.Registration = config.Rate{PerSecond: 0.0001, Burst: 4}
	}))
	const path = "/_matrix/client/v3/register"
	want := func(status int, body string) *testserver.Answer {
		t.Helper()
		a, err := hs.Do(t.Context(), "", http.MethodPost, path, body)
		if err != nil || a.Status != status {
			t.Fatalf("%s: got %v, %v, want %d", body, a, err, status)
		}
		return a
	}
	var flow struct {
		Session string `json:"session"`
	}
	want(http.StatusUnauthorized, `{"username":"anna","password":"correct horse"}`).Decode(t, &flow) // 1
	body := func(name, more string) string {
		return fmt.Sprintf(`{"username":%q,"password":"correct horse","auth":{"session":%q%s}}`, name, flow.Session, more)
	}
	for range 20 {
		want(http.StatusUnauthorized, body("anna", ""))
		want(http.StatusUnauthorized, fmt.Sprintf(`{"auth":{"session":%q}}`, flow.Session))
	}
	want(http.StatusUnauthorized, body("bert", ""))              // 2
	want(http.StatusUnauthorized, body("cleo", ""))              // 3
	want(http.StatusOK, body("anna", `,"type":"m.login.dummy"`)) // 4
	want(http.StatusTooManyRequests, `{"username":"bert"}`)
}
