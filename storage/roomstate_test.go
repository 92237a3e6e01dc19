package storage_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

func TestMemberships(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	r := newRoomTest(t, s, "11")
	invite := r.member(alice, bob, "invite")
	r.member(carol, carol, "join")
	check := func(user matrix.UserID, membership string, sender matrix.UserID, pos, since int64, forgotten bool) {
		t.Helper()
		r.read(func(rx *storage.Rx) error {
			m := must[storage.Membership](t)(rx.Membership(r.num, user))
			want := storage.Membership{
				Room: r.num, RoomID: r.id, User: user, Membership: membership, Event: m.Event, Sender: sender,
				Pos: pos, Since: since, Forgotten: forgotten,
			}
			if m != want {
				t.Errorf("membership %+v, want %+v", m, want)
			}
			return nil
		})
	}
	counts := func(joined, invited int64, servers ...matrix.ServerName) {
		t.Helper()
		r.read(func(rx *storage.Rx) error {
			room, err := rx.RoomByNum(r.num)
			j, i := room.Joined, room.Invited
			if j != joined || i != invited || err != nil {
				t.Errorf("%d joined, %d invited, %v; want %d and %d", j, i, err, joined, invited)
			}
			if got := must[[]matrix.ServerName](t)(rx.JoinedServers(r.num)); !slices.Equal(got, servers) {
				t.Errorf("servers %v, want %v", got, servers)
			}
			return nil
		})
	}
	check(bob, "invite", alice, invite.Pos, invite.Pos, false)
	counts(2, 1, "remote.example", "test.example")
	join := r.member(bob, bob, "join")
	profile := r.member(bob, bob, "join")
	check(bob, "join", bob, profile.Pos, join.Pos, false)
	counts(3, 0, "remote.example", "test.example")
	within(t, s, func(tx *storage.Tx) error { return tx.Forget(r.num, bob) }) // a member: nothing happens
	check(bob, "join", bob, profile.Pos, join.Pos, false)
	kick := r.member(alice, bob, "leave")
	r.member(carol, carol, "leave")
	counts(1, 0, "test.example")
	check(bob, "leave", alice, kick.Pos, kick.Pos, false)
	within(t, s, func(tx *storage.Tx) error { return tx.Forget(r.num, bob) })
	r.read(func(rx *storage.Rx) error {
		m := must[storage.Membership](t)(rx.Membership(r.num, bob))
		if !m.Forgotten {
			t.Errorf("forgotten: %+v", m)
		}
		return nil
	})
	ban := r.member(alice, bob, "ban")
	check(bob, "ban", alice, ban.Pos, ban.Pos, true)
	r.member(alice, bob, "leave")
	again := r.member(alice, bob, "invite")
	check(bob, "invite", alice, again.Pos, again.Pos, false)
}

// TestVanishedMembership takes a member out of the state, which a resolution may do.
func TestVanishedMembership(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	r := newRoomTest(t, s, "11")
	join := r.member(bob, bob, "join")
	topic := r.state("m.room.topic", "", `{"topic":"one"}`)
	var pos int64
	within(t, s, func(tx *storage.Tx) error {
		room := must[storage.Room](t)(tx.RoomByNum(r.num))
		next := must[storage.StateNum](t)(tx.ChildState(r.num, room.State, []storage.StateKeyed{
			{Type: matrix.TypeMember, StateKey: string(bob)}, {Type: "m.room.topic"},
		}))
		pos = tx.NextPos()
		changes := must[[]storage.StateChange](t)(tx.SetCurrentState(room, next, pos))
		want := []storage.StateChange{
			{Type: matrix.TypeMember, StateKey: string(bob), Was: join.Num, Pos: pos},
			{Type: "m.room.topic", Was: topic.Num, Pos: pos},
		}
		if !slices.Equal(changes, want) {
			t.Errorf("changes %+v, want %+v", changes, want)
		}
		again := must[storage.Room](t)(tx.RoomByNum(r.num))
		if changes, err := tx.SetCurrentState(again, next, tx.NextPos()); len(changes) != 0 || err != nil {
			t.Errorf("no change: %v, %v", changes, err)
		}
		return nil
	})
	r.read(func(rx *storage.Rx) error {
		m := must[storage.Membership](t)(rx.Membership(r.num, bob))
		if m.Membership != "leave" || m.Event != 0 || m.Since != pos || m.Sender != bob {
			t.Errorf("membership %+v", m)
		}
		if _, err := rx.CurrentState(r.num, "m.room.topic", ""); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("topic: %v", err)
		}
		if got := must[storage.Room](t)(rx.Room(r.id)); got.LatestPos != pos || got.Joined != 1 {
			t.Errorf("room %+v, want latest position %d", got, pos)
		}
		return nil
	})
	r.member(bob, bob, "join")
}

func TestStateChanges(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	r := newRoomTest(t, s, "11")
	one := r.state("m.room.topic", "", `{"topic":"one"}`)
	name := r.state("m.room.name", "", `{"name":"n"}`)
	two := r.state("m.room.topic", "", `{"topic":"two"}`)
	three := r.state("m.room.topic", "", `{"topic":"three"}`)
	r.message(alice, "hi")
	if two.Replaces != one.Num || three.Replaces != two.Num || one.Replaces != 0 || name.Replaces != 0 {
		t.Errorf("replaced: %d, %d, %d, %d", one.Replaces, name.Replaces, two.Replaces, three.Replaces)
	}
	check := func(after, upto int64, want ...storage.StateChange) {
		t.Helper()
		r.read(func(rx *storage.Rx) error {
			got := must[[]storage.StateChange](t)(rx.StateChanges(r.num, after, upto))
			if !slices.Equal(got, want) {
				t.Errorf("changes in (%d, %d]: %+v, want %+v", after, upto, got, want)
			}
			return nil
		})
	}
	nameChange := storage.StateChange{Type: "m.room.name", Event: name.Num, Pos: name.Pos}
	check(one.Pos, three.Pos, nameChange, storage.StateChange{Type: "m.room.topic", Event: three.Num, Was: one.Num, Pos: three.Pos})
	check(one.Pos, two.Pos, nameChange, storage.StateChange{Type: "m.room.topic", Event: two.Num, Was: one.Num, Pos: two.Pos})
	check(one.Pos-1, one.Pos, storage.StateChange{Type: "m.room.topic", Event: one.Num, Pos: one.Pos})
	check(three.Pos, s.Pos())
	r.read(func(rx *storage.Rx) error {
		if _, err := rx.CurrentStateAt(r.num, 1); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("state before the room: %v", err)
		}
		for pos, want := range map[int64]storage.EventNum{one.Pos: one.Num, name.Pos: one.Num, two.Pos: two.Num, rx.Pos(): three.Num} {
			snapshot := must[storage.StateNum](t)(rx.CurrentStateAt(r.num, pos))
			if got := must[storage.EventNum](t)(rx.StateEvent(snapshot, "m.room.topic", "")); got != want {
				t.Errorf("topic at %d is event %d, want %d", pos, got, want)
			}
		}
		return nil
	})
}

func TestCurrentStateLists(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	r := newRoomTest(t, s, "11")
	r.member(bob, bob, "join")
	r.state("m.room.topic", "", `{"topic":"one"}`)
	r.read(func(rx *storage.Rx) error {
		for _, c := range []struct {
			types []string
			want  string
		}{
			{nil, "[m.room.create/ m.room.member/@alice:test.example m.room.member/@bob:test.example m.room.topic/]"},
			{[]string{"m.room.topic", "none", "m.room.member"}, "[m.room.topic/ m.room.member/@alice:test.example m.room.member/@bob:test.example]"},
		} {
			var got []string
			for _, e := range must[[]storage.Event](t)(rx.CurrentStateOf(r.num, c.types...)) {
				key, _ := e.StateKey()
				got = append(got, e.Type()+"/"+key)
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("state of %v: %v, want %s", c.types, got, c.want)
			}
		}
		return nil
	})
}

func TestMemberLists(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	r := newRoomTest(t, s, "11")
	r.member(carol, carol, "join")
	r.member(alice, "@zoe:test.example", "invite")
	r.member(bob, bob, "join")
	r.member(alice, alice, "join") // a profile change: still the first
	users := func(list []storage.Membership, err error) (ids []matrix.UserID) {
		t.Helper()
		for _, m := range must[[]storage.Membership](t)(list, err) {
			ids = append(ids, m.User)
		}
		return ids
	}
	want := func(what string, got []matrix.UserID, want ...matrix.UserID) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	r.read(func(rx *storage.Rx) error {
		want("joined", users(rx.Members(r.num, "join", "", -1)), alice, bob, carol)
		want("a page", users(rx.Members(r.num, "join", alice, 1)), bob)
		want("heroes", users(rx.Heroes(r.num, alice, 2)), carol, "@zoe:test.example")
		want("heroes for carol", users(rx.Heroes(r.num, carol, 9)), alice, "@zoe:test.example", bob)
		want("local", must[[]matrix.UserID](t)(rx.LocalMembers(r.num)), alice, bob)
		return nil
	})
	r.member(carol, carol, "leave")
	r.member(alice, "@zoe:test.example", "ban")
	other := newRoomTest(t, s, "12")
	r.read(func(rx *storage.Rx) error {
		want("past heroes", users(rx.PastHeroes(r.num, alice, 9)), carol, "@zoe:test.example")
		rooms := must[[]matrix.RoomID](t)(rx.RoomsIn(alice, "join"))
		if !slices.Equal(rooms, []matrix.RoomID{r.id, other.id}) {
			t.Errorf("alice's rooms: %v", rooms)
		}
		if list := must[[]storage.Membership](t)(rx.MembershipsOf(carol)); len(list) != 1 || list[0].Membership != "leave" {
			t.Errorf("carol's: %v", list)
		}
		for server, joined := range map[matrix.ServerName]bool{"test.example": true, "remote.example": false} {
			if got := must[bool](t)(rx.ServerJoined(r.num, server)); got != joined {
				t.Errorf("%s is joined: %v", server, got)
			}
		}
		return nil
	})
}
