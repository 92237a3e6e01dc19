package room

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// TestEveryVersion makes a room of every version and uses it.
func TestEveryVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, v := range matrix.RoomVersions() {
		room := w.create(Creation{Creator: alice, Version: v, Preset: PresetPublic, Name: "n", Topic: "t", Invites: []matrix.UserID{carol}})
		if got := w.state(room, matrix.TypeCreate, "").Create().RoomVersion; got != v {
			t.Errorf("room version %q, want %q", got, v)
		}
		w.mustAct((*Rooms).Join, room, Act{Sender: bob})
		ev := w.send(room, message(bob, "hello"))
		if ev.Pos <= 0 || ev.Generation < 2 {
			t.Errorf("%s: message at position %d, generation %d", v, ev.Pos, ev.Generation)
		}
		if got := w.membership(room, carol); got != matrix.MembershipInvite {
			t.Errorf("%s: carol's membership %q, want invite", v, got)
		}
		w.mustAct((*Rooms).Leave, room, Act{Sender: bob})
		if _, err := w.trySend(room, message(bob, "gone")); !is(err, matrix.Forbidden) {
			t.Errorf("%s: message of who left: %v, want M_FORBIDDEN", v, err)
		}
		w.read(func(rx *storage.Rx) error { return parses(rx, room) })
	}
}

// TestCreateOrder checks which events a full creation makes, and in what order.
func TestCreateOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alias := matrix.RoomAlias("#a:" + storagetest.ServerName)
	room := w.create(Creation{
		Creator: alice, Preset: PresetPublic, Name: "name", Topic: "topic", Alias: alias, Public: true, IsDirect: true,
		MemberContent: content("displayname", "Alice"), Invites: []matrix.UserID{bob, alice, bob, carol},
		InviteContent: func(u matrix.UserID) jsontext.Value { return content("displayname", u.Localpart()) },
		InitialState: []StateDraft{
			{Type: typeEncryption, Content: content("algorithm", "m.megolm.v1.aes-sha2")},
			{Type: typeName, Content: content("name", "overwritten")},
			{Type: matrix.TypeJoinRules, Content: content("join_rule", "knock")},
			{Type: "org.example", StateKey: "k", Content: content("n", 1)},
		},
	})
	want := []string{
		"m.room.create", "m.room.member " + string(alice), "m.room.power_levels", "m.room.canonical_alias",
		"m.room.history_visibility", "m.room.guest_access", "m.room.encryption", "m.room.join_rules", "org.example k",
		"m.room.name", "m.room.topic", "m.room.member " + string(bob), "m.room.member " + string(carol),
	}
	var got []string
	w.read(func(rx *storage.Rx) error {
		events, err := all(rx, room)
		for _, e := range events {
			key, _ := e.StateKey()
			got = append(got, strings.TrimSpace(e.Type()+" "+key))
		}
		return err
	})
	if !slices.Equal(got, want) {
		t.Errorf("events\n%v, want\n%v", got, want)
	}
	for typ, want := range map[string]string{
		typeName:                     `{"name":"name"}`,
		typeTopic:                    `{"m.topic":{"m.text":[{"body":"topic"}]},"topic":"topic"}`,
		matrix.TypeJoinRules:         `{"join_rule":"knock"}`,
		typeGuestAccess:              `{"guest_access":"forbidden"}`,
		matrix.TypeHistoryVisibility: `{"history_visibility":"shared"}`,
		typeCanonicalAlias:           `{"alias":"` + string(alias) + `"}`,
	} {
		if got := string(w.state(room, typ, "").Content()); got != want {
			t.Errorf("%s is %s, want %s", typ, got, want)
		}
	}
	invite := string(w.state(room, matrix.TypeMember, string(bob)).Content())
	if invite != `{"displayname":"bob","is_direct":true,"membership":"invite"}` {
		t.Errorf("invitation %s", invite)
	}
	if !room.Public || room.Joined != 1 || room.Invited != 2 {
		t.Errorf("room %+v", room)
	}
}

// TestPresets checks what a preset and a version make of power.
func TestPresets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, v := range matrix.RoomVersions() {
		room := w.create(Creation{
			Creator: alice, Version: v, Preset: PresetTrusted, Invites: []matrix.UserID{bob},
			Content: content("additional_creators", []matrix.UserID{carol}, "creator", "@fake:x", "room_version", "fake"),
		})
		create, levels := w.state(room, matrix.TypeCreate, ""), w.levels(room)
		version, _ := matrix.VersionOf(v)
		if version.PrivilegedCreators {
			if got := create.Create().Creators; !slices.Equal(got, []matrix.UserID{alice, carol, bob}) {
				t.Errorf("%s: creators %v", v, got)
			}
			if len(levels.Users) != 0 || levels.Events[typeTombstone] != 150 {
				t.Errorf("%s: levels %+v", v, levels)
			}
		} else if levels.User(alice) != 100 || levels.User(bob) != 100 || levels.User(carol) != 0 || levels.Events[typeTombstone] != 100 {
			t.Errorf("%s: levels %+v", v, levels)
		}
		if got := strings.Contains(string(create.Content()), `"creator":"`+string(alice)); got == version.CreatorIsSender {
			t.Errorf("%s: creator in the content: %v", v, got)
		}
		if got := string(w.state(room, matrix.TypeJoinRules, "").Content()); got != `{"join_rule":"invite"}` {
			t.Errorf("%s: join rules %s", v, got)
		}
	}
	raised := w.create(Creation{Creator: alice, PowerLevels: content("state_default", 200, "users", map[matrix.UserID]int{bob: 60})})
	if l := w.levels(raised); l.Events[typeTombstone] != 201 || l.User(bob) != 60 || l.Events[typeName] != 50 {
		t.Errorf("levels with an override %+v", l)
	}
	chosen := w.create(Creation{Creator: alice, PowerLevels: content("events", map[string]int{"m.x": 1})})
	if l := w.levels(chosen); len(l.Events) != 1 {
		t.Errorf("levels with events overridden %+v", l)
	}
}

func (w *world) levels(room storage.Room) *matrix.PowerLevels {
	w.tb.Helper()
	levels, err := w.state(room, matrix.TypePowerLevels, "").PowerLevels()
	if err != nil {
		w.tb.Fatal(err)
	}
	return levels
}

// TestCreateRefused checks the errors of a creation, and that nothing is left of it.
func TestCreateRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	taken := matrix.RoomAlias("#taken:" + storagetest.ServerName)
	w.create(Creation{Creator: alice, Alias: taken})
	free := matrix.RoomAlias("#free:" + storagetest.ServerName)
	cases := []struct {
		what string
		c    Creation
		code matrix.Code
	}{
		{"unknown version", Creation{Version: "99"}, matrix.UnsupportedRoomVersion},
		{"alias in use", Creation{Alias: taken}, matrix.RoomInUse},
		{"unknown preset", Creation{Preset: "other"}, matrix.InvalidParam},
		{"no power for the name", Creation{Version: "11", Name: "n", PowerLevels: content("users", map[matrix.UserID]int{alice: 10})}, matrix.InvalidRoomState},
		{"a creator with a level", Creation{PowerLevels: content("users", map[matrix.UserID]int{alice: 10})}, matrix.InvalidRoomState},
		{"a level that is text", Creation{Version: "1", PowerLevels: content("ban", "50")}, matrix.BadJSON},
		{"levels that are no object", Creation{PowerLevels: jsontext.Value("[]")}, matrix.BadJSON},
		{"creation content that is no object", Creation{Content: jsontext.Value("1")}, matrix.BadJSON},
		{"creators that are no users", Creation{Content: content("additional_creators", []string{"x"})}, matrix.BadJSON},
		{"a second create event", Creation{InitialState: []StateDraft{{Type: matrix.TypeCreate, Content: content()}}}, matrix.InvalidRoomState},
		{"members in the initial state", Creation{InitialState: []StateDraft{{Type: matrix.TypeMember, StateKey: string(bob), Content: content("membership", "invite")}}}, matrix.InvalidRoomState},
		{"a float", Creation{InitialState: []StateDraft{{Type: "m.x", Content: jsontext.Value(`{"n":1.5}`)}}}, matrix.BadJSON},
		{"too much", Creation{Topic: strings.Repeat("x", matrix.MaxEventSize)}, matrix.TooLarge},
	}
	for _, c := range cases {
		c.c.Creator = alice
		if c.c.Alias == "" {
			c.c.Alias = free
		}
		err := w.try(func(tx *storage.Tx) error {
			_, err := w.rooms.Create(tx, c.c)
			return err
		})
		if !is(err, c.code) {
			t.Errorf("%s: %v, want %s", c.what, err, c.code)
		}
	}
	w.read(func(rx *storage.Rx) error {
		if _, err := rx.Alias(free); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("something is left of what was refused: %v", err)
		}
		rooms, err := rx.RoomsIn(alice, matrix.MembershipJoin)
		if len(rooms) != 1 {
			t.Errorf("%d rooms, want 1", len(rooms))
		}
		return err
	})
}

// TestSameMoment makes the same room twice in one unit, and so in one
// millisecond: where its ID is a hash, it must not be the same.
func TestSameMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(func(tx *storage.Tx) error {
		for range 3 {
			if _, err := w.rooms.Create(tx, Creation{Creator: alice}); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestNews checks who is woken: those who wait for the room, and the user who
// is invited and does not wait for it.
func TestNews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	room := w.create(Creation{Creator: alice})
	nums := map[matrix.UserID]int64{}
	w.read(func(rx *storage.Rx) error {
		for _, u := range []matrix.UserID{bob, carol} {
			user, err := rx.UserByID(u)
			if err != nil {
				return err
			}
			nums[u] = user.Num
		}
		return nil
	})
	inRoom := w.store.Subscribe(storage.Interest{Rooms: []matrix.RoomID{room.ID}})
	invited := w.store.Subscribe(storage.Interest{User: nums[bob]})
	quiet := w.store.Subscribe(storage.Interest{User: nums[carol]})
	for _, s := range []*storage.Subscription{inRoom, invited, quiet} {
		t.Cleanup(s.Close)
	}
	w.mustAct((*Rooms).Invite, room, Act{Sender: alice, Target: bob})
	<-inRoom.C()
	<-invited.C()
	select {
	case <-quiet.C():
		t.Error("carol was woken by bob's invitation")
	default:
	}
}
