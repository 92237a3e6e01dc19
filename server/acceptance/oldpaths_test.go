package acceptance

import (
	"net/http"
	"net/url"
	"testing"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// Clients from before v3 had its name use the same endpoints, and what they
// and others do is one thing.
func TestOldPaths(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice := hs.Register("alice")
	room := privateRoom(alice, "shared")
	const r0 = "/_matrix/client/r0"
	path := "/rooms/" + url.PathEscape(string(room)) + "/send/x.%2F%25/t1"
	var first, again struct {
		ID matrix.EventID `json:"event_id"`
	}
	alice.Must("PUT", r0+path, `{"body":"hello"}`).Decode(t, &first)
	alice.Must("PUT", v3+path, `{"body":"hello"}`).Decode(t, &again)
	if first.ID == "" || first != again {
		t.Errorf("one transaction made %s and %s", first.ID, again.ID)
	}
	var e told
	alice.Must("GET", v3+"/rooms/"+url.PathEscape(string(room))+"/event/"+url.PathEscape(string(first.ID)), nil).Decode(t, &e)
	if e.Type != "x./%" {
		t.Errorf("the type is %q", e.Type)
	}
	alice.Want(http.StatusNotFound, matrix.Unrecognized, "GET", r0+"/nowhere", nil)
	alice.Want(http.StatusNotFound, matrix.Unrecognized, "GET", "/_matrix/client/r0", nil)
	alice.Want(http.StatusMethodNotAllowed, matrix.Unrecognized, "DELETE", r0+"/sync", nil)
}
