package acceptance

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// To whoever has nothing to do with a room it is as if it were not there: every
// door gives the same answer for a room that exists and for one that does not,
// and for an event of it and for none. Only who asks to be let in learns that
// there is such a room, as the specification has it.
func TestRoomsAreNoOracle(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	owner, stranger, target := hs.Register("owner"), hs.Register("stranger"), hs.Register("target")
	blocking := hs.Register("blocking")
	blocking.Must("PUT", v3+"/user/"+url.PathEscape(string(blocking.UserID))+"/account_data/m.invite_permission_config", `{"default_action":"block"}`)
	const none = matrix.RoomID("!PzKIfWTUsdVtJHV8JQaCTdyXgoMmPEfLr2hnFtZtWcQ")
	const noEvent = "$PzKIfWTUsdVtJHV8JQaCTdyXgoMmPEfLr2hnFtZtWcQ"
	rooms := map[string]matrix.RoomID{
		"private":  owner.CreateRoom(`{"preset":"private_chat","room_alias_name":"private","topic":"t"}`),
		"public":   owner.CreateRoom(`{"preset":"public_chat"}`),
		"knocking": owner.CreateRoom(`{"initial_state":[{"type":"m.room.join_rules","content":{"join_rule":"knock"}}]}`),
	}
	alias := matrix.RoomAlias("#private:" + string(hs.Name()))
	enter(rooms["private"], owner, target)
	for name, room := range rooms {
		said := owner.Say(room, "hidden")
		for _, door := range strangersDoors(owner, target, blocking, alias) {
			there := answerOf(t, stranger, door, room, string(said))
			nowhere := answerOf(t, stranger, door, none, noEvent)
			if there != nowhere {
				t.Errorf("%s room, %s: %s\nand of no room: %s", name, door.path, there, nowhere)
			}
			if strings.Contains(door.path, "$EVENT") {
				if a := answerOf(t, stranger, door, room, noEvent); a != there {
					t.Errorf("%s room, %s: %s\nand of no event: %s", name, door.path, there, a)
				}
			}
		}
		if a := answerOf(t, stranger, door{"GET", v3 + "/events/$EVENT", ""}, room, string(said)); a != answerOf(t, stranger, door{"GET", v3 + "/events/$EVENT", ""}, room, noEvent) {
			t.Errorf("%s room, an event by itself: %s", name, a)
		}
	}
}

type door struct{ method, path, body string }

// strangersDoors are the doors that name a room in $ROOM, and an event of it in
// $EVENT, other than those by which one asks to be let in.
func strangersDoors(owner, target, blocking *testserver.Client, alias matrix.RoomAlias) []door {
	const in = v3 + "/rooms/$ROOM"
	doors := []door{
		{"GET", "/_matrix/client/v1/rooms/$ROOM/timestamp_to_event?dir=f&ts=0", ""},
		{"GET", v3 + "/events?timeout=0&room_id=$ROOM", ""},
		{"GET", in + "/members?at=t1", ""},
		{"PUT", in + "/send/m.test/$TXN", `{}`},
		{"PUT", in + "/send/m.room.redaction/$TXN", `{"redacts":"$EVENT"}`},
		{"PUT", in + "/send/m.reaction/$TXN", `{"m.relates_to":{"rel_type":"m.annotation","event_id":"$EVENT","key":"x"}}`},
		{"PUT", in + "/send/m.room.message/$TXN", `{"m.relates_to":{"rel_type":"m.thread","event_id":"$EVENT"}}`},
		{"PUT", in + "/redact/$EVENT/$TXN", `{}`},
		{"PUT", in + "/state/m.test/x", `{}`},
		{"PUT", in + "/state/m.room.power_levels", `{"users":{}}`},
		{"PUT", in + "/state/m.room.canonical_alias", fmt.Sprintf(`{"alias":%q}`, alias)},
		{"PUT", in + "/state/m.room.canonical_alias", `{"alias":"#nothing:hs.test"}`},
		{"PUT", in + "/state/m.room.canonical_alias", `{"alias":"nonsense"}`},
		{"PUT", in + "/state/m.room.encryption", `{"algorithm":"x"}`},
		{"POST", in + "/leave", `{}`},
		{"POST", in + "/forget", `{}`},
		{"POST", in + "/upgrade", `{"new_version":"12"}`},
		{"PUT", testserver.AliasPath("#new:hs.test"), `{"room_id":"$ROOM"}`},
	}
	for _, path := range []string{
		"/state", "/state/m.room.create", "/state/m.room.topic?format=event", "/state/m.none/none", "/members",
		"/members?membership=join", "/joined_members", "/messages?dir=b", "/messages?dir=f&limit=0", "/messages?dir=b&filter=%7B%7D",
		"/initialSync", "/aliases", "/event/$EVENT", "/context/$EVENT", "/context/$EVENT?limit=0",
	} {
		doors = append(doors, door{"GET", in + path, ""})
	}
	for _, who := range []matrix.UserID{owner.UserID, target.UserID, blocking.UserID, "@nobody:hs.test", "@elsewhere:remote.test"} {
		for _, act := range []string{"invite", "kick", "ban", "unban"} {
			doors = append(doors, door{"POST", in + "/" + act, fmt.Sprintf(`{"user_id":%q}`, who)})
		}
		for _, membership := range []string{"invite", "ban", "leave"} {
			path := in + "/state/m.room.member/" + url.PathEscape(string(who))
			doors = append(doors, door{"PUT", path, fmt.Sprintf(`{"membership":%q}`, membership)})
		}
	}
	return doors
}

// answerOf is the answer of a door without what names the room or the event.
func answerOf(t *testing.T, c *testserver.Client, d door, room matrix.RoomID, event string) string {
	t.Helper()
	path := strings.NewReplacer("$ROOM", url.PathEscape(string(room)), "$EVENT", url.PathEscape(event), "$TXN", c.NextTxn()).Replace(d.path)
	var body any
	if d.body != "" {
		body = strings.NewReplacer("$ROOM", string(room), "$EVENT", event).Replace(d.body)
	}
	a, err := c.Do(t.Context(), d.method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(string(room), "$ROOM", event, "$EVENT").Replace(a.String())
}
