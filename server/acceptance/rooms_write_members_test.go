package acceptance

import (
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

func target(c *testserver.Client) string {
	return fmt.Sprintf(`{"user_id":%q,"reason":"why"}`, c.UserID)
}

// wantReason checks a member event whole: what an act with a reason leaves behind.
func wantReason(t *testing.T, as *testserver.Client, room matrix.RoomID, who *testserver.Client, membership string) {
	t.Helper()
	wantState(t, as, room, "m.room.member", string(who.UserID), `{"membership":"`+membership+`","reason":"why"}`)
}

func TestJoin(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := alice.CreateRoom(`{"preset":"public_chat","room_alias_name":"pub"}`)
	private := alice.CreateRoom(`{"preset":"private_chat"}`)
	alias := url.PathEscape("#pub:" + string(hs.Name()))

	t.Run("by ID", func(t *testing.T) {
		got := bob.Must("POST", testserver.RoomPath(room, "join"), `{"reason":"why"}`)
		if want := fmt.Sprintf(`{"room_id":%q}`, room); string(got.Body) != want {
			t.Errorf("got %s, want %s", got.Body, want)
		}
		wantReason(t, alice, room, bob, "join")
		// Again is no news.
		bob.Join(room)
		wantReason(t, alice, room, bob, "join")
	})
	t.Run("by alias, without a body", func(t *testing.T) {
		got := carol.Must("POST", v3+"/join/"+alias+"?via=elsewhere.test&via=%3F&server_name=x.test", nil)
		if want := fmt.Sprintf(`{"room_id":%q}`, room); string(got.Body) != want {
			t.Errorf("got %s, want %s", got.Body, want)
		}
		wantMember(t, alice, room, carol, "join")
	})
	t.Run("with further content", func(t *testing.T) {
		body := `{"displayname":"Bobby","x":{"y":null},"reason":null,"third_party_signed":null,"membership":"ban","join_authorised_via_users_server":"@x:y"}`
		for _, path := range []string{testserver.RoomPath(room, "join"), v3 + "/join/" + alias} {
			bob.Leave(room)
			bob.Must("POST", path, body)
			wantState(t, alice, room, "m.room.member", string(bob.UserID), `{"displayname":"Bobby","membership":"join","x":{"y":null}}`)
		}
		bob.Must("POST", testserver.RoomPath(room, "join"), `{"displayname":"Robert"}`) // is in it: nothing changes
		wantState(t, alice, room, "m.room.member", string(bob.UserID), `{"displayname":"Bobby","membership":"join","x":{"y":null}}`)
	})
	t.Run("refused", func(t *testing.T) {
		forbidden(bob, "POST", testserver.RoomPath(private, "join"), `{}`)
		forbidden(bob, "POST", v3+"/join/"+url.PathEscape(string(private)), `{}`)
		bob.Want(404, matrix.NotFound, "POST", testserver.RoomPath(nowhere, "join"), `{}`)
		bob.Want(404, matrix.NotFound, "POST", v3+"/join/"+url.PathEscape(string(nowhere)), `{}`)
		bob.Want(404, matrix.NotFound, "POST", v3+"/join/"+url.PathEscape("#none:"+string(hs.Name())), `{}`)
		bob.Want(404, matrix.NotFound, "POST", v3+"/join/"+url.PathEscape("#pub:elsewhere.test"), `{}`)
		bob.Want(400, matrix.InvalidParam, "POST", v3+"/join/pub", `{}`)
		bob.Want(400, matrix.InvalidParam, "POST", testserver.RoomPath("#pub:x", "join"), `{}`)
	})
	t.Run("invited", func(t *testing.T) {
		alice.Invite(private, bob)
		bob.Join(private)
		wantMember(t, alice, private, bob, "join")
	})
	t.Run("banned", func(t *testing.T) {
		alice.Ban(room, bob)
		forbidden(bob, "POST", testserver.RoomPath(room, "join"), `{}`)
		alice.Unban(room, bob)
		bob.Join(room)
	})
	t.Run("suspended", func(t *testing.T) {
		dave := hs.Register("dave")
		alice.Invite(private, dave)
		suspend(t, hs, dave)
		dave.Want(403, matrix.UserSuspended, "POST", testserver.RoomPath(room, "join"), `{}`)
		dave.Want(403, matrix.UserSuspended, "POST", v3+"/join/"+alias, `{}`)
		dave.Want(403, matrix.UserSuspended, "POST", v3+"/knock/"+alias, `{}`)
		dave.Leave(private) // an invite may be rejected
		wantMember(t, alice, private, dave, "leave")
	})
}

func TestJoinRestricted(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	club := publicRoom(alice, bob)
	for _, version := range []matrix.RoomVersion{"8", "11", "12"} {
		room := alice.CreateRoom(fmt.Sprintf(`{"room_version":%q,"initial_state":[{"type":"m.room.join_rules","content":{
			"join_rule":"restricted","allow":[{"type":"m.room_membership","room_id":%q}]}}]}`, version, club))
		forbidden(carol, "POST", testserver.RoomPath(room, "join"), `{}`)
		bob.Join(room)
		wantState(t, alice, room, "m.room.member", string(bob.UserID), fmt.Sprintf(`{"join_authorised_via_users_server":%q,"membership":"join"}`, alice.UserID))
		// To stay, or to change one's name, needs no condition.
		bob.SetState(room, "m.room.member", string(bob.UserID), `{"membership":"join","displayname":"B","join_authorised_via_users_server":"@x:elsewhere.test"}`)
		wantState(t, alice, room, "m.room.member", string(bob.UserID), `{"displayname":"B","membership":"join"}`)
	}
}

func TestInvite(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol, dave := hs.Register("alice"), hs.Register("bob"), hs.Register("carol"), hs.Register("dave")
	room := alice.CreateRoom(`{"power_level_content_override":{"invite":1}}`)
	path := testserver.RoomPath(room, "invite")

	alice.Must("POST", path, target(bob))
	wantReason(t, alice, room, bob, "invite")
	// An invite again succeeds, and is no second event.
	alice.Invite(room, bob)
	wantReason(t, alice, room, bob, "invite")

	forbidden(carol, "POST", path, target(dave))
	forbidden(bob, "POST", path, target(dave)) // only invited
	forbidden(carol, "POST", path, target(bob))
	bob.Join(room)
	forbidden(bob, "POST", path, target(carol)) // the level is too low
	forbidden(alice, "POST", path, target(bob)) // is in the room
	alice.Ban(room, dave)
	forbidden(alice, "POST", path, target(dave))
	forbidden(alice, "POST", path, `{"user_id":"@x:elsewhere.test"}`)
	forbidden(alice, "POST", path, `{"medium":"email","address":"a@b","id_server":"i","id_access_token":"t"}`)
	forbidden(alice, "POST", testserver.RoomPath(nowhere, "invite"), target(carol))

	carol.Must("PUT", v3+"/user/"+string(carol.UserID)+"/account_data/m.invite_permission_config", `{"default_action":"block"}`)
	alice.Want(403, matrix.InviteBlocked, "POST", path, target(carol))
	alice.Want(403, matrix.InviteBlocked, "PUT", testserver.RoomPath(room, "state", "m.room.member", string(carol.UserID)), `{"membership":"invite"}`)
	wantMember(t, alice, room, carol, "")
	carol.Must("PUT", v3+"/user/"+string(carol.UserID)+"/account_data/m.invite_permission_config", `{}`)
	alice.SetState(room, "m.room.member", string(carol.UserID), `{"membership":"invite"}`)
	wantMember(t, alice, room, carol, "invite")

	forbidden(alice, "PUT", testserver.RoomPath(room, "state", "m.room.member", "@x:elsewhere.test"), `{"membership":"invite"}`)
	suspend(t, hs, alice)
	alice.Want(403, matrix.UserSuspended, "POST", path, target(carol))
	alice.Want(403, matrix.UserSuspended, "PUT", testserver.RoomPath(room, "state", "m.room.member", "@erin:"+string(hs.Name())), `{"membership":"invite"}`)
}

// An invite of an address becomes one of the user for whom an identity server
// signs, if the room trusts its key.
func TestJoinByThirdPartyInvite(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, wrong, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	room := alice.CreateRoom("")
	alice.SetState(room, "m.room.third_party_invite", "tok", fmt.Sprintf(
		`{"display_name":"b…@x","key_validity_url":"https://id.test/valid","public_key":%[1]q,"public_keys":[{"public_key":%[1]q}]}`, matrix.EncodeBase64(pub)))
	join := func(who, mxid, sender *testserver.Client, token string, key ed25519.PrivateKey) (int, matrix.Code) {
		t.Helper()
		signed, err := matrix.SignJSON(fmt.Appendf(nil, `{"mxid":%q,"sender":%q,"token":%q}`, mxid.UserID, sender.UserID, token),
			matrix.Signer{Server: "id.test", KeyID: "ed25519:0", Key: key})
		if err != nil {
			t.Fatal(err)
		}
		a, err := who.Do(t.Context(), "POST", testserver.RoomPath(room, "join"), fmt.Sprintf(`{"third_party_signed":%s}`, signed))
		if err != nil {
			t.Fatal(err)
		}
		return a.Status, a.Code()
	}
	for name, try := range map[string]func() (int, matrix.Code){
		"another key":   func() (int, matrix.Code) { return join(bob, bob, alice, "tok", wrong) },
		"another user":  func() (int, matrix.Code) { return join(carol, bob, alice, "tok", key) },
		"another token": func() (int, matrix.Code) { return join(bob, bob, alice, "other", key) },
		"not by them":   func() (int, matrix.Code) { return join(bob, bob, carol, "tok", key) },
	} {
		if status, code := try(); status != 403 || code != matrix.Forbidden {
			t.Errorf("%s: got %d %s", name, status, code)
		}
	}
	wantMember(t, alice, room, bob, "")
	if status, code := join(bob, bob, alice, "tok", key); status != 200 {
		t.Fatalf("got %d %s", status, code)
	}
	wantState(t, alice, room, "m.room.member", string(bob.UserID), `{"membership":"join"}`)
	var invite string
	for _, e := range timeline(t, alice, room) {
		if e.Type == "m.room.member" && e.Sender == alice.UserID && e.Key == string(bob.UserID) {
			invite = string(e.Content)
		}
	}
	if !strings.Contains(invite, `"membership":"invite"`) || !strings.Contains(invite, `"display_name":"b…@x"`) {
		t.Errorf("the invite in between is %s", invite)
	}
}

func TestLeaveAndForget(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := publicRoom(alice, bob)
	leave, forget := testserver.RoomPath(room, "leave"), testserver.RoomPath(room, "forget")

	forbidden(carol, "POST", leave, `{}`)
	forbidden(bob, "POST", testserver.RoomPath(nowhere, "leave"), `{}`)
	bob.Want(400, matrix.Unknown, "POST", forget, `{}`) // still in it
	bob.Must("POST", leave, `{"reason":"why"}`)
	wantReason(t, alice, room, bob, "leave")
	bob.Must("POST", leave, nil) // again is no news
	wantReason(t, alice, room, bob, "leave")

	// What was left can be read, what was forgotten cannot.
	bob.Must("GET", testserver.RoomPath(room, "messages")+"?dir=b", nil)
	bob.Must("POST", forget, nil)
	forbidden(bob, "GET", testserver.RoomPath(room, "messages")+"?dir=b", "")
	bob.Must("POST", forget, nil)
	carol.Must("POST", forget, nil) // knew nothing of it
	carol.Must("POST", testserver.RoomPath(nowhere, "forget"), nil)
	wantMember(t, alice, room, bob, "leave")

	// An invite or a knock has to be ended first; and after a new join the
	// room is there as before.
	alice.Invite(room, bob)
	bob.Want(400, matrix.Unknown, "POST", forget, `{}`)
	bob.Join(room)
	bob.Must("GET", testserver.RoomPath(room, "messages")+"?dir=b", nil)
	alice.Ban(room, bob)
	bob.Must("POST", forget, nil)
	forbidden(bob, "POST", leave, `{}`) // a ban is not for the banned to end
	wantMember(t, alice, room, bob, "ban")

	alice.Leave(room) // who created it may leave too
	forbidden(alice, "POST", testserver.RoomPath(room, "invite"), target(carol))
}

func TestKickBanUnban(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol, dave := hs.Register("alice"), hs.Register("bob"), hs.Register("carol"), hs.Register("dave")
	room := publicRoom(alice, bob, carol)
	kick, ban, unban := testserver.RoomPath(room, "kick"), testserver.RoomPath(room, "ban"), testserver.RoomPath(room, "unban")

	erin := hs.Register("erin")
	alice.Ban(room, erin)
	for path, whom := range map[string]*testserver.Client{kick: carol, ban: carol, unban: erin} {
		forbidden(bob, "POST", path, target(whom))  // the level is too low
		forbidden(dave, "POST", path, target(whom)) // not in the room
		forbidden(dave, "POST", path, target(alice))
		alice.Want(400, matrix.MissingParam, "POST", path, `{}`)
		alice.Want(400, matrix.BadJSON, "POST", path, `{"user_id":"x"}`)
	}
	forbidden(alice, "POST", testserver.RoomPath(nowhere, "kick"), target(bob))
	wantMember(t, alice, room, carol, "join")
	wantMember(t, alice, room, erin, "ban")

	alice.Must("POST", kick, target(bob))
	wantReason(t, alice, room, bob, "leave")
	forbidden(alice, "POST", kick, target(bob))  // is not in it any more
	forbidden(alice, "POST", kick, target(dave)) // never was
	bob.Join(room)
	alice.Invite(room, dave)
	alice.Kick(room, dave) // an invite can be taken back
	wantMember(t, alice, room, dave, "leave")

	alice.Must("POST", ban, target(bob))
	wantReason(t, alice, room, bob, "ban")
	forbidden(alice, "POST", kick, target(bob)) // would end the ban
	wantMember(t, alice, room, bob, "ban")
	alice.Ban(room, dave) // who is not in the room can be banned
	alice.Must("POST", unban, target(bob))
	wantReason(t, alice, room, bob, "leave")
	alice.Want(http.StatusForbidden, matrix.BadState, "POST", unban, target(bob))
	alice.Want(http.StatusForbidden, matrix.BadState, "POST", unban, target(carol))
	wantMember(t, alice, room, carol, "join")

	suspend(t, hs, alice)
	for _, path := range []string{kick, ban, unban} {
		alice.Want(403, matrix.UserSuspended, "POST", path, target(carol))
	}
}

func TestKnock(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob, carol := hs.Register("alice"), hs.Register("bob"), hs.Register("carol")
	room := alice.CreateRoom(`{"room_alias_name":"door","initial_state":[{"type":"m.room.join_rules","content":{"join_rule":"knock"}}]}`)
	alias := v3 + "/knock/" + url.PathEscape("#door:"+string(hs.Name()))

	got := bob.Must("POST", alias+"?via=elsewhere.test", `{"reason":"why"}`)
	if want := fmt.Sprintf(`{"room_id":%q}`, room); string(got.Body) != want {
		t.Errorf("got %s, want %s", got.Body, want)
	}
	wantReason(t, alice, room, bob, "knock")
	forbidden(bob, "POST", testserver.RoomPath(room, "join"), `{}`)
	bob.Leave(room) // takes it back
	wantMember(t, alice, room, bob, "leave")
	bob.Knock(room)
	alice.Kick(room, bob) // refuses it
	bob.Knock(room)
	alice.Invite(room, bob) // accepts it
	forbidden(bob, "POST", alias, `{}`)
	bob.Join(room)
	forbidden(bob, "POST", alias, `{}`)
	alice.Ban(room, carol)
	forbidden(carol, "POST", alias, `{}`)

	closed := alice.CreateRoom(`{}`)
	forbidden(bob, "POST", v3+"/knock/"+url.PathEscape(string(closed)), `{}`)
	old := alice.CreateRoom(`{"room_version":"6","initial_state":[{"type":"m.room.join_rules","content":{"join_rule":"knock"}}]}`)
	forbidden(bob, "POST", v3+"/knock/"+url.PathEscape(string(old)), `{}`)
	bob.Want(404, matrix.NotFound, "POST", v3+"/knock/"+url.PathEscape(string(nowhere)), `{}`)
	bob.Want(404, matrix.NotFound, "POST", v3+"/knock/"+url.PathEscape("#none:"+string(hs.Name())), `{}`)
}
