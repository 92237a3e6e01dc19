package view

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"hearth/federation/room"
	"hearth/storage"
	"hearth/storage/matrix"
)

// pages reads until there is no more, and returns all events with how many
// pages it took. Tokens go through their text, as with a client.
func (w *world) pages(u User, r storage.Room, q Query) (ids []matrix.EventID, n int) {
	w.tb.Helper()
	for more := true; more; n++ {
		w.as(u, func(v *Viewer) error {
			opened, err := v.Room(r.ID)
			if err != nil {
				return err
			}
			page, err := v.Page(opened, q)
			if err != nil {
				return err
			}
			for _, e := range page.Events {
				ids = append(ids, e.ID())
			}
			end, err := ParseToken(page.End.String(), noSync)
			q.From, more = &end, page.More
			return err
		})
		if n > 10_000 {
			w.tb.Fatal("paging has no end")
		}
	}
	return ids, n
}

func idsOf(events []storage.Event) (ids []matrix.EventID) {
	for _, e := range events {
		ids = append(ids, e.ID())
	}
	return ids
}

func reversed(ids []matrix.EventID) []matrix.EventID {
	ids = slices.Clone(ids)
	slices.Reverse(ids)
	return ids
}

func TestPagesTellEverythingOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.user("alice")
	r := w.create(alice, visibleShared)
	for i := range 40 {
		w.say(r, alice, fmt.Sprint(i))
	}
	events := w.all(r)
	all := idsOf(events)
	for _, limit := range []int{1, 2, 7, len(all) - 1, len(all), len(all) + 1, 1000} {
		want := (len(all) + limit - 1) / limit
		got, n := w.pages(alice, r, Query{Backwards: true, Limit: limit})
		if !slices.Equal(got, reversed(all)) || n != want {
			t.Errorf("limit %d backwards: %d events in %d pages, want %d in %d", limit, len(got), n, len(all), want)
		}
		got, n = w.pages(alice, r, Query{Limit: limit})
		if !slices.Equal(got, all) || n != want {
			t.Errorf("limit %d forwards: %d events in %d pages, want %d in %d", limit, len(got), n, len(all), want)
		}
	}
	// From a place, and to one.
	for _, i := range []int{0, 1, 20, len(all) - 1, len(all)} {
		for _, j := range []int{0, 1, 20, len(all) - 1, len(all)} {
			for kind, place := range map[string]func(int) *Token{"graph": w.inGraph(events), "stream": w.inStream(events)} {
				got, _ := w.pages(alice, r, Query{From: place(i), To: place(j), Backwards: true, Limit: 3})
				if want := reversed(all[min(i, j):i]); !slices.Equal(got, want) {
					t.Errorf("%s from %d back to %d: %d events, want %d", kind, i, j, len(got), len(want))
				}
				got, _ = w.pages(alice, r, Query{From: place(i), To: place(j), Limit: 3})
				if want := all[i:max(i, j)]; !slices.Equal(got, want) {
					t.Errorf("%s from %d on to %d: %d events, want %d", kind, i, j, len(got), len(want))
				}
			}
		}
	}
}

// inGraph makes the token before the i-th event in topological order.
func (w *world) inGraph(events []storage.Event) func(int) *Token {
	return func(i int) *Token {
		t := TokenAfter(events[len(events)-1])
		if i < len(events) {
			t = TokenBefore(events[i])
		}
		return &t
	}
}

// inStream makes the token before the i-th event in the order of the stream.
func (w *world) inStream(events []storage.Event) func(int) *Token {
	return func(i int) *Token {
		t := StreamToken(events[len(events)-1].Pos)
		if i < len(events) {
			t = StreamToken(events[i].Pos - 1)
		}
		return &t
	}
}

// What is sent while a client pages back is not in the pages, and nothing is
// told twice.
func TestPagesWithConcurrentSends(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.user("alice")
	r := w.create(alice, visibleShared)
	for i := range 20 {
		w.say(r, alice, fmt.Sprint(i))
	}
	all := idsOf(w.all(r))
	q := Query{Backwards: true, Limit: 4}
	var got []matrix.EventID
	for more := true; more; {
		w.as(alice, func(v *Viewer) error {
			opened, err := v.Room(r.ID)
			if err != nil {
				return err
			}
			page, err := v.Page(opened, q)
			got = append(got, idsOf(page.Events)...)
			q.From, more = &page.End, page.More
			return err
		})
		w.say(r, alice, "meanwhile")
	}
	if !slices.Equal(got, reversed(all)) {
		t.Errorf("got %d events, want %d", len(got), len(all))
	}
}

func TestPagesAreFiltered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.user("alice"), w.user("bob")
	r := w.create(alice, visibleJoined)
	// Until the room has a history visibility, it is shared.
	want := idsOf(w.all(r))
	last := slices.IndexFunc(w.all(r), func(e storage.Event) bool { return e.Type() == matrix.TypeHistoryVisibility })
	want = want[:last+1]
	for i := range 150 {
		w.say(r, alice, fmt.Sprint(i))
	}
	w.act((*room.Rooms).Invite, r, alice, bob)
	want = append(want, w.act((*room.Rooms).Join, r, bob, bob).ID())
	for range 5 {
		want = append(want, w.say(r, alice, "seen").ID())
	}
	want = append(want, w.act((*room.Rooms).Leave, r, bob, bob).ID())
	w.say(r, alice, "behind his back")
	for _, limit := range []int{1, 3, 50} {
		if got, _ := w.pages(bob, r, Query{Backwards: true, Limit: limit}); !slices.Equal(got, reversed(want)) {
			t.Errorf("backwards: got %d events, want %d", len(got), len(want))
		}
		if got, _ := w.pages(bob, r, Query{Limit: limit}); !slices.Equal(got, want) {
			t.Errorf("forwards: got %d events, want %d", len(got), len(want))
		}
	}
	left := w.event(want[len(want)-1])
	w.as(bob, func(v *Viewer) error {
		opened, err := v.Room(r.ID)
		if err != nil {
			return err
		}
		page, err := v.Page(opened, Query{Backwards: true, Limit: 1})
		if err == nil && page.Start != StreamToken(left.Pos) {
			t.Errorf("who left is told to begin at %v, they left at %v", page.Start, left.Pos)
		}
		return err
	})
	var messages, elsewhere RoomEventFilter
	if err := errors.Join(json.Unmarshal([]byte(`{"types":["m.room.message"]}`), &messages), json.Unmarshal([]byte(`{"not_rooms":["`+string(r.ID)+`"]}`), &elsewhere)); err != nil {
		t.Fatal(err)
	}
	if got, n := w.pages(bob, r, Query{Limit: 2, Filter: &messages}); !slices.Equal(got, want[last+2:last+7]) || n != 3 {
		t.Errorf("messages: got %d events in %d pages", len(got), n)
	}
	if got, n := w.pages(alice, r, Query{Limit: 2, Filter: &elsewhere}); len(got) > 0 || n != 1 {
		t.Errorf("elsewhere: got %d events in %d pages", len(got), n)
	}
}

// A page ends where it would become too large, and the next goes on there.
func TestPagesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.user("alice")
	r := w.create(alice, visibleShared)
	large := strings.Repeat("x", 60<<10)
	for range 2*maxBytes/len(large) - 10 {
		w.say(r, alice, large)
	}
	all := idsOf(w.all(r))
	for _, q := range []Query{{Limit: 1000}, {Limit: 1000, Backwards: true}} {
		got, n := w.pages(alice, r, q)
		if q.Backwards {
			slices.Reverse(got)
		}
		if !slices.Equal(got, all) || n != 2 {
			t.Errorf("got %d events in %d pages, want %d in 2", len(got), n, len(all))
		}
	}
}

func TestRoomIsOpenedToTheRightUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob, carol := w.user("alice"), w.user("bob"), w.user("carol")
	r := w.create(alice, visibleShared)
	topic := func(u User) string {
		got := "hidden"
		w.as(u, func(v *Viewer) error {
			opened, err := v.Room(r.ID)
			if errors.Is(err, ErrHidden) {
				return nil
			} else if err != nil {
				return err
			}
			e, err := v.StateEvent(opened, "m.room.topic", "")
			if err != nil {
				return err
			}
			list, err := v.State(opened, "m.room.topic")
			if err == nil && (len(list) != 1 || list[0] != e.Num) {
				t.Errorf("the list has %d topics", len(list))
			}
			got = string(e.Content())
			return err
		})
		return got
	}
	one, two, three := `{"topic":"1"}`, `{"topic":"2"}`, `{"topic":"3"}`
	w.set(r, alice, "m.room.topic", "", one)
	w.act((*room.Rooms).Invite, r, alice, bob)
	same(t, "invited", topic(bob), "hidden")
	w.act((*room.Rooms).Join, r, bob, bob)
	same(t, "joined", topic(bob), one)
	w.set(r, alice, "m.room.topic", "", two)
	same(t, "joined", topic(bob), two)
	w.act((*room.Rooms).Leave, r, bob, bob)
	w.set(r, alice, "m.room.topic", "", three)
	same(t, "left", topic(bob), two)
	w.act((*room.Rooms).Invite, r, alice, bob)
	same(t, "invited again", topic(bob), two)
	w.act((*room.Rooms).Ban, r, alice, bob)
	same(t, "banned", topic(bob), two)
	same(t, "stranger", topic(carol), "hidden")
	w.set(r, alice, matrix.TypeHistoryVisibility, "", `{"history_visibility":"world_readable"}`)
	same(t, "stranger who peeks", topic(carol), three)
	same(t, "banned", topic(bob), two)
	w.write(func(tx *storage.Tx) error { return tx.Forget(r.Num, bob.ID) })
	same(t, "forgotten, peeking", topic(bob), three)
	w.set(r, alice, matrix.TypeHistoryVisibility, "", `{"history_visibility":"joined"}`)
	same(t, "forgotten", topic(bob), "hidden")
}

func TestStripped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.user("alice"), w.user("bob")
	r := w.create(alice, visibleShared)
	w.set(r, alice, "m.room.name", "", `{"name":"before"}`)
	w.set(r, alice, "m.room.secret", "", `{"x":1}`)
	invite := w.act((*room.Rooms).Invite, r, alice, bob)
	w.set(r, alice, "m.room.name", "", `{"name":"after"}`)
	var got []string
	w.read(func(rx *storage.Rx) error {
		list, err := Stripped(rx, invite)
		for _, raw := range list {
			var e map[string]any
			if err := json.Unmarshal(raw, &e); err != nil || len(e) != 4 {
				t.Errorf("%s: %v", raw, err)
			}
			got = append(got, fmt.Sprint(e["type"], e["state_key"]))
			if e["type"] == "m.room.name" {
				same(t, "name", e["content"], map[string]any{"name": "before"})
			}
		}
		return err
	})
	same(t, "stripped state", got, []string{
		"m.room.create", "m.room.join_rules", "m.room.name",
		"m.room.member" + string(alice.ID), "m.room.member" + string(bob.ID),
	})
}
