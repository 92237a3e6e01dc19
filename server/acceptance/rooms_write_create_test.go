package acceptance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// Every preset, in every room version: the events in the order that the
// specification gives them, and what they say.
func TestCreateRoomPresets(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	for _, version := range matrix.RoomVersions() {
		for _, tt := range []struct{ preset, rule, guests string }{
			{"private_chat", "invite", "can_join"},
			{"trusted_private_chat", "invite", "can_join"},
			{"public_chat", "public", "forbidden"},
		} {
			t.Run(fmt.Sprintf("v%s %s", version, tt.preset), func(t *testing.T) {
				room := alice.CreateRoom(fmt.Sprintf(`{"room_version":%q,"preset":%q,"invite":[%q]}`, version, tt.preset, bob.UserID))
				var order []string
				for _, e := range timeline(t, alice, room) {
					order = append(order, strings.TrimPrefix(e.Type, "m.room."))
					if e.Sender != alice.UserID {
						t.Errorf("%s is sent by %s", e.Type, e.Sender)
					}
				}
				want := "create member power_levels join_rules history_visibility guest_access member"
				if got := strings.Join(order, " "); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				wantState(t, alice, room, "m.room.join_rules", "", `{"join_rule":"`+tt.rule+`"}`)
				wantState(t, alice, room, "m.room.history_visibility", "", `{"history_visibility":"shared"}`)
				wantState(t, alice, room, "m.room.guest_access", "", `{"guest_access":"`+tt.guests+`"}`)
				wantMember(t, alice, room, alice, "join")
				wantMember(t, alice, room, bob, "invite")
				wantCreators(t, alice, room, version, tt.preset == "trusted_private_chat", bob)
				bob.Join(room)
			})
		}
	}
}

// wantCreators checks who has what power in a room that alice made: as a
// creator, or in the power levels, as the room version has it.
func wantCreators(t *testing.T, alice *testserver.Client, room matrix.RoomID, version matrix.RoomVersion, trusted bool, bob *testserver.Client) {
	t.Helper()
	v, _ := matrix.VersionOf(version)
	state := roomState(t, alice, room)
	var create struct {
		Creator    matrix.UserID      `json:"creator"`
		Version    matrix.RoomVersion `json:"room_version"`
		Additional []matrix.UserID    `json:"additional_creators"`
	}
	var levels struct {
		Users        map[matrix.UserID]int64 `json:"users"`
		Events       map[string]int64        `json:"events"`
		StateDefault int64                   `json:"state_default"`
	}
	decodeState(t, state["m.room.create "], &create)
	decodeState(t, state["m.room.power_levels "], &levels)
	if create.Version != version || (create.Creator != "") != !v.CreatorIsSender {
		t.Errorf("m.room.create: %s", state["m.room.create "].Content)
	}
	switch {
	case v.PrivilegedCreators:
		if len(levels.Users) != 0 || slices.Contains(create.Additional, bob.UserID) != trusted {
			t.Errorf("power levels %v, additional creators %v", levels.Users, create.Additional)
		}
		if levels.Events["m.room.tombstone"] <= levels.StateDefault {
			t.Errorf("a tombstone needs %d, other state %d", levels.Events["m.room.tombstone"], levels.StateDefault)
		}
	case levels.Users[alice.UserID] != 100, trusted != (levels.Users[bob.UserID] == 100), len(create.Additional) != 0:
		t.Errorf("power levels %v, additional creators %v", levels.Users, create.Additional)
	}
}

func decodeState(t *testing.T, e stateEvent, to any) {
	t.Helper()
	if err := json.Unmarshal(e.Content, to); err != nil {
		t.Fatalf("%s: %v", e.Type, err)
	}
}

func TestCreateRoomOptions(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	us := string(hs.Name())

	t.Run("nothing", func(t *testing.T) {
		room := alice.CreateRoom("{}")
		wantState(t, alice, room, "m.room.create", "", `{"room_version":"12"}`)
		wantState(t, alice, room, "m.room.join_rules", "", `{"join_rule":"invite"}`)
		wantListed(t, alice, room, "private")
		forbidden(bob, "POST", testserver.RoomPath(room, "join"), "{}")
	})
	t.Run("visibility chooses the preset", func(t *testing.T) {
		room := alice.CreateRoom(`{"visibility":"public"}`)
		wantState(t, alice, room, "m.room.join_rules", "", `{"join_rule":"public"}`)
		wantListed(t, alice, room, "public")
		room = alice.CreateRoom(`{"visibility":"public","preset":"private_chat"}`)
		wantState(t, alice, room, "m.room.join_rules", "", `{"join_rule":"invite"}`)
		wantListed(t, alice, room, "public")
	})
	t.Run("names", func(t *testing.T) {
		room := alice.CreateRoom(`{"name":"The \"Pub\"","topic":"Beer","room_alias_name":"pub/ä","initial_state":[
			{"type":"m.room.name","content":{"name":"other"}},{"type":"m.room.topic","state_key":"","content":{"topic":"other"}}]}`)
		wantState(t, alice, room, "m.room.name", "", `{"name":"The \"Pub\""}`)
		wantState(t, alice, room, "m.room.topic", "", `{"m.topic":{"m.text":[{"body":"Beer"}]},"topic":"Beer"}`)
		wantState(t, alice, room, "m.room.canonical_alias", "", `{"alias":"#pub/ä:`+us+`"}`)
		if to, _ := lookUp(t, hs, "#pub/ä:"+matrix.RoomAlias(us)); to != room {
			t.Errorf("the alias points to %q", to)
		}
		if got := bodiesOf(t, alice, room, "m.room.name"); len(got) != 1 {
			t.Errorf("names: %s", got)
		}
	})
	t.Run("creation_content", func(t *testing.T) {
		room := alice.CreateRoom(`{"creation_content":{"type":"m.space","m.federate":false,"creator":"@x:y","room_version":"7","k":[1]},"room_version":"11"}`)
		wantState(t, alice, room, "m.room.create", "", `{"k":[1],"m.federate":false,"room_version":"11","type":"m.space"}`)
		room = alice.CreateRoom(`{"creation_content":{"creator":"@x:y"},"room_version":"6"}`)
		wantState(t, alice, room, "m.room.create", "", `{"creator":"@alice:`+us+`","room_version":"6"}`)
		room = alice.CreateRoom(fmt.Sprintf(`{"creation_content":{"additional_creators":["@c:elsewhere.test",%q]},"preset":"trusted_private_chat","invite":[%q]}`, bob.UserID, bob.UserID))
		wantState(t, alice, room, "m.room.create", "", fmt.Sprintf(`{"additional_creators":["@c:elsewhere.test",%q],"room_version":"12"}`, bob.UserID))
	})
	t.Run("initial_state", func(t *testing.T) {
		room := alice.CreateRoom(`{"preset":"private_chat","initial_state":[
			{"type":"m.room.join_rules","content":{"join_rule":"knock"}},
			{"type":"m.room.encryption","state_key":"","content":{"algorithm":"m.megolm.v1.aes-sha2"}},
			{"type":"org.test","state_key":"k","content":{"n":1}},
			{"type":"org.test","state_key":"k","content":{"n":2}}]}`)
		wantState(t, alice, room, "m.room.join_rules", "", `{"join_rule":"knock"}`)
		wantState(t, alice, room, "m.room.encryption", "", `{"algorithm":"m.megolm.v1.aes-sha2"}`)
		wantState(t, alice, room, "org.test", "k", `{"n":2}`)
		if got := bodiesOf(t, alice, room, "org.test"); len(got) != 2 {
			t.Errorf("got %s, want both in the timeline", got)
		}
	})
	t.Run("power levels", func(t *testing.T) {
		room := alice.CreateRoom(fmt.Sprintf(`{"room_version":"11","power_level_content_override":{"users":{%q:100,%q:75},"events_default":7,"org.key":true}}`, alice.UserID, bob.UserID))
		content := string(roomState(t, alice, room)["m.room.power_levels "].Content)
		for _, want := range []string{fmt.Sprintf(`"users":{%q:100,%q:75}`, alice.UserID, bob.UserID), `"events_default":7`, `"org.key":true`, `"ban":50`} {
			if !strings.Contains(content, want) {
				t.Errorf("no %s in %s", want, content)
			}
		}
	})
	t.Run("invite", func(t *testing.T) {
		// Whoever is named twice, or is the creator, is no reason to fail.
		room := alice.CreateRoom(fmt.Sprintf(`{"is_direct":true,"invite":[%q,%q,%q]}`, bob.UserID, bob.UserID, alice.UserID))
		wantState(t, alice, room, "m.room.member", string(bob.UserID), `{"is_direct":true,"membership":"invite"}`)
		wantState(t, alice, room, "m.room.member", string(alice.UserID), `{"membership":"join"}`)
	})
}

func TestCreateRoomErrors(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	alice.CreateRoom(`{"room_alias_name":"taken"}`)
	bob.Must("PUT", v3+"/user/"+string(bob.UserID)+"/account_data/m.invite_permission_config", `{"default_action":"block"}`)
	suspend(t, hs, carol)
	before := joinedRooms(t, alice)

	const invalidState = matrix.InvalidRoomState
	for name, tt := range map[string]struct {
		body   string
		status int
		code   matrix.Code
	}{
		"unknown version":            {`{"room_version":"13"}`, 400, matrix.UnsupportedRoomVersion},
		"nonsense version":           {`{"room_version":"!"}`, 400, matrix.UnsupportedRoomVersion},
		"alias in use":               {`{"room_alias_name":"taken"}`, 400, matrix.RoomInUse},
		"alias with a server":        {`{"room_alias_name":"a:b"}`, 400, matrix.InvalidParam},
		"alias too long":             {`{"room_alias_name":"` + strings.Repeat("x", 250) + `"}`, 400, matrix.InvalidParam},
		"unknown preset":             {`{"preset":"chat"}`, 400, matrix.InvalidParam},
		"unknown visibility":         {`{"visibility":"hidden"}`, 400, matrix.InvalidParam},
		"levels below the name's":    {fmt.Sprintf(`{"room_version":"11","name":"n","power_level_content_override":{"users":{%q:0}}}`, alice.UserID), 400, invalidState},
		"a creator in the levels":    {fmt.Sprintf(`{"power_level_content_override":{"users":{%q:100}}}`, alice.UserID), 400, invalidState},
		"levels that are no numbers": {`{"power_level_content_override":{"ban":"50"}}`, 400, matrix.BadJSON},
		"fractions":                  {`{"initial_state":[{"type":"t","content":{"n":1.5}}]}`, 400, matrix.BadJSON},
		"state of another user":      {`{"initial_state":[{"type":"t","state_key":"@x:y","content":{}}]}`, 400, invalidState},
		"a member in initial_state":  {fmt.Sprintf(`{"initial_state":[{"type":"m.room.member","state_key":%q,"content":{"membership":"invite"}}]}`, bob.UserID), 400, invalidState},
		"a second create event":      {`{"initial_state":[{"type":"m.room.create","content":{}}]}`, 400, invalidState},
		"state without a type":       {`{"initial_state":[{"content":{}}]}`, 400, matrix.MissingParam},
		"state without content":      {`{"initial_state":[{"type":"t"}]}`, 400, matrix.MissingParam},
		"a large event":              {`{"topic":"` + strings.Repeat("x", 66_000) + `"}`, 413, matrix.TooLarge},
		"a long type":                {`{"initial_state":[{"type":"` + strings.Repeat("x", 256) + `","content":{}}]}`, 413, matrix.TooLarge},
		"bad additional creators":    {`{"creation_content":{"additional_creators":["x"]}}`, 400, matrix.BadJSON},
		"names of other rooms":       {`{"initial_state":[{"type":"m.room.canonical_alias","content":{"alias":"#taken:hs.test"}}]}`, 400, matrix.BadAlias},
		"names of no form":           {`{"initial_state":[{"type":"m.room.canonical_alias","content":{"alias":1}}]}`, 400, matrix.BadJSON},
		"an address":                 {`{"invite_3pid":[{"id_server":"i","id_access_token":"t","medium":"email","address":"a@b"}]}`, 403, matrix.Forbidden},
		"a user of another server":   {`{"invite":["@x:elsewhere.test"]}`, 403, matrix.Forbidden},
		"a user who wants no invite": {fmt.Sprintf(`{"room_alias_name":"free","invite":[%q]}`, bob.UserID), 403, matrix.InviteBlocked},
	} {
		t.Run(name, func(t *testing.T) { alice.Want(tt.status, tt.code, "POST", createRoom, tt.body) })
	}
	carol.Want(403, matrix.UserSuspended, "POST", createRoom, `{}`)

	// Nothing is left of a room that was refused: no membership, no alias.
	if after := joinedRooms(t, alice); after != before {
		t.Errorf("rooms before %s and after %s", before, after)
	}
	if to, status := lookUp(t, hs, matrix.RoomAlias("#free:"+hs.Name())); status != http.StatusNotFound {
		t.Errorf("the alias of a refused room points to %q", to)
	}
	alice.CreateRoom(`{"room_alias_name":"free"}`)
}

// All room versions are there, all are stable, and rooms are of the default one.
func TestRoomVersionsCapability(t *testing.T) {
	t.Parallel()
	alice := testserver.New(t).Register("alice")
	var out struct {
		Capabilities struct {
			Versions struct {
				Default   matrix.RoomVersion            `json:"default"`
				Available map[matrix.RoomVersion]string `json:"available"`
			} `json:"m.room_versions"`
		} `json:"capabilities"`
	}
	alice.Must("GET", v3+"/capabilities", nil).Decode(t, &out)
	got := out.Capabilities.Versions
	for _, v := range matrix.RoomVersions() {
		if got.Available[v] != "stable" {
			t.Errorf("version %s is %q", v, got.Available[v])
		}
	}
	if got.Default != "12" || len(got.Available) != 12 {
		t.Errorf("got %+v", got)
	}
}

func joinedRooms(t *testing.T, c *testserver.Client) string {
	t.Helper()
	return string(c.Must("GET", v3+"/joined_rooms", nil).Body)
}
