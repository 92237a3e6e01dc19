package room

import (
	"fmt"
	"testing"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// upgrade upgrades a room.
func (w *world) upgrade(old storage.Room, u Upgrading) (room storage.Room, err error) {
	w.tb.Helper()
	err = w.try(func(tx *storage.Tx) (err error) {
		room, err = w.rooms.Upgrade(tx, old, u)
		return err
	})
	return room, err
}

// TestUpgrade upgrades a room with something of everything, from each kind of
// version to each kind.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for _, from := range []matrix.RoomVersion{"1", "6", "10", "12"} {
		for _, to := range []matrix.RoomVersion{"3", "10", "11", "12"} {
			t.Run(fmt.Sprintf("%s to %s", from, to), func(t *testing.T) {
				t.Parallel()
				testUpgrade(t, from, to)
			})
		}
	}
}

const pub matrix.RoomAlias = "#pub:" + storagetest.ServerName

// oldRoom is a room to upgrade: mallory is banned, who has more power than bob.
func (w *world) oldRoom(v matrix.RoomVersion) storage.Room {
	users := map[matrix.UserID]int{bob: 60, mallory: 70}
	if v != "12" {
		users[alice] = 100
	}
	room := w.create(Creation{
		Creator: alice, Version: v, Preset: PresetPublic, Public: true, Name: "Pub", Topic: "Beer", Alias: pub,
		Content:     content("type", "m.space", "m.federate", false),
		PowerLevels: content("users", users, "ban", 80, "events", map[string]int{typeTombstone: 60, matrix.TypePowerLevels: 100}),
		InitialState: []StateDraft{
			{Type: typeEncryption, Content: content("algorithm", "m.megolm.v1.aes-sha2")},
			{Type: typeSpaceChild, StateKey: "!child:x", Content: content("via", []string{"x"})},
			{Type: "org.example.own", Content: content("secret", true)},
		},
	})
	w.mustAct((*Rooms).Join, room, Act{Sender: bob, Content: content("displayname", "Bob")})
	w.mustAct((*Rooms).Ban, room, Act{Sender: alice, Target: mallory, Reason: "spam"})
	return room
}

const mallory matrix.UserID = "@mallory:" + storagetest.ServerName

func testUpgrade(t *testing.T, from, to matrix.RoomVersion) {
	w := newWorld(t)
	old := w.oldRoom(from)
	if _, err := w.upgrade(old, Upgrading{By: carol, Version: to}); !is(err, matrix.Forbidden) {
		t.Fatalf("upgrade by a stranger: %v, want M_FORBIDDEN", err)
	}
	now, err := w.upgrade(old, Upgrading{By: bob, Version: to, Creators: []matrix.UserID{carol, bob}})
	if err != nil {
		t.Fatal(err)
	}
	create := w.state(now, matrix.TypeCreate, "")
	var c struct {
		Predecessor struct {
			RoomID  matrix.RoomID  `json:"room_id"`
			EventID matrix.EventID `json:"event_id"`
		} `json:"predecessor"`
	}
	if err := create.DecodeContent(&c); err != nil {
		t.Fatal(err)
	}
	tombstone := w.state(old, typeTombstone, "")
	if c.Predecessor.RoomID != old.ID || tombstone == nil || string(tombstone.Content()) != string(content("body", "This room has been replaced", "replacement_room", now.ID)) {
		t.Errorf("predecessor %+v, tombstone %v", c.Predecessor, tombstone)
	}
	if to == "12" {
		if got := create.Create().Creators; len(got) != 2 || got[0] != bob || got[1] != carol {
			t.Errorf("creators %v", got)
		}
	} else if c.Predecessor.EventID != tombstone.ID() {
		t.Errorf("predecessor names %s, want the tombstone %s", c.Predecessor.EventID, tombstone.ID())
	}
	if cc := create.Create(); cc.Type != "m.space" || cc.Federate || cc.RoomVersion != to {
		t.Errorf("create content %+v", cc)
	}
	for _, typ := range []string{typeName, typeTopic, typeEncryption, typeGuestAccess, matrix.TypeHistoryVisibility, matrix.TypeJoinRules} {
		was, is := w.state(old, typ, ""), w.state(now, typ, "")
		if is == nil || string(is.Content()) != string(was.Content()) {
			t.Errorf("%s was not transferred", typ)
		}
	}
	if w.state(now, typeSpaceChild, "!child:x") == nil || w.state(now, "org.example.own", "") != nil {
		t.Error("a child of the space is missing, or something was transferred that should not")
	}
	if got := w.membership(now, mallory); got != matrix.MembershipBan {
		t.Errorf("mallory's membership %q, want ban", got)
	}
	w.checkUpgradeLevels(t, old, now, to)
	w.read(func(rx *storage.Rx) error {
		a, err := rx.Alias(pub)
		if err == nil && a.Room != now.Num {
			t.Error("the alias did not move")
		}
		wasOld, err2 := rx.RoomByNum(old.Num)
		if err2 != nil || wasOld.Public || !now.Public {
			t.Errorf("public: old %v, new %v, %v", wasOld.Public, now.Public, err2)
		}
		if err := parses(rx, now); err != nil {
			return err
		}
		if err := sound(rx, old.ID); err != nil {
			return err
		}
		return err
	})
	if ev := w.state(now, typeCanonicalAlias, ""); ev == nil || string(ev.Content()) != string(content("alias", pub)) {
		t.Errorf("canonical alias %v", ev)
	}
	if _, err := w.trySend(old, message(carol, "x")); !is(err, matrix.Forbidden) {
		t.Errorf("message to the old room: %v", err)
	}
}

func (w *world) checkUpgradeLevels(t *testing.T, old, now storage.Room, to matrix.RoomVersion) {
	levels, err := w.state(now, matrix.TypePowerLevels, "").PowerLevels()
	if err != nil {
		t.Fatal(err)
	}
	_, named := levels.Users[bob]
	switch {
	case to == "12" && (named || levels.Events[typeTombstone] != 60):
		t.Errorf("levels of a version 12 room %+v", levels)
	case to != "12" && levels.User(bob) != 60:
		t.Errorf("bob keeps power %d in the new room, want 60", levels.User(bob))
	}
	if levels.User(mallory) != 70 || levels.Ban.Value != 80 {
		t.Errorf("levels %+v", levels)
	}
	// bob may not change the levels of the old room, so these stay.
	if levels, _ := w.state(old, matrix.TypePowerLevels, "").PowerLevels(); levels.EventsDefault.Or(0) != 0 {
		t.Errorf("the old room's levels changed: %+v", levels)
	}
}

// TestUpgradeCloses checks that the old room takes no more messages where the
// user may see to that.
func TestUpgradeCloses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.oldRoom("11")
	w.mustAct((*Rooms).Join, old, Act{Sender: carol})
	if _, err := w.upgrade(old, Upgrading{By: alice, Version: "99"}); !is(err, matrix.UnsupportedRoomVersion) {
		t.Errorf("unknown version: %v", err)
	}
	if _, err := w.upgrade(old, Upgrading{By: alice, Version: "12"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.trySend(old, message(carol, "x")); !is(err, matrix.Forbidden) {
		t.Errorf("message to the old room: %v", err)
	}
	if ev := w.state(old, typeCanonicalAlias, ""); ev == nil || string(ev.Content()) != "{}" {
		t.Errorf("canonical alias of the old room %v", ev)
	}
}

// Whoever had all power as a creator has enough of it in a room whose version
// knows no such thing: else nobody would have any.
func TestUpgradeToAVersionWithoutPrivilegedCreators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, version := range []matrix.RoomVersion{"11", "10", "3"} {
		old := w.create(Creation{Creator: alice, Version: "12", Content: content("additional_creators", []matrix.UserID{bob})})
		now, err := w.upgrade(old, Upgrading{By: alice, Version: version})
		if err != nil {
			t.Fatal(err)
		}
		levels, err := w.state(now, matrix.TypePowerLevels, "").PowerLevels()
		if err != nil {
			t.Fatal(err)
		}
		if has := levels.User(alice); has < administrator || levels.User(bob) != has || levels.User(carol) != 0 {
			t.Errorf("version %s: alice has %d, bob %d, carol %d", version, has, levels.User(bob), levels.User(carol))
		}
		w.send(now, setting(alice, matrix.TypePowerLevels, "", content("users", map[matrix.UserID]int64{alice: levels.User(alice), bob: levels.User(bob)})))
		w.send(now, setting(alice, typeTombstone, "", content("body", "closed")))
	}
}
