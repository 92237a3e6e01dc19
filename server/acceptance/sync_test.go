package acceptance

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/testserver"
)

// TestSyncShape compares whole answers with what the specification has a
// server without rooms say.
func TestSyncShape(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	const (
		keys  = `"device_one_time_keys_count":{"signed_curve25519":0},"device_unused_fallback_key_types":[],`
		lists = `"device_lists":{"changed":[],"left":[]},`
		rest  = `"rooms":{"join":{},"invite":{},"knock":{},"leave":{}},"presence":{"events":[]},"account_data":{"events":[]},`
		none  = `"to_device":{"events":[]}`
	)
	wantSync := func(query, want string) {
		t.Helper()
		a := bob.Must(http.MethodGet, "/_matrix/client/v3/sync?"+query, nil)
		body := &testserver.Sync{Raw: map[string]jsontext.Value{}}
		a.Decode(t, &body.Raw)
		bob.Rewind(strings.Trim(string(body.Raw["next_batch"]), `"`))
		delete(body.Raw, "next_batch")
		if got, want := text(t, body.Raw), canonical(t, "{"+want+"}"); canonical(t, got) != want {
			t.Errorf("sync?%s:\ngot  %s\nwant %s", query, canonical(t, got), want)
		}
	}
	since := func() string { return "&since=" + bob.Since() }
	wantSync("", keys+rest+none)
	wantSync("timeout=0"+since(), keys+lists+rest+none)
	alice.SendToDevice("m.test", bob, `{"b":[1,null],"a":"x"}`)
	wantSync("timeout=60000"+since(),
		keys+lists+rest+`"to_device":{"events":[{"sender":"@alice:hs.test","type":"m.test","content":{"a":"x","b":[1,null]}}]}`)
	wantSync("timeout=60000&full_state=true"+since(), keys+lists+rest+none) // at once, whatever the timeout
	for _, presence := range []string{"online", "offline", "unavailable"} {
		wantSync("set_presence="+presence+"&use_state_after=true&full_state=false"+since(), keys+lists+rest+none)
	}
	// A filter by ID and in place. What it names is not there to be left out.
	var filter struct {
		ID string `json:"filter_id"`
	}
	bob.Must(http.MethodPost, "/_matrix/client/v3/user/"+string(bob.UserID)+"/filter", `{"room":{"timeline":{"limit":5}}}`).Decode(t, &filter)
	wantSync("filter="+url.QueryEscape(filter.ID)+since(), keys+lists+rest+none)
	wantSync("filter="+url.QueryEscape(`{"presence":{"types":[]},"unknown":{"a":[1]}}`)+since(), keys+lists+rest+none)
	// Another user's filter is no filter of ours.
	alice.Want(http.StatusBadRequest, "M_INVALID_PARAM", http.MethodGet, "/_matrix/client/v3/sync?filter="+url.QueryEscape(filter.ID), nil)
}

func canonical(t *testing.T, s string) string {
	t.Helper()
	v := jsontext.Value(s)
	if err := v.Canonicalize(); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return string(v)
}
