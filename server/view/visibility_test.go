package view

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/room"
	"hearth/storage"
	"hearth/storage/matrix"
)

// A history is told in steps: "." alice says something; of bob's membership
// i invite, j join, l leave, k kick, b ban, u unban, n knock, f forget; of the
// history visibility W world_readable, S shared, I invited, J joined.
// Of each step bob then sees the event (+), or not (-). A step without an event
// is "f".
var histories = []struct{ visibility, steps, sees string }{
	// Who never was in the room sees nothing but what everybody may.
	{visibleShared, ". .", "- -"},
	{visibleShared, ". i .", "- - -"},
	{visibleInvited, ". i .", "- + -"},
	{visibleJoined, ". i .", "- - -"},
	{visibleToWorld, ". i .", "+ + +"},
	{visibleShared, ". n .", "- - -"},
	{visibleShared, ". b .", "- - -"},
	// An invitation that ends has to be seen going.
	{visibleShared, ". i . l .", "- - - + -"},
	{visibleShared, ". i . k .", "- - - + -"},
	{visibleShared, ". i . b .", "- - - + -"},
	{visibleInvited, ". i . l .", "- + - + -"},
	{visibleJoined, ". n . l .", "- - - + -"},
	// Members.
	{visibleShared, ". i . j .", "+ + + + +"},
	{visibleInvited, ". i . j .", "- + + + +"},
	{visibleJoined, ". i . j .", "- - - + +"},
	{visibleToWorld, ". i . j .", "+ + + + +"},
	{visibleInvited, ". n . i . j .", "- - - + + + +"},
	// Who left sees what was before, and how they went.
	{visibleShared, ". i . j . l . .", "+ + + + + + - -"},
	{visibleShared, ". i . j . k .", "+ + + + + + -"},
	{visibleShared, ". i . j . b .", "+ + + + + + -"},
	{visibleShared, ". i . j . b . u .", "+ + + + + + - - -"},
	{visibleInvited, ". i . j . l .", "- + + + + + -"},
	{visibleJoined, ". i . j . l .", "- - - + + + -"},
	{visibleJoined, ". i . j . b .", "- - - + + + -"},
	{visibleToWorld, ". i . j . l .", "+ + + + + + +"},
	// Invited once more, one is still outside.
	{visibleShared, ". i . j . l . i .", "+ + + + + + - - -"},
	{visibleInvited, ". i . j . l . i .", "- + + + + + - + -"},
	{visibleShared, ". i . j . l . i . l .", "+ + + + + + - - - + -"},
	{visibleShared, ". i . j . l . n . l .", "+ + + + + + - - - + -"},
	// Back again.
	{visibleShared, ". i . j . l . i . j .", "+ + + + + + + + + + +"},
	{visibleInvited, ". i . j . l . i . j .", "- + + + + + - + + + +"},
	{visibleJoined, ". i . j . l . i . j .", "- - - + + + - - - + +"},
	{visibleJoined, ". i . j . b . u . i . j .", "- - - + + + - - - - - + +"},
	// Forgotten is as never been.
	{visibleShared, ". i . j . l . f .", "- - - - - - - f -"},
	{visibleToWorld, ". i . j . l . f .", "+ + + + + + + f +"},
	{visibleShared, ". i . j . l . f . i . j .", "+ + + + + + + f + + + + +"},
	// The visibility at the event counts, not that of now.
	{visibleShared, ". J . i . j .", "+ + - - - + +"},
	{visibleJoined, ". S . i . j .", "- + + + + + +"},
	{visibleShared, ". W . J .", "- + + + -"},
	{visibleShared, ". W . S . i . j . l .", "+ + + + + + + + + + -"},
	{visibleShared, ". i . j . l . W . J .", "+ + + + + + - + + + -"},
	{visibleShared, ". I . i . J . j .", "+ + - + + + - + +"},
	{"unheard of", ". i . j .", "+ + + + +"},
}

func TestVisibility(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.user("alice"), w.user("bob")
	for _, h := range histories {
		t.Run(h.visibility+" "+h.steps, func(t *testing.T) {
			w := &world{tb: t, store: w.store, rooms: w.rooms}
			r := w.create(alice, h.visibility)
			var events []storage.Event
			var alone, expected []string
			for i, step := range strings.Fields(h.steps) {
				e := w.step(r, alice, bob, step, i)
				if e.Num != 0 {
					events = append(events, e)
					expected = append(expected, strings.Fields(h.sees)[i])
				}
			}
			for _, e := range events {
				alone = append(alone, sign(w.sees(bob, e)))
				if !w.sees(alice, e) {
					t.Errorf("alice does not see %s", e.Type())
				}
			}
			if got, want := strings.Join(alone, " "), strings.Join(expected, " "); got != want {
				t.Errorf("bob sees\n%s, want\n%s of\n%s", got, want, h.steps)
			}
			w.as(bob, func(v *Viewer) error {
				may, err := v.CanSee(events)
				for i := range events {
					if err == nil && sign(may[i]) != alone[i] {
						t.Errorf("event %d of all: %v, alone: %s", i, may[i], alone[i])
					}
				}
				return err
			})
		})
	}
}

func sign(yes bool) string {
	if yes {
		return "+"
	}
	return "-"
}

// step does one step of a history.
func (w *world) step(r storage.Room, alice, bob User, step string, n int) storage.Event {
	w.tb.Helper()
	switch step {
	case ".":
		return w.say(r, alice, fmt.Sprint(n))
	case "f":
		w.write(func(tx *storage.Tx) error { return tx.Forget(r.Num, bob.ID) })
		return storage.Event{}
	case "W", "S", "I", "J":
		value := map[string]string{"W": visibleToWorld, "S": visibleShared, "I": visibleInvited, "J": visibleJoined}[step]
		return w.set(r, alice, matrix.TypeHistoryVisibility, "", fmt.Sprintf(`{"history_visibility":%q}`, value))
	}
	does := map[string]struct {
		do change
		by User
	}{
		"i": {(*room.Rooms).Invite, alice}, "j": {(*room.Rooms).Join, bob}, "l": {(*room.Rooms).Leave, bob}, "n": {(*room.Rooms).Knock, bob},
		"k": {(*room.Rooms).Kick, alice}, "b": {(*room.Rooms).Ban, alice}, "u": {(*room.Rooms).Unban, alice},
	}[step]
	return w.act(does.do, r, does.by, bob)
}

// Events never told, and events of rooms that are not here, are nobody's.
func TestUntoldEventsAreHidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.user("alice")
	r := w.create(alice, visibleToWorld)
	e := w.say(r, alice, "x")
	for name, change := range map[string]func(*storage.Event){
		"none": func(e *storage.Event) { *e = storage.Event{} }, "rejected": func(e *storage.Event) { e.Standing = 2 },
		"soft-failed": func(e *storage.Event) { e.SoftFailed = true }, "untold": func(e *storage.Event) { e.Pos = 0 },
		"outlier": func(e *storage.Event) { e.Outlier = true },
	} {
		hidden := e
		change(&hidden)
		if w.sees(alice, hidden) {
			t.Errorf("%s event is seen", name)
		}
	}
	if !w.sees(alice, e) {
		t.Error("the event itself is not seen")
	}
}

func TestIgnoredAndErased(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob, carol := w.user("alice"), w.user("bob"), w.user("carol")
	r := w.create(alice, visibleShared)
	for _, u := range []User{bob, carol} {
		w.act((*room.Rooms).Invite, r, alice, u)
	}
	w.act((*room.Rooms).Join, r, bob, bob)
	said, topic := w.say(r, alice, "secret"), w.set(r, alice, "m.room.topic", "", `{"topic":"t"}`)
	w.act((*room.Rooms).Join, r, carol, carol)
	see := func(u User) (bodies []string) {
		w.as(u, func(v *Viewer) error {
			seen, err := v.Visible([]storage.Event{said, topic, {}})
			for _, e := range seen {
				bodies = append(bodies, string(e.Content()))
			}
			return err
		})
		return bodies
	}
	want := func(u User, bodies ...string) {
		t.Helper()
		if got := see(u); fmt.Sprint(got) != fmt.Sprint(bodies) {
			t.Errorf("%s sees %v, want %v", u.ID, got, bodies)
		}
	}
	message, state := `{"body":"secret","msgtype":"m.text"}`, `{"topic":"t"}`
	want(bob, message, state)
	want(carol, message, state)
	w.write(func(tx *storage.Tx) error {
		_, err := tx.SetAccountData(bob.Num, storage.AccountData{
			Type: typeIgnored, Content: jsontext.Value(`{"ignored_users":{"":{},"@alice":{},"` + string(alice.ID) + `":{}}}`),
		}, storage.AccountDataLimits{})
		return err
	})
	want(bob, state)
	w.write(func(tx *storage.Tx) error { return tx.DeactivateUser(alice.Num, true) })
	want(carol, "{}", "{}")
	w.write(func(tx *storage.Tx) error {
		_, err := tx.SetAccountData(bob.Num, storage.AccountData{Type: typeIgnored, Content: jsontext.Value(`{"ignored_users":7}`)}, storage.AccountDataLimits{})
		return err
	})
	want(bob, message, state)
}

// However many events there are of one snapshot, it is looked up once.
func TestOneLookUpForASnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.user("alice")
	r := w.create(alice, visibleShared)
	for i := range 30 {
		w.say(r, alice, fmt.Sprint(i))
	}
	events := w.all(r)
	w.as(alice, func(v *Viewer) error {
		_, err := v.CanSee(events[len(events)-30:])
		if len(v.points) != 1 {
			t.Errorf("%d look-ups for one snapshot", len(v.points))
		}
		return err
	})
}
