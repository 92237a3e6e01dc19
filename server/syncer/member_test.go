package syncer

import (
	"testing"

	"hearth/federation/room"
	"hearth/storage"
	"hearth/storage/matrix"
)

func only(t *testing.T, got told, join, invite, knock, leave int) {
	t.Helper()
	r := got.Rooms
	if len(r.Join) != join || len(r.Invite) != invite || len(r.Knock) != knock || len(r.Leave) != leave {
		t.Errorf("got join %d, invite %d, knock %d, leave %d, want %d %d %d %d: %s",
			len(r.Join), len(r.Invite), len(r.Knock), len(r.Leave), join, invite, knock, leave, got.raw)
	}
}

// Whoever joins is told the whole state and what may be seen of the past;
// whoever leaves is told once, up to that; whoever comes back is told of a gap,
// and nothing twice.
func TestJoinLeaveRejoin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.person("alice"), w.person("bob")
	r := alice.public() // history is shared
	bob.sync("")
	alice.say(r, "1")
	only(t, bob.sync(""), 0, 0, 0, 0)
	bob.act(r, "join", nil)
	got := bob.sync(`{"room":{"timeline":{"limit":2}}}`)
	only(t, got, 1, 0, 0, 0)
	want(t, "timeline", got.Rooms.Join[r.ID].timeline(), "message=1 member(@bob)=join")
	wantState(t, "state", got.Rooms.Join[r.ID].stateText(), freshState)
	alice.say(r, "2")
	alice.set(r, "m.room.name", "", `{"name":"N"}`)
	alice.act(r, "kick", bob)
	alice.say(r, "3")
	alice.set(r, "m.room.name", "", `{"name":"O"}`)
	got = bob.sync("")
	only(t, got, 0, 0, 0, 1)
	want(t, "last timeline", got.Rooms.Leave[r.ID].timeline(), "message=2 name=N member(@bob)=leave")
	wantState(t, "last state", got.Rooms.Leave[r.ID].stateText(), "")
	alice.say(r, "4")
	only(t, bob.sync(""), 0, 0, 0, 0)
	only(t, bob.sync("", first), 0, 0, 0, 0)
	bob.act(r, "join", nil)
	got = bob.sync("")
	only(t, got, 1, 0, 0, 0)
	room := got.Rooms.Join[r.ID]
	want(t, "timeline again", room.timeline(), "message=3 name=O message=4 member(@bob)=join")
	wantState(t, "state again", room.stateText(), freshState+" member(@bob)=leave name=N")
	if !room.Timeline.Limited {
		t.Error("the client is not told that there may be a gap")
	}
}

// Left and joined again between two syncs: a change like any other.
func TestAwayBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.person("alice"), w.person("bob")
	r := alice.create(room.Creation{Preset: room.PresetPublic, InitialState: []room.StateDraft{
		{Type: matrix.TypeHistoryVisibility, Content: []byte(`{"history_visibility":"joined"}`)},
	}})
	bob.act(r, "join", nil)
	bob.sync("")
	alice.say(r, "1")
	bob.act(r, "leave", nil)
	alice.say(r, "unseen")
	alice.set(r, "m.room.name", "", `{"name":"N"}`)
	bob.act(r, "join", nil)
	alice.say(r, "2")
	got := bob.sync("").Rooms.Join[r.ID]
	want(t, "timeline", got.timeline(), "message=1 member(@bob)=leave member(@bob)=join message=2")
	wantState(t, "state", got.stateText(), "name=N")
	// In and out between two syncs of somebody who was not in the room before.
	carol := w.person("carol")
	carol.sync("")
	carol.act(r, "join", nil)
	carol.act(r, "leave", nil)
	alice.say(r, "3")
	left := carol.sync("")
	only(t, left, 0, 0, 0, 1)
	// What was before history became visible to members only, is shared.
	want(t, "visit", left.Rooms.Leave[r.ID].timeline(), "create member(@alice)=join power_levels join_rules guest_access "+
		"history_visibility member(@carol)=join member(@carol)=leave")
	wantState(t, "state of the visit", left.Rooms.Leave[r.ID].stateText(), "member(@bob)=join name=N")
}

// Invitations and knocks tell stripped state, and go as they came.
func TestInviteAndKnock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.person("alice"), w.person("bob")
	r := alice.create(room.Creation{Preset: room.PresetPrivate, Name: "Secret"})
	bob.sync("")
	alice.act(r, "invite", bob)
	got := bob.sync("")
	only(t, got, 0, 1, 0, 0)
	wantState(t, "stripped", sorted(got.Rooms.Invite[r.ID].State.Events),
		"create join_rules member(@alice)=join member(@bob)=invite name=Secret")
	alice.say(r, "1")
	only(t, bob.sync(""), 0, 0, 0, 0)
	only(t, bob.sync("", first), 0, 1, 0, 0)
	only(t, bob.sync("", fullState), 0, 1, 0, 0)
	bob.act(r, "leave", nil)
	got = bob.sync("")
	only(t, got, 0, 0, 0, 1)
	want(t, "rejected", got.Rooms.Leave[r.ID].timeline(), "member(@bob)=leave")
	wantState(t, "state of the rejected", got.Rooms.Leave[r.ID].stateText(), "")
	only(t, bob.sync(`{"room":{"include_leave":true}}`), 0, 0, 0, 0)

	alice.set(r, matrix.TypeJoinRules, "", `{"join_rule":"knock"}`)
	bob.act(r, "knock", nil)
	got = bob.sync("")
	only(t, got, 0, 0, 1, 0)
	wantState(t, "knock", sorted(got.Rooms.Knock[r.ID].State.Events), "create join_rules member(@bob)=knock name=Secret")
	alice.act(r, "invite", bob)
	bob.act(r, "join", nil)
	got = bob.sync("")
	only(t, got, 1, 0, 0, 0)
	// Invited again after having left, while the client still has the room.
	bob.act(r, "leave", nil)
	alice.act(r, "invite", bob)
	only(t, bob.sync(""), 0, 1, 0, 0)
}

// Whoever left and was invited again between two syncs is told of the invitation
// alone, and of a gap once it ends: what was said before they left was not told.
func TestInvitedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob, carol := w.person("alice"), w.person("bob"), w.person("carol")
	r := alice.public()
	for _, p := range []*person{bob, carol} {
		p.act(r, "join", nil)
		p.sync("")
	}
	alice.say(r, "missed")
	bob.act(r, "leave", nil)
	alice.act(r, "invite", bob)
	only(t, bob.sync(""), 0, 1, 0, 0)
	bob.act(r, "leave", nil)
	got := bob.sync("").Rooms.Leave[r.ID]
	want(t, "refused", got.timeline(), "member(@bob)=leave")
	if !got.Timeline.Limited {
		t.Error("who was not told what came before they left is told of no gap")
	}
	alice.act(r, "ban", bob)
	if got = bob.sync("").Rooms.Leave[r.ID]; got.Timeline.Limited {
		t.Error("a gap is told twice")
	}
	// Who was told of the leaving has no gap.
	alice.act(r, "kick", carol)
	carol.sync("")
	alice.act(r, "invite", carol)
	alice.act(r, "kick", carol)
	if got = carol.sync("").Rooms.Leave[r.ID]; got.Timeline.Limited {
		t.Error("a gap is told where there is none")
	}
}

// A ban of somebody outside is told, with nothing of the room.
func TestBan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.person("alice"), w.person("bob")
	r := alice.public()
	bob.act(r, "join", nil)
	bob.sync("")
	bob.act(r, "leave", nil)
	alice.set(r, "m.room.name", "", `{"name":"N"}`)
	alice.act(r, "ban", bob)
	alice.say(r, "1")
	got := bob.sync("", stateAfter)
	only(t, got, 0, 0, 0, 1)
	want(t, "left and banned", got.Rooms.Leave[r.ID].timeline(), "member(@bob)=leave member(@bob)=ban")
	wantState(t, "state_after", got.Rooms.Leave[r.ID].afterText(), "member(@bob)=ban")
	alice.act(r, "unban", bob)
	got = bob.sync("")
	only(t, got, 0, 0, 0, 1)
	want(t, "unbanned", got.Rooms.Leave[r.ID].timeline(), "member(@bob)=leave")
	only(t, bob.sync(""), 0, 0, 0, 0)
}

// Archived rooms are told on request, as they were when the user left; never
// once they are forgotten.
func TestArchive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.person("alice"), w.person("bob")
	r := alice.public()
	bob.act(r, "join", nil)
	alice.say(r, "1")
	bob.act(r, "leave", nil)
	alice.set(r, "m.room.name", "", `{"name":"later"}`)
	alice.act(r, "ban", bob)
	const archive = `{"room":{"include_leave":true,"timeline":{"limit":3}}}`
	got := bob.sync(archive)
	only(t, got, 0, 0, 0, 1)
	want(t, "timeline", got.Rooms.Leave[r.ID].timeline(), "message=1 member(@bob)=leave member(@bob)=ban")
	wantState(t, "state", got.Rooms.Leave[r.ID].stateText(), freshState+" member(@bob)=join")
	got = bob.sync(archive, first, stateAfter)
	wantState(t, "state_after", got.Rooms.Leave[r.ID].afterText(), freshState+" member(@bob)=ban")
	only(t, bob.sync(archive), 0, 0, 0, 0)
	got = bob.sync(archive, fullState)
	only(t, got, 0, 0, 0, 1)
	want(t, "no timeline twice", got.Rooms.Leave[r.ID].timeline(), "")
	wantState(t, "full state", got.Rooms.Leave[r.ID].stateText(), freshState+" member(@bob)=ban")
	bob.act(r, "forget", nil)
	only(t, bob.sync(archive), 0, 0, 0, 0)
	only(t, bob.sync(archive, first), 0, 0, 0, 0)

	// Left and forgotten between two syncs: another device has to let go of it.
	other := alice.public()
	bob.act(other, "join", nil)
	bob.sync("")
	alice.say(other, "x")
	bob.act(other, "leave", nil)
	bob.act(other, "forget", nil)
	got = bob.sync("")
	only(t, got, 0, 0, 0, 1)
	want(t, "forgotten", got.Rooms.Leave[other.ID].timeline(), "member(@bob)=leave")
}

// Account data is told when it is set, of rooms among the room's, and to who
// joins later all at once.
func TestAccountData(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.person("alice"), w.person("bob")
	r := alice.public()
	put := func(room matrix.RoomID, typ, content string) {
		t.Helper()
		w.write(func(tx *storage.Tx) error {
			_, err := tx.SetAccountData(bob.num, storage.AccountData{Room: room, Type: typ, Content: []byte(content)}, storage.AccountDataLimits{})
			return err
		})
	}
	bob.sync("")
	put("", "x.global", `{"n":1}`)
	put(r.ID, "x.room", `{"n":2}`)
	got := bob.sync("")
	only(t, got, 0, 0, 0, 0)
	want(t, "global", list(got.Account.Events), "x.global=1")
	bob.act(r, "join", nil)
	want(t, "of a room joined later", list(bob.sync("").Rooms.Join[r.ID].Account.Events), "x.room=2")
	put(r.ID, "x.room", `{"n":3}`)
	got = bob.sync("")
	want(t, "of a quiet room", list(got.Rooms.Join[r.ID].Account.Events), "x.room=3")
	want(t, "timeline", got.Rooms.Join[r.ID].timeline(), "")
	put(r.ID, "x.other", `{"n":4}`)
	put("", "x.other", `{"n":5}`)
	got = bob.sync(`{"account_data":{"not_types":["x.other"]},"room":{"account_data":{"not_types":["x.o*"]}}}`)
	only(t, got, 0, 0, 0, 0)
	want(t, "filtered", list(got.Account.Events), "")
	got = bob.sync("", first)
	want(t, "all", list(got.Account.Events), "x.global=1 x.other=5")
	want(t, "all of the room", list(got.Rooms.Join[r.ID].Account.Events), "x.room=3 x.other=4")
	// Who wants no invites is told of none, and who is ignored invites nobody.
	other := alice.create(room.Creation{Preset: room.PresetPrivate})
	alice.act(other, "invite", bob)
	put("", "m.ignored_user_list", `{"ignored_users":{"@alice:test":{}}}`)
	only(t, bob.sync(""), 0, 0, 0, 0)
	put("", "m.ignored_user_list", `{}`)
	put("", "m.invite_permission_config", `{"default_action":"block"}`)
	only(t, bob.sync("", first), 1, 0, 0, 0)
	put("", "m.invite_permission_config", `{}`)
	only(t, bob.sync("", first), 1, 1, 0, 0)
}
