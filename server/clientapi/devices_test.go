package clientapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hearth/server/account"
	"hearth/server/clientapi"
	"hearth/storage"
	"hearth/storage/matrix"
)

func TestDevices(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.register("alice"), s.register("bob")
	two := a.again("T%2F/ wo")
	one := v3 + "/devices/" + a.device
	s.do("", "GET", v3+"/devices", "").fails(401, matrix.MissingToken)
	if list := a.do("GET", v3+"/devices", "").ok().body["devices"].([]any); len(list) != 2 {
		t.Fatalf("got %v", list)
	}
	if got := a.do("GET", v3+"/devices/"+esc(two.device), "").ok(); got.raw != text(map[string]any{"device_id": two.device}) {
		t.Fatalf("got %s", got.raw)
	}
	b.do("GET", one, "").fails(404, matrix.NotFound)
	a.do("GET", v3+"/devices/none", "").fails(404, matrix.NotFound)

	a.do("PUT", one, `{"display_name":"phone"}`).ok()
	a.do("PUT", one, `{}`).ok() // leaves it
	if got := a.do("GET", one, "").ok(); got.str("display_name") != "phone" {
		t.Fatalf("got %s", got.raw)
	}
	b.do("PUT", one, `{"display_name":"mine"}`).fails(404, matrix.NotFound)
	a.do("PUT", v3+"/devices/none", `{"display_name":"x"}`).fails(404, matrix.NotFound)
	a.do("PUT", one, `{"display_name":5}`).fails(400, matrix.BadJSON)
	a.do("PUT", one, ``).fails(400, matrix.NotJSON)
	a.do("PUT", one, `{"display_name":"`+strings.Repeat("x", 257)+`"}`).fails(400, matrix.InvalidParam)
	if got := a.do("GET", one, "").ok(); got.str("display_name") != "phone" {
		t.Fatalf("got %s", got.raw)
	}
	a.do("POST", one, `{}`).fails(405, matrix.Unrecognized)
}

func TestDeleteDevice(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.register("alice"), s.register("bob")
	two, three := a.again("TWO"), a.again("THREE")
	path := func(device string) string { return v3 + "/devices/" + device }
	session := a.do("DELETE", path("TWO"), "").challenge("")
	a.do("DELETE", path("THREE"), text(map[string]any{"auth": a.auth(session)})).challenge(matrix.Forbidden) // was for TWO
	three.alive()
	// Any device of the user may go on with the session.
	three.do("DELETE", path("TWO"), text(map[string]any{"auth": a.auth(session)})).ok()
	two.dead()
	a.do("GET", path("TWO"), "").fails(404, matrix.NotFound)
	a.do("DELETE", path("TWO"), text(map[string]any{"auth": a.auth("")})).ok()   // had been removed
	b.do("DELETE", path("THREE"), text(map[string]any{"auth": b.auth("")})).ok() // of bob's there is none
	three.alive()
	a.do("DELETE", path(a.device), text(map[string]any{"auth": a.auth("")})).ok()
	a.dead()
	s.do("", "DELETE", path("THREE"), "").fails(401, matrix.MissingToken)
}

func TestDeleteDevices(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.register("alice")
	two, three := a.again("TWO"), a.again("THREE")
	const path = v3 + "/delete_devices"
	a.do("POST", path, `{}`).fails(400, matrix.MissingParam)
	a.do("POST", path, `{"devices":"TWO"}`).fails(400, matrix.BadJSON)
	a.do("POST", path, `{"devices":[""]}`).fails(400, matrix.BadJSON)
	a.do("POST", path, text(map[string]any{"auth": a.auth("")})).fails(400, matrix.MissingParam)
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	a.do("POST", path, text(map[string]any{"devices": many})).fails(400, matrix.InvalidParam)

	session := a.do("POST", path, `{"devices":["TWO","none"]}`).challenge("")
	a.do("POST", path, text(map[string]any{"devices": []string{"THREE"}, "auth": a.auth(session)})).challenge(matrix.Forbidden)
	three.alive()
	a.do("POST", path, text(map[string]any{"devices": []string{"none", "TWO"}, "auth": a.auth(session)})).ok()
	two.dead()
	three.alive()
	// The remembered request is performed where only the proof comes back.
	session = a.do("POST", path, `{"devices":["THREE"]}`).challenge("")
	a.do("POST", path, text(map[string]any{"auth": a.auth(session)})).ok()
	three.dead()
	a.alive()
	s.do("", "POST", path, `{"devices":[]}`).fails(401, matrix.MissingToken)
}

// A deleted device's long poll ends with 401.
func TestDeleteEndsLongPoll(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.register("alice")
	two := a.again("TWO")
	since := two.do("GET", v3+"/sync", "").ok().str("next_batch")
	done := make(chan *answer)
	go func() { done <- two.do("GET", v3+"/sync?timeout=60000&since="+since, "") }()
	a.do("DELETE", v3+"/devices/TWO", text(map[string]any{"auth": a.auth("")})).ok()
	select {
	case got := <-done:
		got.fails(401, matrix.UnknownToken)
	case <-time.After(20 * time.Second):
		t.Fatal("the poll goes on")
	}
}

func TestLastSeen(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.register("alice")
	seen := func() float64 {
		if err := s.store.Write(t.Context(), "take housekeeping along", func(*storage.Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
		got := a.do("GET", v3+"/devices/"+a.device, "").ok()
		ms, _ := got.body["last_seen_ts"].(float64)
		if ms != 0 && got.str("last_seen_ip") != "127.0.0.1" {
			t.Fatalf("got %s", got.raw)
		}
		return ms
	}
	a.alive()
	first := seen()
	if first == 0 {
		t.Fatal("the device was not seen")
	}
	a.alive()
	if got := seen(); got != first {
		t.Fatalf("written again after %v ms", got-first)
	}
	s.clock.add(6 * time.Minute)
	a.alive()
	if got := seen(); got < first+360_000 {
		t.Fatalf("last seen %v after %v", got, first)
	}
	who := a.do("GET", v3+"/admin/whois/"+esc(a.id), "").ok()
	if !strings.Contains(who.raw, "test agent") {
		t.Fatalf("got %s", who.raw)
	}
}

func TestMaxDevices(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *account.Options, _ *clientapi.Options) { o.MaxDevices = 3 })
	a := s.register("alice")
	two := a.again("TWO")
	a.again("THREE")
	s.login("alice", map[string]any{"device_id": "FOUR"}).fails(403, matrix.Forbidden) // all are fresh
	s.login("alice", map[string]any{"device_id": "TWO"}).ok()                          // needs no room
	two.dead()
	a.do("POST", v3+"/logout", "").ok()
	s.login("alice", map[string]any{"device_id": "FOUR"}).ok()
}
