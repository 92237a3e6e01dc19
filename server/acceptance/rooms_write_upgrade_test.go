package acceptance

import (
	"fmt"
	"strings"
	"testing"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

func upgradeRoom(t *testing.T, c *testserver.Client, room matrix.RoomID, body string) matrix.RoomID {
	t.Helper()
	var out struct {
		Room matrix.RoomID `json:"replacement_room"`
	}
	c.Must("POST", testserver.RoomPath(room, "upgrade"), body).Decode(t, &out)
	return out.Room
}

// From every version to every version: what the specification lists goes over.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	for i, from := range matrix.RoomVersions() {
		to := matrix.RoomVersions()[len(matrix.RoomVersions())-1-i]
		t.Run(fmt.Sprintf("%s to %s", from, to), func(t *testing.T) {
			name := "up" + string(from)
			alias := matrix.RoomAlias("#" + name + ":" + string(hs.Name()))
			old := alice.CreateRoom(fmt.Sprintf(`{"room_version":%q,"preset":"public_chat","visibility":"public","name":"N","topic":"T","room_alias_name":%q,
				"creation_content":{"type":"org.type"},"initial_state":[
				{"type":"m.room.encryption","content":{"algorithm":"m.megolm.v1.aes-sha2"}},{"type":"m.room.avatar","content":{"url":"mxc://a/b"}},
				{"type":"m.room.server_acl","content":{"allow":["*"]}},{"type":"m.room.history_visibility","content":{"history_visibility":"invited"}},
				{"type":"org.other","content":{"n":1}}]}`, from, name))
			bob.Join(old)
			alice.Ban(old, carol)
			before := roomState(t, alice, old)

			next := upgradeRoom(t, alice, old, fmt.Sprintf(`{"new_version":%q,"additional_creators":[%q]}`, to, bob.UserID))
			state := roomState(t, alice, next)
			for _, typ := range []string{"server_acl", "encryption", "name", "avatar", "topic", "guest_access", "history_visibility", "join_rules"} {
				key := "m.room." + typ + " "
				if got, want := string(state[key].Content), string(before[key].Content); got != want || want == "" {
					t.Errorf("%s: got %s, want %s", typ, got, want)
				}
			}
			wantCreate(t, state, old, to, bob)
			if _, ok := state["org.other "]; ok {
				t.Error("state of others went over")
			}
			wantMember(t, alice, next, alice, "join")
			wantMember(t, alice, next, bob, "")
			wantMember(t, alice, next, carol, "ban")
			forbidden(carol, "POST", testserver.RoomPath(next, "join"), `{}`)

			// Names and the place in the directory move; the old room is closed.
			wantAlias(t, hs, alias, next)
			wantState(t, alice, next, "m.room.canonical_alias", "", fmt.Sprintf(`{"alias":%q}`, alias))
			wantListed(t, alice, next, "public")
			wantListed(t, alice, old, "private")
			tombstone := string(roomState(t, bob, old)["m.room.tombstone "].Content)
			if !strings.Contains(tombstone, fmt.Sprintf(`"replacement_room":%q`, next)) {
				t.Errorf("tombstone %s", tombstone)
			}
			forbidden(bob, "PUT", testserver.RoomPath(old, "send", "m.room.message", bob.NextTxn()), `{}`)
			alice.Say(old, "x") // whoever has the power still may
			bob.Join(next)
			bob.Say(next, "x")
		})
	}
}

func wantCreate(t *testing.T, state map[string]stateEvent, old matrix.RoomID, version matrix.RoomVersion, creator *testserver.Client) {
	t.Helper()
	var create struct {
		Version     matrix.RoomVersion `json:"room_version"`
		Type        string             `json:"type"`
		Creators    []matrix.UserID    `json:"additional_creators"`
		Predecessor struct {
			Room matrix.RoomID `json:"room_id"`
		} `json:"predecessor"`
	}
	decodeState(t, state["m.room.create "], &create)
	v, _ := matrix.VersionOf(version)
	if create.Version != version || create.Type != "org.type" || create.Predecessor.Room != old {
		t.Errorf("m.room.create: %s", state["m.room.create "].Content)
	}
	if named := len(create.Creators) == 1 && create.Creators[0] == creator.UserID; named != v.PrivilegedCreators {
		t.Errorf("additional creators %v in version %s", create.Creators, version)
	}
}

func TestUpgradeRefused(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := publicRoom(alice, bob)
	path := testserver.RoomPath(room, "upgrade")
	alice.Want(400, matrix.UnsupportedRoomVersion, "POST", path, `{"new_version":"13"}`)
	alice.Want(400, matrix.MissingParam, "POST", path, `{}`)
	alice.Want(400, matrix.BadJSON, "POST", path, `{"new_version":"12","additional_creators":["x"]}`)
	forbidden(alice, "POST", testserver.RoomPath(nowhere, "upgrade"), `{"new_version":"12"}`)
	before, rooms := len(timeline(t, alice, room)), joinedRooms(t, bob)
	forbidden(bob, "POST", path, `{"new_version":"12"}`)
	forbidden(bob, "POST", path, `{"new_version":"9"}`)
	forbidden(carol, "POST", path, `{"new_version":"12"}`)
	if after := len(timeline(t, alice, room)); after != before || joinedRooms(t, bob) != rooms {
		t.Errorf("%d events of upgrades that were refused; bob is in %s", after-before, joinedRooms(t, bob))
	}
	// Whoever has the power for a tombstone may, though they did not make the room.
	raised := strings.Replace(string(roomState(t, alice, room)["m.room.power_levels "].Content), `"users":{`, fmt.Sprintf(`"users":{%q:150`, bob.UserID), 1)
	alice.SetState(room, "m.room.power_levels", "", raised)
	if next := upgradeRoom(t, bob, room, `{"new_version":"11"}`); next == room {
		t.Error("upgraded to itself")
	}
	suspend(t, hs, alice)
	alice.Want(403, matrix.UserSuspended, "POST", path, `{"new_version":"12"}`)
}
