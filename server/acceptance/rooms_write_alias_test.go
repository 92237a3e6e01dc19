package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"hearth/server/testserver"
	"hearth/storage"
	"hearth/storage/matrix"
)

// lookUp resolves an alias as anybody may, without a token.
func lookUp(t *testing.T, hs *testserver.Server, alias matrix.RoomAlias) (room matrix.RoomID, status int) {
	t.Helper()
	a, err := hs.Do(t.Context(), "", "GET", testserver.AliasPath(alias), nil)
	if err != nil {
		t.Fatal(err)
	}
	var out struct {
		Room    matrix.RoomID       `json:"room_id"`
		Servers []matrix.ServerName `json:"servers"`
	}
	a.Decode(t, &out)
	if a.Status == http.StatusOK && (len(out.Servers) != 1 || out.Servers[0] != hs.Name()) {
		t.Errorf("%s is told with servers %v", alias, out.Servers)
	}
	return out.Room, a.Status
}

func wantAlias(t *testing.T, hs *testserver.Server, alias matrix.RoomAlias, room matrix.RoomID) {
	t.Helper()
	want := http.StatusOK
	if room == "" {
		want = http.StatusNotFound
	}
	if got, status := lookUp(t, hs, alias); got != room || status != want {
		t.Errorf("%s: got %d %q, want %d %q", alias, status, got, want, room)
	}
}

func inRoom(room matrix.RoomID) string { return fmt.Sprintf(`{"room_id":%q}`, room) }

func TestAliases(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room, other := publicRoom(alice, bob), publicRoom(carol)
	alias := func(local string) matrix.RoomAlias { return matrix.RoomAlias("#" + local + ":" + string(hs.Name())) }
	put := func(c *testserver.Client, a matrix.RoomAlias, to matrix.RoomID) {
		t.Helper()
		c.Must("PUT", testserver.AliasPath(a), inRoom(to))
	}

	// Whoever is in the room may name it, whatever their level.
	pub, odd := alias("pub"), alias("a/b c?ü#")
	put(bob, pub, room)
	put(alice, odd, room)
	wantAlias(t, hs, pub, room)
	wantAlias(t, hs, odd, room)
	carol.JoinAlias(odd)
	carol.Leave(room)

	alice.Want(409, matrix.Unknown, "PUT", testserver.AliasPath(pub), inRoom(room)) // is taken
	carol.Want(409, matrix.Unknown, "PUT", testserver.AliasPath(pub), inRoom(other))
	forbidden(alice, "PUT", testserver.AliasPath(pub), inRoom(other)) // is not in there
	forbidden(carol, "PUT", testserver.AliasPath(alias("new")), inRoom(room))
	forbidden(alice, "PUT", testserver.AliasPath(alias("new")), inRoom(nowhere))
	alice.Want(400, matrix.InvalidParam, "PUT", testserver.AliasPath("#new:elsewhere.test"), inRoom(room))
	wantAlias(t, hs, alias("new"), "")
	wantAlias(t, hs, pub, room)

	// The list is for those in the room, unless the room is for all to read.
	list := testserver.RoomPath(room, "aliases")
	want := fmt.Sprintf(`{"aliases":[%q,%q]}`, odd, pub)
	if got := string(bob.Must("GET", list, nil).Body); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	forbidden(carol, "GET", list, "")
	forbidden(carol, "GET", testserver.RoomPath(nowhere, "aliases"), "")
	alice.SetState(room, "m.room.history_visibility", "", `{"history_visibility":"world_readable"}`)
	if got := string(carol.Must("GET", list, nil).Body); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := string(carol.Must("GET", testserver.RoomPath(other, "aliases"), nil).Body); got != `{"aliases":[]}` {
		t.Errorf("got %s", got)
	}

	suspend(t, hs, bob)
	bob.Want(403, matrix.UserSuspended, "PUT", testserver.AliasPath(alias("sus")), inRoom(room))
	bob.Want(403, matrix.UserSuspended, "DELETE", testserver.AliasPath(pub), nil)
}

func TestDeleteAlias(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t, testserver.Config(allEndpoints))
	alice, bob, carol, root := hs.Register("alice"), hs.Register("bob"), hs.Register("carol"), registerAdmin(t, hs, "root")
	room := publicRoom(alice, bob, carol)
	names := map[string]matrix.RoomAlias{}
	for _, local := range []string{"mine", "bobs", "bobs2", "bobs3", "main", "alt", "kept"} {
		names[local] = matrix.RoomAlias("#" + local + ":" + string(hs.Name()))
		by := alice
		if strings.HasPrefix(local, "bobs") {
			by = bob
		}
		by.Must("PUT", testserver.AliasPath(names[local]), inRoom(room))
	}
	path := func(local string) string { return testserver.AliasPath(names[local]) }

	forbidden(bob, "DELETE", path("mine"), "") // made by another, and the level is too low
	forbidden(carol, "DELETE", path("bobs"), "")
	bob.Must("DELETE", path("bobs"), nil)    // made it
	alice.Must("DELETE", path("bobs2"), nil) // may set the room's aliases
	root.Must("DELETE", path("bobs3"), nil)  // administers the server
	bob.Want(404, matrix.NotFound, "DELETE", path("bobs"), nil)
	bob.Want(404, matrix.NotFound, "DELETE", testserver.AliasPath("#a:elsewhere.test"), nil)
	for _, gone := range []string{"bobs", "bobs2", "bobs3"} {
		wantAlias(t, hs, names[gone], "")
	}
	wantAlias(t, hs, names["mine"], room)

	// What the room says of itself follows, where the deleter may say it.
	alice.SetState(room, "m.room.canonical_alias", "", fmt.Sprintf(`{"alias":%q,"alt_aliases":[%q,%q],"k":1}`, names["main"], names["alt"], names["kept"]))
	alice.Must("DELETE", path("alt"), nil)
	wantState(t, alice, room, "m.room.canonical_alias", "", fmt.Sprintf(`{"alias":%q,"alt_aliases":[%q],"k":1}`, names["main"], names["kept"]))
	alice.Must("DELETE", path("main"), nil)
	wantState(t, alice, room, "m.room.canonical_alias", "", fmt.Sprintf(`{"alt_aliases":[%q],"k":1}`, names["kept"]))
	root.Must("DELETE", path("kept"), nil)
	wantState(t, alice, room, "m.room.canonical_alias", "", fmt.Sprintf(`{"alt_aliases":[%q],"k":1}`, names["kept"]))
	wantAlias(t, hs, names["kept"], "")
	alice.Must("DELETE", path("mine"), nil)
	if got := len(bodiesOf(t, alice, room, "m.room.canonical_alias")); got != 3 {
		t.Errorf("%d events name the room, want 3: an alias it does not name changes nothing", got)
	}
}

func TestCanonicalAlias(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice := hs.Register("alice")
	room, other := publicRoom(alice), publicRoom(alice)
	us := string(hs.Name())
	for local, to := range map[string]matrix.RoomID{"here": room, "here2": room, "there": other} {
		alice.Must("PUT", testserver.AliasPath(matrix.RoomAlias("#"+local+":"+us)), inRoom(to))
	}
	const typ = "m.room.canonical_alias"
	path := testserver.RoomPath(room, "state", typ)
	set := func(content string) { t.Helper(); alice.Must("PUT", path, strings.ReplaceAll(content, "US", us)) }
	refuse := func(code matrix.Code, content string) {
		t.Helper()
		alice.Want(400, code, "PUT", path, strings.ReplaceAll(content, "US", us))
	}
	set(`{"alias":"#here:US"}`)
	set(`{"alias":"#here:US","alt_aliases":["#here2:US"]}`)
	for _, content := range []string{`{"alias":"#there:US"}`, `{"alias":"#none:US"}`, `{"alias":"#here:elsewhere.test"}`, `{"alt_aliases":["#here:US","#there:US"]}`} {
		refuse(matrix.BadAlias, content)
	}
	for _, content := range []string{`{"alias":"here"}`, `{"alt_aliases":["#here"]}`, `{"alt_aliases":[""]}`} {
		refuse(matrix.InvalidParam, content)
	}
	for _, content := range []string{`{"alias":1}`, `{"alt_aliases":"#here:US"}`, `{"alt_aliases":[1]}`} {
		refuse(matrix.BadJSON, content)
	}
	wantState(t, alice, room, typ, "", strings.ReplaceAll(`{"alias":"#here:US","alt_aliases":["#here2:US"]}`, "US", us))

	// What is there already may stay, even if it points nowhere any more.
	err := hs.Store().Write(t.Context(), "drop alias", func(tx *storage.Tx) error {
		return tx.DeleteAlias(matrix.RoomAlias("#here:" + us))
	})
	if err != nil {
		t.Fatal(err)
	}
	set(`{"alias":"#here2:US","alt_aliases":["#here:US"]}`)
	set(`{"alias":null}`)
	refuse(matrix.BadAlias, `{"alt_aliases":["#here:US"]}`)
	set(`{"alias":""}`)
	set(`{}`)
	// With another state key it is another event, of which nothing is known.
	alice.Must("PUT", path+"/k", `{"alias":"x"}`)
}

func TestRoomListing(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t, testserver.Config(allEndpoints))
	alice, bob, carol, root := hs.Register("alice"), hs.Register("bob"), hs.Register("carol"), registerAdmin(t, hs, "root")
	room := publicRoom(alice, bob)
	path := v3 + "/directory/list/room/" + string(room)
	wantListed(t, alice, room, "private")
	for _, c := range []*testserver.Client{bob, carol} {
		forbidden(c, "PUT", path, `{"visibility":"public"}`)
	}
	wantListed(t, carol, room, "private")
	alice.Must("PUT", path, `{}`) // public is the default
	wantListed(t, carol, room, "public")
	alice.Must("PUT", path, `{"visibility":"public"}`)
	root.Must("PUT", path, `{"visibility":"private"}`)
	wantListed(t, carol, room, "private")
	const no = v3 + "/directory/list/room/" + string(nowhere)
	alice.Want(404, matrix.NotFound, "GET", no, nil)
	alice.Want(404, matrix.NotFound, "PUT", no, `{}`)
	suspend(t, hs, alice)
	alice.Want(403, matrix.UserSuspended, "PUT", path, `{}`)
}

// wantListed asks without a token, as anybody may.
func wantListed(t *testing.T, c *testserver.Client, room matrix.RoomID, want string) {
	t.Helper()
	a, err := c.Site().Do(t.Context(), "", "GET", v3+"/directory/list/room/"+string(room), nil)
	if err != nil || a.Status != http.StatusOK || string(a.Body) != fmt.Sprintf(`{"visibility":%q}`, want) {
		t.Errorf("listing: %v, %v; want %s", a, err, want)
	}
}
