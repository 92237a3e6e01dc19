package storage_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// steppedClock is a steady clock that a test moves.
func steppedClock() (storagetest.Option, func(time.Duration)) {
	now := new(time.Duration)
	return func(o *storage.Options) { o.Mono = func() time.Duration { return *now } }, func(d time.Duration) { *now += d }
}

func TestRedaction(t *testing.T) {
	t.Parallel()
	clock, pass := steppedClock()
	s := storagetest.Open(t, clock)
	r := newRoomTest(t, s, "11")
	secret := r.message(alice, "secret-word")
	redaction := r.send(matrix.TypeRedaction, nil, alice, fmt.Sprintf(`{"redacts":%q,"reason":"r"}`, secret.ID()))
	early := r.send(matrix.TypeRedaction, nil, alice, `{"redacts":"$notyet"}`)
	within(t, s, func(tx *storage.Tx) error {
		if err := tx.Redact(secret.Num, redaction.Num); err != nil {
			return err
		}
		return tx.Redact(secret.Num, early.Num) // the first one counts
	})
	check := func(when string) {
		t.Helper()
		r.read(func(rx *storage.Rx) error {
			e := must[storage.Event](t)(rx.Event(secret.ID()))
			if string(e.Content()) != "{}" || e.RedactedBy != redaction.Num || e.ID() != secret.ID() || e.Sender() != alice {
				t.Errorf("%s: %s, redacted by %d", when, e.JSON(), e.RedactedBy)
			}
			return nil
		})
	}
	check("at once")
	r.read(func(rx *storage.Rx) error {
		for target, want := range map[matrix.EventID]storage.EventNum{secret.ID(): redaction.Num, "$notyet": early.Num} {
			list := must[[]storage.Event](t)(rx.RedactionsOf(r.num, target))
			if len(list) != 1 || list[0].Num != want {
				t.Errorf("redactions of %s: %v", target, list)
			}
		}
		if list := must[[]storage.Event](t)(rx.RedactionsOf(r.num+1, secret.ID())); len(list) != 0 {
			t.Errorf("redactions in another room: %v", list)
		}
		return nil
	})
	holds := func() bool {
		return strings.Contains(s.Texts(t, `SELECT CAST(json AS TEXT) FROM events`), "secret-word")
	}
	pass(7*24*time.Hour - time.Minute)
	sweepNow(t, s)
	if !holds() {
		t.Error("overwritten too early")
	}
	pass(2 * time.Minute)
	sweepNow(t, s)
	if holds() {
		t.Error("not overwritten after seven days")
	}
	check("after seven days")
}

func sweepNow(t testing.TB, s *storage.Store) {
	t.Helper()
	if err := s.SweepNow(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestSendersAreForgotten(t *testing.T) {
	t.Parallel()
	clock, pass := steppedClock()
	s := storagetest.Open(t, clock)
	r := newRoomTest(t, s, "11")
	device := addDevice(t, s, "alice")
	send := func(txn string) (e storage.Event) {
		within(t, s, func(tx *storage.Tx) (err error) {
			parents := must[[]storage.Event](t)(tx.Extremities(r.num))
			draft := r.draft("m.room.message", nil, alice, `{}`, parents)
			state := must[storage.Room](t)(tx.RoomByNum(r.num)).State
			e, err = r.append(tx, draft, parents, state, storage.NewEvent{Place: storage.Live, Device: device, TxnID: txn})
			return err
		})
		return e
	}
	check := func(e storage.Event, device int64, txn string) {
		t.Helper()
		r.read(func(rx *storage.Rx) error {
			got := must[storage.Event](t)(rx.EventByNum(e.Num))
			if got.Device != device || got.TxnID != txn {
				t.Errorf("sent by device %d, transaction %q; want %d, %q", got.Device, got.TxnID, device, txn)
			}
			return nil
		})
	}
	first := send("one")
	pass(13 * 24 * time.Hour)
	second := send("two")
	sweepNow(t, s)
	check(first, device, "one")
	pass(2 * 24 * time.Hour)
	sweepNow(t, s)
	check(first, 0, "")
	check(second, device, "two")
}

func TestPurgeRoom(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	kept := newRoomTest(t, s, "11")
	kept.message(alice, "kept")
	tables := []string{
		"rooms", "events", "event_edges", "missing_parents", "event_senders", "extremities", "redactions", "current_state",
		"state_changes", "room_states", "memberships", "joined_servers", "aliases", "state_snapshots",
	}
	count := func() (n string) {
		for _, table := range tables {
			n += table + " " + s.Texts(t, `SELECT count(*) FROM `+table)
		}
		return n
	}
	before := count()
	r := newRoomTest(t, s, "11")
	for n := range 600 {
		switch {
		case n%3 == 0:
			r.member(alice, matrix.UserID(fmt.Sprintf("@u%d:s%d.example", n, n%9)), []string{"invite", "join", "leave"}[n/3%3])
		default:
			r.message(alice, fmt.Sprint(n))
		}
	}
	r.send(matrix.TypeRedaction, nil, alice, `{"redacts":"$x"}`)
	within(t, s, func(tx *storage.Tx) error {
		room := must[storage.Room](t)(tx.RoomByNum(r.num))
		e := r.draft("m.room.message", nil, alice, `{}`, []storage.Event{{Event: r.draft("x", nil, alice, `{}`, nil)}})
		if _, err := r.append(tx, e, nil, room.State, storage.NewEvent{Place: storage.Backfilled, TxnID: "t", Device: 1}); err != nil {
			return err
		}
		if err := tx.AddAlias("#a:test.example", r.num, alice); err != nil {
			return err
		}
		return errors.Join(tx.SetPublic(r.num, true), tx.PurgeRoom(r.num))
	})
	r.read(func(rx *storage.Rx) error {
		if _, err := rx.Room(r.id); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("a purged room: %v", err)
		}
		if _, err := rx.Alias("#a:test.example"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("its alias: %v", err)
		}
		if rooms := must[[]matrix.RoomID](t)(rx.RoomsIn(alice, "join")); len(rooms) != 1 {
			t.Errorf("alice is in %v", rooms)
		}
		if list := must[[]storage.Room](t)(rx.PublicRooms(storage.PublicAfter{}, 9)); len(list) != 0 {
			t.Errorf("directory: %v", list)
		}
		return nil
	})
	for left := 1; left != 0; {
		storagetest.Check(t, s)
		within(t, s, func(tx *storage.Tx) (err error) {
			left, err = tx.PurgeSome(150)
			return err
		})
	}
	sweepNow(t, s)
	if got := count(); got != before {
		t.Errorf("after the purge:\n%s\nwant\n%s", got, before)
	}
	within(t, s, func(tx *storage.Tx) error {
		_, err := tx.AddRoom(r.id, r.v) // its ID is free again
		if err := tx.PurgeRoom(99); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("purge of no room: %v", err)
		}
		return err
	})
}

// A room goes a month after the last user of this server has forgotten it, and
// stays where somebody came back.
func TestForgottenRooms(t *testing.T) {
	t.Parallel()
	clock, pass := steppedClock()
	s := storagetest.Open(t, clock)
	gone, back, kept := newRoomTest(t, s, "11"), newRoomTest(t, s, "11"), newRoomTest(t, s, "11")
	forget := func(r *roomTest, user matrix.UserID) {
		r.member(user, user, "leave")
		within(t, s, func(tx *storage.Tx) error { return tx.Forget(r.num, user) })
	}
	rooms := func() (n string) {
		sweepNow(t, s)
		storagetest.Check(t, s)
		return s.Texts(t, `SELECT num FROM rooms ORDER BY num`)
	}
	all := rooms()
	for _, r := range []*roomTest{gone, back, kept} {
		r.member(bob, bob, "join")
		r.member(carol, carol, "join") // of another server
		r.message(alice, "x")
		forget(r, alice)
	}
	pass(40 * 24 * time.Hour)
	if got := rooms(); got != all {
		t.Errorf("bob remembers all of %s, and there are %s", all, got)
	}
	forget(gone, bob)
	forget(back, bob)
	pass(29 * 24 * time.Hour)
	if got := rooms(); got != all {
		t.Errorf("within a month, there are %s of %s", got, all)
	}
	back.member(bob, bob, "invite")
	pass(2 * 24 * time.Hour)
	want := fmt.Sprint(back.num, " ", kept.num)
	if got := strings.Join(strings.Fields(rooms()), " "); got != want {
		t.Errorf("after a month there are %s, want %s", got, want)
	}
	if n := s.Texts(t, `SELECT count(*) FROM events WHERE room = `+fmt.Sprint(gone.num)); n != "0" {
		t.Errorf("%s events are left", n)
	}
	// Who came back and left again has a month more.
	forget(back, bob)
	pass(29 * 24 * time.Hour)
	if got := strings.Join(strings.Fields(rooms()), " "); got != want {
		t.Errorf("there are %s, want %s", got, want)
	}
}

func TestAliasesAndDirectory(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	small, large, hidden := newRoomTest(t, s, "11"), newRoomTest(t, s, "11"), newRoomTest(t, s, "11")
	large.member(bob, bob, "join")
	within(t, s, func(tx *storage.Tx) error {
		if err := tx.AddAlias("#b:test.example", small.num, alice); err != nil {
			return err
		}
		if err := tx.AddAlias("#b:test.example", large.num, bob); !errors.Is(err, storage.ErrConflict) {
			t.Errorf("a name given twice: %v", err)
		}
		return errors.Join(tx.AddAlias("#a:test.example", small.num, bob), tx.SetPublic(small.num, true), tx.SetPublic(large.num, true))
	})
	small.read(func(rx *storage.Rx) error {
		a := must[storage.Alias](t)(rx.Alias("#b:test.example"))
		if a.RoomID != small.id || a.Room != small.num || a.Creator != alice {
			t.Errorf("alias %+v", a)
		}
		list := must[[]storage.Alias](t)(rx.AliasesOf(small.num))
		if len(list) != 2 || list[0].Alias != "#a:test.example" || list[0].Creator != bob {
			t.Errorf("aliases %+v", list)
		}
		page := must[[]storage.Room](t)(rx.PublicRooms(storage.PublicAfter{}, 1))
		if len(page) != 1 || page[0].ID != large.id || page[0].Joined != 2 || !page[0].Public {
			t.Errorf("first page %+v", page)
		}
		page = must[[]storage.Room](t)(rx.PublicRooms(storage.PublicAfter{Joined: page[0].Joined, Room: page[0].Num}, 9))
		if len(page) != 1 || page[0].ID != small.id {
			t.Errorf("second page %+v, must not have %s", page, hidden.id)
		}
		return nil
	})
	within(t, s, func(tx *storage.Tx) error {
		if err := tx.DeleteAlias("#b:test.example"); err != nil {
			return err
		}
		if err := tx.DeleteAlias("#b:test.example"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("deleted twice: %v", err)
		}
		return nil
	})
}
