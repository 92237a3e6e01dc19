package room

import (
	"errors"
	"testing"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// TestMemberships walks through what users may do to memberships.
func TestMemberships(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	room := w.create(Creation{Creator: alice})
	by := func(sender, target matrix.UserID) Act { return Act{Sender: sender, Target: target} }
	steps := []struct {
		what string
		do   act
		act  Act
		code matrix.Code // empty: it succeeds
		want string      // the target's membership after it
	}{
		{"join uninvited", (*Rooms).Join, by(bob, bob), matrix.Forbidden, ""},
		{"knock on an invite room", (*Rooms).Knock, by(bob, bob), matrix.Forbidden, ""},
		{"leave never having been in", (*Rooms).Leave, by(bob, bob), matrix.Forbidden, ""},
		{"invite by a stranger", (*Rooms).Invite, by(carol, bob), matrix.Forbidden, ""},
		{"kick of a stranger", (*Rooms).Kick, by(alice, bob), matrix.Forbidden, ""},
		{"unban who is not banned", (*Rooms).Unban, by(alice, bob), matrix.BadState, ""},
		{"unban by a stranger", (*Rooms).Unban, by(carol, bob), matrix.Forbidden, ""},
		{"invite", (*Rooms).Invite, by(alice, bob), "", matrix.MembershipInvite},
		{"invite again", (*Rooms).Invite, by(alice, bob), "", matrix.MembershipInvite},
		{"join", (*Rooms).Join, by(bob, bob), "", matrix.MembershipJoin},
		{"join again", (*Rooms).Join, by(bob, bob), "", matrix.MembershipJoin},
		{"invite who is joined", (*Rooms).Invite, by(alice, bob), matrix.Forbidden, matrix.MembershipJoin},
		{"kick without power", (*Rooms).Kick, by(bob, alice), matrix.Forbidden, matrix.MembershipJoin},
		{"kick", (*Rooms).Kick, by(alice, bob), "", matrix.MembershipLeave},
		{"leave again", (*Rooms).Leave, by(bob, bob), "", matrix.MembershipLeave},
		{"ban", (*Rooms).Ban, by(alice, bob), "", matrix.MembershipBan},
		{"invite who is banned", (*Rooms).Invite, by(alice, bob), matrix.Forbidden, matrix.MembershipBan},
		{"kick who is banned", (*Rooms).Kick, by(alice, bob), matrix.Forbidden, matrix.MembershipBan},
		{"unban", (*Rooms).Unban, by(alice, bob), "", matrix.MembershipLeave},
		{"leave as the last", (*Rooms).Leave, by(alice, alice), "", matrix.MembershipLeave},
	}
	for _, s := range steps {
		err := w.act(s.do, room, s.act)
		if (s.code == "") != (err == nil) || err != nil && !is(err, s.code) {
			t.Fatalf("%s: %v, want %q", s.what, err, s.code)
		}
		if got := w.membership(room, s.act.Target); got != s.want {
			t.Fatalf("%s: membership %q, want %q", s.what, got, s.want)
		}
	}
	w.read(func(rx *storage.Rx) error {
		events, err := all(rx, room)
		if len(events) != 6+6 {
			t.Errorf("%d events, want 12: a repeated request makes none", len(events))
		}
		return err
	})
}

// TestRefusalNamesRule checks that a refusal tells clients and operators why.
func TestRefusalNamesRule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	room := w.create(Creation{Creator: alice})
	_, err := w.trySend(room, message(bob, "hello"))
	if !errors.Is(err, &rules.Refusal{Rule: rules.SenderNotJoined}) {
		t.Errorf("error %v does not name the rule", err)
	}
	var told *matrix.Error
	if !errors.As(err, &told) || told.Message == "" || told.Status != 403 {
		t.Errorf("client is told %+v", told)
	}
}

// TestRestricted joins rooms by membership of another room.
func TestRestricted(t *testing.T) {
	t.Parallel()
	for _, v := range []matrix.RoomVersion{"8", "10", "12"} {
		w := newWorld(t)
		space := w.create(Creation{Creator: alice, Preset: PresetPublic})
		type allow struct {
			Type   string        `json:"type"`
			RoomID matrix.RoomID `json:"room_id"`
		}
		rule := content("join_rule", "restricted", "allow", []allow{{"m.room_membership", space.ID}, {"m.other", "!x:y"}})
		room := w.create(Creation{Creator: alice, Version: v, InitialState: []StateDraft{{Type: matrix.TypeJoinRules, Content: rule}}})
		if err := w.act((*Rooms).Join, room, Act{Sender: bob}); !is(err, matrix.Forbidden) {
			t.Fatalf("%s: join without the condition: %v", v, err)
		}
		w.mustAct((*Rooms).Join, space, Act{Sender: bob})
		w.mustAct((*Rooms).Join, room, Act{Sender: bob, Content: content("join_authorised_via_users_server", "@x:y", "displayname", "Bob")})
		if got := w.state(room, matrix.TypeMember, string(bob)).Member().AuthorisedVia; got != alice {
			t.Errorf("%s: bob's join is authorised via %q, want alice", v, got)
		}
		// A new profile needs nobody to vouch, and must not copy that.
		profile := setting(bob, matrix.TypeMember, string(bob), content("membership", "join", "join_authorised_via_users_server", alice))
		w.send(room, profile)
		if got := w.state(room, matrix.TypeMember, string(bob)).Member(); got.HasAuthorisedVia {
			t.Errorf("%s: a profile says who vouched", v)
		}
		w.testNoInviter(t, v, space, room)
		w.read(func(rx *storage.Rx) error { return parses(rx, room) })
	}
}

// testNoInviter has everybody leave who may invite.
func (w *world) testNoInviter(t *testing.T, v matrix.RoomVersion, space, room storage.Room) {
	levels := content("users", map[matrix.UserID]int{}, "invite", 50)
	if v != "12" {
		levels = content("users", map[matrix.UserID]int{alice: 100}, "invite", 50)
	}
	w.send(room, setting(alice, matrix.TypePowerLevels, "", levels))
	w.mustAct((*Rooms).Leave, room, Act{Sender: alice})
	w.mustAct((*Rooms).Join, space, Act{Sender: carol})
	err := w.act((*Rooms).Join, room, Act{Sender: carol})
	if !is(err, matrix.Forbidden) || !errors.Is(err, ErrOtherServer) {
		t.Errorf("%s: join with nobody to vouch: %v", v, err)
	}
}

// TestKnock knocks, and is let in.
func TestKnock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	room := w.create(Creation{Creator: alice, InitialState: []StateDraft{{Type: matrix.TypeJoinRules, Content: content("join_rule", "knock")}}})
	w.mustAct((*Rooms).Knock, room, Act{Sender: bob, Reason: "please"})
	w.mustAct((*Rooms).Leave, room, Act{Sender: bob})
	w.mustAct((*Rooms).Knock, room, Act{Sender: bob})
	w.mustAct((*Rooms).Invite, room, Act{Sender: alice, Target: bob})
	w.mustAct((*Rooms).Join, room, Act{Sender: bob})
	if err := w.act((*Rooms).Knock, room, Act{Sender: bob}); !is(err, matrix.Forbidden) {
		t.Errorf("knock of a member: %v", err)
	}
	old := w.create(Creation{Creator: alice, Version: "6"})
	if err := w.act((*Rooms).Knock, old, Act{Sender: bob}); !is(err, matrix.Forbidden) {
		t.Errorf("knock where the version knows none: %v", err)
	}
}
