package acceptance

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

func TestSend(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := publicRoom(alice, bob)
	send := func(typ string) string { return testserver.RoomPath(room, "send", typ, alice.NextTxn()) }

	for _, content := range []string{`{"body":"ü \u2028 <&>","msgtype":"m.text"}`, `{}`, `{"redacts":"$x","state_key":""}`} {
		bob.Send(room, "m.test", content)
	}
	bob.Send(room, "org/odd type+ü", `{"n":1}`)
	if got, want := strings.Join(bodiesOf(t, alice, room, "m.test"), " "), "{\"body\":\"ü \u2028 <&>\",\"msgtype\":\"m.text\"} {} {\"redacts\":\"$x\",\"state_key\":\"\"}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := bodiesOf(t, alice, room, "org/odd type+ü"); len(got) != 1 {
		t.Errorf("got %s", got)
	}

	// Who is not in the room, or has not the power, sends nothing; nor does
	// anybody what only a server makes.
	forbidden(carol, "PUT", send("m.test"), `{}`)
	forbidden(carol, "PUT", testserver.RoomPath(nowhere, "send", "m.test", "1"), `{}`)
	alice.Invite(room, carol)
	forbidden(carol, "PUT", send("m.test"), `{}`)
	for _, typ := range []string{"m.room.create", "m.room.member"} {
		forbidden(alice, "PUT", send(typ), `{"membership":"join"}`)
	}
	raise(t, alice, room, "events_default", 50)
	forbidden(bob, "PUT", send("m.test"), `{}`)
	alice.Send(room, "m.test", `{"n":4}`)
	bob.Leave(room)
	forbidden(bob, "PUT", send("m.test"), `{}`)
	if got := len(bodiesOf(t, alice, room, "m.test")); got != 4 {
		t.Errorf("%d messages, want 4", got)
	}

	suspend(t, hs, alice)
	alice.Want(403, matrix.UserSuspended, "PUT", send("m.test"), `{}`)
	if got := len(bodiesOf(t, alice, room, "m.test")); got != 4 {
		t.Errorf("%d messages after those of a suspended user, want 4", got)
	}
}

// raise sets one property of the power levels.
func raise(t *testing.T, c *testserver.Client, room matrix.RoomID, property string, level int) {
	t.Helper()
	levels := roomState(t, c, room)["m.room.power_levels "].Content
	with := hole(string(levels), "/"+property, fmt.Sprint(level))
	c.SetState(room, "m.room.power_levels", "", with)
}

func TestSendSizes(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice := hs.Register("alice")
	room := alice.CreateRoom("")
	long := strings.Repeat("x", 255)
	alice.Send(room, long, `{}`)
	alice.SetState(room, "m.test", long, `{}`)
	alice.SendTxn(room, "m.test", long, `{}`)
	alice.Send(room, "m.test", `{"b":"`+strings.Repeat("x", 64_000)+`"}`)
	alice.Send(room, "m.test", `{"b":"`+strings.Repeat(`\u0061`, 64_000)+`"}`)
	for path, code := range map[string]matrix.Code{
		testserver.RoomPath(room, "send", long+"x", "1"):       matrix.TooLarge,
		testserver.RoomPath(room, "state", "m.test", long+"x"): matrix.TooLarge,
		testserver.RoomPath(room, "state", long+"x", ""):       matrix.TooLarge,
		testserver.RoomPath(room, "send", "m.test", long+"x"):  matrix.InvalidParam,
	} {
		alice.Want(code.Status(), code, "PUT", path, `{}`)
	}
	huge := `{"b":"` + strings.Repeat("x", 65_500) + `"}`
	alice.Want(413, matrix.TooLarge, "PUT", testserver.RoomPath(room, "send", "m.test", "2"), huge)
	alice.Want(413, matrix.TooLarge, "PUT", testserver.RoomPath(room, "state", "m.test", "2"), huge)
	// What failed was not recorded.
	alice.SendTxn(room, "m.test", "2", `{}`)
}

func TestPutState(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := publicRoom(alice, bob)
	path := func(parts ...string) string { return testserver.RoomPath(room, append([]string{"state"}, parts...)...) }

	// With a key, with an empty one, and without the slash before it.
	alice.Must("PUT", path("m.test", "a/b c"), `{"n":1}`)
	alice.Must("PUT", path("m.test", ""), `{"n":2}`)
	wantState(t, bob, room, "m.test", "a/b c", `{"n":1}`)
	wantState(t, bob, room, "m.test", "", `{"n":2}`)
	alice.Must("PUT", path("m.test"), `{"n":3}`)
	wantState(t, bob, room, "m.test", "", `{"n":3}`)
	forbidden(bob, "PUT", path("m.test"), `{}`) // the level is too low
	forbidden(carol, "PUT", path("m.test"), `{}`)
	forbidden(carol, "PUT", testserver.RoomPath(nowhere, "state", "m.test"), `{}`)
	forbidden(alice, "PUT", path("m.test", string(bob.UserID)), `{}`) // is another's
	forbidden(alice, "PUT", path("m.room.create"), `{}`)
	alice.Want(400, matrix.InvalidParam, "PUT", path("m.room.redaction"), `{}`)
	alice.Want(400, matrix.BadJSON, "PUT", path("m.test"), `{"n":0.5}`)
	alice.Want(400, matrix.BadJSON, "PUT", path("m.room.power_levels"), `{"ban":"50"}`)
	alice.Want(400, matrix.BadJSON, "PUT", path("m.room.power_levels"), fmt.Sprintf(`{"users":{%q:100}}`, alice.UserID)) // names a creator
	alice.Want(400, matrix.BadJSON, "PUT", path("m.room.power_levels"), `{"users":{"bob":1}}`)
	forbidden(bob, "PUT", path("m.room.power_levels"), `{"users":{"bob":1}}`)
	alice.Want(400, matrix.InvalidParam, "PUT", path("m.room.server_acl"), `{"allow":["elsewhere.test"]}`)
	alice.Must("PUT", path("m.room.server_acl"), `{"allow":["*"],"deny":["evil.test"]}`)
	wantState(t, bob, room, "m.test", "", `{"n":3}`)

	suspend(t, hs, alice)
	alice.Want(403, matrix.UserSuspended, "PUT", path("m.test"), `{}`)
}

// The same reaction to the same event is refused, until the first is redacted.
func TestDuplicateAnnotation(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	room := publicRoom(alice, bob)
	said, other := alice.Say(room, "x"), alice.Say(room, "y")
	reaction := func(id matrix.EventID, rel, key string) string {
		return fmt.Sprintf(`{"m.relates_to":{"rel_type":%q,"event_id":%q,"key":%q}}`, rel, id, key)
	}
	twice := func(typ, content string) {
		t.Helper()
		bob.Want(400, matrix.DuplicateAnnotation, "PUT", testserver.RoomPath(room, "send", typ, bob.NextTxn()), content)
	}
	up := reaction(said, "m.annotation", "👍")
	first := bob.SendTxn(room, "m.reaction", "r", up)
	if again := bob.SendTxn(room, "m.reaction", "r", up); again != first { // a retransmission is none
		t.Errorf("got %s and then %s", first, again)
	}
	twice("m.reaction", up)
	alice.Send(room, "m.reaction", up)
	for typ, content := range map[string]string{
		"m.reaction": reaction(said, "m.annotation", "👎"), "m.other": up, "m.third": reaction(said, "m.reference", "👍"),
		"m.fourth": `{"m.relates_to":{"rel_type":"m.annotation"}}`, "m.fifth": `{"m.relates_to":1}`,
	} {
		bob.Send(room, typ, content)
	}
	bob.Send(room, "m.third", reaction(said, "m.reference", "👍")) // only annotations
	bob.Send(room, "m.reaction", reaction(other, "m.annotation", "👍"))
	hs.Restart()
	twice("m.other", up)
	bob.Redact(room, first, "")
	bob.Send(room, "m.reaction", up)
	twice("m.reaction", up)
	bob.Leave(room)
	forbidden(bob, "PUT", testserver.RoomPath(room, "send", "m.reaction", bob.NextTxn()), up)
}

// A thread starts off an event that is in none and relates to no other.
func TestThreadRoots(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	room := alice.CreateRoom("")
	thread := func(id matrix.EventID) string {
		return fmt.Sprintf(`{"m.relates_to":{"rel_type":"m.thread","event_id":%q}}`, id)
	}
	root := alice.Say(room, "x")
	inThread := alice.Send(room, "m.test", thread(root))
	alice.Send(room, "m.test", thread(root))
	alice.Send(room, "m.test", thread("$nosuch"))
	reply := alice.Send(room, "m.test", fmt.Sprintf(`{"m.relates_to":{"m.in_reply_to":{"event_id":%q}}}`, root))
	alice.Send(room, "m.test", thread(reply))
	edit := alice.Send(room, "m.test", fmt.Sprintf(`{"m.relates_to":{"rel_type":"m.replace","event_id":%q}}`, root))
	for _, id := range []matrix.EventID{inThread, edit} {
		path := testserver.RoomPath(room, "send", "m.test", alice.NextTxn())
		alice.Want(400, matrix.Unknown, "PUT", path, thread(id))
		forbidden(bob, "PUT", path, thread(id))
	}
}

// Members as state: what a user may do to a membership is the same there.
func TestPutMember(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := publicRoom(alice)
	path := func(c *testserver.Client) string {
		return testserver.RoomPath(room, "state", "m.room.member", string(c.UserID))
	}
	bob.Must("PUT", path(bob), `{"membership":"join","displayname":"Bob","x":1}`)
	wantState(t, alice, room, "m.room.member", string(bob.UserID), `{"displayname":"Bob","membership":"join","x":1}`)
	for _, content := range []string{`{"membership":"leave"}`, `{"membership":"ban"}`, `{"membership":"join"}`, `{"membership":"invite"}`, `{"membership":"knock"}`, `{"membership":"x"}`, `{"membership":1}`, `{}`} {
		forbidden(bob, "PUT", path(alice), content)
	}
	forbidden(alice, "PUT", path(bob), `{"membership":"join"}`)
	alice.Want(400, matrix.InvalidParam, "PUT", testserver.RoomPath(room, "state", "m.room.member", "bob"), `{"membership":"ban"}`)
	alice.Must("PUT", path(bob), `{"membership":"ban"}`)
	forbidden(bob, "PUT", path(bob), `{"membership":"join"}`)
	forbidden(bob, "PUT", path(bob), `{"membership":"leave"}`)
	alice.Must("PUT", path(bob), `{"membership":"leave"}`)
	bob.Join(room)
	suspend(t, hs, bob)
	bob.Want(403, matrix.UserSuspended, "PUT", path(bob), `{"membership":"join","displayname":"B"}`)
	bob.Must("PUT", path(bob), `{"membership":"leave"}`)
	wantMember(t, alice, room, bob, "leave")
	suspend(t, hs, carol)
	carol.Want(403, matrix.UserSuspended, "PUT", path(carol), `{"membership":"join"}`)
}

// redaction is a redacted event and what became of it.
type redaction struct {
	ID       matrix.EventID `json:"event_id"`
	Content  jsontext.Value `json:"content"`
	Redacts  matrix.EventID `json:"redacts"`
	Unsigned struct {
		Because *redaction `json:"redacted_because"`
	} `json:"unsigned"`
}

func readEvent(t *testing.T, c *testserver.Client, room matrix.RoomID, id matrix.EventID) (e redaction) {
	t.Helper()
	c.Must("GET", testserver.RoomPath(room, "event", string(id)), nil).Decode(t, &e)
	return e
}

// Both ways to redact, in every room version.
func TestRedact(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	for _, version := range matrix.RoomVersions() {
		t.Run("v"+string(version), func(t *testing.T) {
			room := alice.CreateRoom(fmt.Sprintf(`{"preset":"public_chat","room_version":%q}`, version))
			bob.Join(room)
			for name, redact := range map[string]func(id matrix.EventID) matrix.EventID{
				"redact": func(id matrix.EventID) matrix.EventID { return bob.Redact(room, id, "why") },
				"send": func(id matrix.EventID) matrix.EventID {
					return bob.Send(room, "m.room.redaction", fmt.Sprintf(`{"reason":"why","redacts":%q}`, id))
				},
			} {
				said := bob.Say(room, "secret")
				by := redact(said)
				gone := readEvent(t, alice, room, said)
				if string(gone.Content) != `{}` {
					t.Errorf("%s: redacted content is %s", name, gone.Content)
				}
				because := gone.Unsigned.Because
				if because == nil || because.ID != by {
					t.Fatalf("%s: redacted because of %+v, want %s", name, because, by)
				}
				// Clients find what is redacted in either place.
				for _, e := range []redaction{*because, readEvent(t, alice, room, by)} {
					if want := fmt.Sprintf(`{"reason":"why","redacts":%q}`, said); canonicalText(t, e.Content) != want || e.Redacts != said {
						t.Errorf("%s: the redaction is of %q, with content %s, want %s", name, e.Redacts, e.Content, want)
					}
				}
			}
		})
	}
}

func canonicalText(t *testing.T, v jsontext.Value) string {
	t.Helper()
	if err := v.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	return string(v)
}

func TestRedactRefused(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t, testserver.Config(allEndpoints))
	alice, bob, carol, root := hs.Register("alice"), hs.Register("bob"), hs.Register("carol"), registerAdmin(t, hs, "root")
	for _, version := range []matrix.RoomVersion{"1", "2", "3", "10", "11", "12"} {
		t.Run("v"+string(version), func(t *testing.T) {
			room := alice.CreateRoom(fmt.Sprintf(`{"preset":"public_chat","room_version":%q}`, version))
			other := publicRoom(alice, bob)
			bob.Join(room)
			root.Join(room)
			said, elsewhere := alice.Say(room, "hers"), bob.Say(other, "his")
			both := func(c *testserver.Client, status int, code matrix.Code, id matrix.EventID) {
				t.Helper()
				c.Want(status, code, "PUT", testserver.RoomPath(room, "redact", string(id), c.NextTxn()), `{}`)
				c.Want(status, code, "PUT", testserver.RoomPath(room, "send", "m.room.redaction", c.NextTxn()), fmt.Sprintf(`{"redacts":%q}`, id))
			}
			both(bob, 403, matrix.Forbidden, said) // though of the same server
			both(carol, 403, matrix.Forbidden, said)
			both(bob, 400, matrix.NotFound, "$nosuch")
			both(bob, 400, matrix.NotFound, elsewhere)
			bob.Want(400, matrix.MissingParam, "PUT", testserver.RoomPath(room, "send", "m.room.redaction", bob.NextTxn()), `{}`)
			if e := readEvent(t, bob, room, said); e.Unsigned.Because != nil || len(e.Content) < 10 {
				t.Errorf("redacted all the same: %s", e.Content)
			}
			root.Redact(room, said, "") // administers the server
			if e := readEvent(t, bob, room, said); e.Unsigned.Because == nil {
				t.Errorf("not redacted: %s", e.Content)
			}
			alice.Redact(room, bob.Say(room, "x"), "") // has the power
		})
	}
	room := publicRoom(alice, carol)
	hers, his := carol.Say(room, "hers"), alice.Say(room, "his")
	raise(t, alice, room, "redact", 0)
	suspend(t, hs, carol)
	carol.Want(403, matrix.UserSuspended, "PUT", testserver.RoomPath(room, "redact", string(his), "1"), `{}`)
	carol.Redact(room, hers, "") // may take back what she said
	carol.Want(403, matrix.UserSuspended, "PUT", testserver.RoomPath(room, "send", "m.room.redaction", "3"), fmt.Sprintf(`{"redacts":%q}`, his))
	forbidden(alice, "PUT", testserver.RoomPath(nowhere, "redact", string(his), "1"), `{}`)
	alice.Want(http.StatusBadRequest, matrix.InvalidParam, "PUT", testserver.RoomPath(room, "redact", url.PathEscape("x y"), "1"), `{}`)
}
