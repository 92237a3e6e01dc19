package storage

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage/matrix"
)

// addUser makes an account, for tests.
func addUser(t *testing.T, s *Store, localpart string) (num int64) {
	t.Helper()
	writeTest(t, s, func(tx *Tx) (err error) {
		num, err = tx.AddUser(User{Localpart: localpart})
		return err
	})
	return num
}

func writeTest(t *testing.T, s *Store, fn func(*Tx) error) {
	t.Helper()
	if err := s.Write(t.Context(), "test", fn); err != nil {
		t.Fatal(err)
	}
}

func readTest(t *testing.T, s *Store, fn func(*Rx) error) {
	t.Helper()
	if err := s.Read(t.Context(), "test", fn); err != nil {
		t.Fatal(err)
	}
}

// lines prints entries for comparison, without positions.
func lines(list []AccountData) string {
	var b strings.Builder
	for _, d := range list {
		fmt.Fprintf(&b, "%s|%s|%s\n", d.Room, d.Type, d.Content)
	}
	return b.String()
}

func TestAccountData(t *testing.T) {
	t.Parallel()
	s := openPlain(t)
	alice, bob := addUser(t, s, "alice"), addUser(t, s, "bob")
	set := func(user int64, room matrix.RoomID, typ, content string) (pos int64) {
		t.Helper()
		writeTest(t, s, func(tx *Tx) (err error) {
			pos, err = tx.SetAccountData(user, AccountData{Room: room, Type: typ, Content: jsontext.Value(content)}, AccountDataLimits{})
			return err
		})
		return pos
	}
	set(alice, "", "a", `{"n":1}`)
	second := set(alice, "!r:x", "a", `{"n":2}`)
	set(bob, "", "a", `{"n":"bob"}`)
	third := set(alice, "", "b", `{}`)
	last := set(alice, "", "a", `{"n":4}`) // over the first

	readTest(t, s, func(rx *Rx) error {
		for _, c := range []struct {
			what string
			list func() ([]AccountData, error)
			want string
		}{
			{"all", func() ([]AccountData, error) { return rx.AccountDataAfter(alice, 0, last) }, "!r:x|a|{\"n\":2}\n|b|{}\n|a|{\"n\":4}\n"},
			{"since", func() ([]AccountData, error) { return rx.AccountDataAfter(alice, second, last) }, "|b|{}\n|a|{\"n\":4}\n"},
			{"window", func() ([]AccountData, error) { return rx.AccountDataAfter(alice, second, third) }, "|b|{}\n"},
			{"nothing new", func() ([]AccountData, error) { return rx.AccountDataAfter(alice, last, last+9) }, ""},
			{"of the account", func() ([]AccountData, error) { return rx.AccountDataOf(alice, "") }, "|a|{\"n\":4}\n|b|{}\n"},
			{"of the room", func() ([]AccountData, error) { return rx.AccountDataOf(alice, "!r:x") }, "!r:x|a|{\"n\":2}\n"},
		} {
			list, err := c.list()
			if got := lines(list); got != c.want || err != nil {
				t.Errorf("%s: got %q, %v; want %q", c.what, got, err, c.want)
			}
		}
		d, err := rx.AccountData(alice, "", "a")
		if string(d.Content) != `{"n":4}` || d.Pos != last || err != nil {
			t.Errorf("one entry: %+v, %v", d, err)
		}
		if _, err := rx.AccountData(bob, "!r:x", "a"); !errors.Is(err, ErrNotFound) {
			t.Errorf("what was never set: %v", err)
		}
		return nil
	})
	checkTotals(t, s)

	// A closed account keeps nothing, and another's stays.
	writeTest(t, s, func(tx *Tx) error { return tx.DeactivateUser(alice, false) })
	readTest(t, s, func(rx *Rx) error {
		gone, err1 := rx.AccountDataAfter(alice, 0, last)
		stays, err2 := rx.AccountDataAfter(bob, 0, last)
		if len(gone) != 0 || len(stays) != 1 || err1 != nil || err2 != nil {
			t.Errorf("after closing: %q, %v; the other's: %q, %v", lines(gone), err1, lines(stays), err2)
		}
		return nil
	})
	checkTotals(t, s)
}

// checkTotals compares what is counted with what is there.
func checkTotals(t *testing.T, s *Store) {
	t.Helper()
	c := openFile(t, s.dsn.path)
	wrong, err := c.number(`SELECT count(*) FROM users u
		LEFT JOIN account_data_totals n ON n.user_num = u.num
		LEFT JOIN (SELECT user_num, count(*) AS entries, sum(octet_length(content) + octet_length(type) + octet_length(room)) AS bytes
			FROM account_data GROUP BY user_num) d ON d.user_num = u.num
		WHERE ifnull(n.entries, 0) <> ifnull(d.entries, 0) OR ifnull(n.bytes, 0) <> ifnull(d.bytes, 0)`)
	if wrong != 0 || err != nil {
		t.Errorf("totals of %d users are wrong, %v", wrong, err)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
}

func TestAccountDataIsBounded(t *testing.T) {
	t.Parallel()
	s := openPlain(t)
	alice, bob := addUser(t, s, "alice"), addUser(t, s, "bob")
	limits := AccountDataLimits{Entries: 3, Bytes: 100}
	set := func(user int64, typ string, size int) error {
		return s.Write(t.Context(), "test", func(tx *Tx) error {
			content := `{"k":"` + strings.Repeat("ü", (size-8-len(typ))/2) + `"}` // bytes count, not characters
			_, err := tx.SetAccountData(user, AccountData{Type: typ, Content: jsontext.Value(content)}, limits)
			return err
		})
	}
	for i, step := range []struct {
		user int64
		typ  string
		size int
		full bool
	}{
		{alice, "aa", 40, false},
		{alice, "bb", 60, false}, // exactly as much as may be
		{alice, "cc", 10, true},  // too many bytes
		{bob, "cc", 100, false},  // which is nothing to another
		{alice, "bb", 62, true},  // neither may it grow
		{alice, "bb", 60, false}, // but be set again
		{alice, "bb", 20, false}, // and shrink
		{alice, "cc", 10, false}, //
		{alice, "dd", 10, true},  // too many entries
		{alice, "aa", 50, false}, // of which an old one may still grow
	} {
		if err := set(step.user, step.typ, step.size); errors.Is(err, ErrFull) != step.full || err != nil && !step.full {
			t.Errorf("step %d: %v, want full: %v", i, err, step.full)
		}
	}
	checkTotals(t, s)
	limits.Bytes, limits.Entries = 10, 1 // the operator lowered them
	for _, size := range []int{50, 48} {
		if err := set(alice, "aa", size); err != nil {
			t.Errorf("%d bytes in place of 50, above the limit: %v", size, err)
		}
	}
}

func TestInvitesBlocked(t *testing.T) {
	t.Parallel()
	s := openPlain(t)
	alice := addUser(t, s, "alice")
	blocked := func(user matrix.UserID) bool {
		t.Helper()
		var err error
		readTest(t, s, func(rx *Rx) error {
			err = rx.MayInvite(user)
			return nil
		})
		var told *matrix.Error
		if err != nil && (!errors.As(err, &told) || told.Code != matrix.InviteBlocked || told.Status != 403) {
			t.Fatal(err)
		}
		return err != nil
	}
	for _, c := range []struct {
		content string
		want    bool
	}{
		{`{"default_action":"block"}`, true},
		{`{}`, false},
		{`{"default_action":"block","more":[1]}`, true},
		{`{"default_action":"allow"}`, false},
		{`{"default_action":["block"]}`, false},
		{`{"default_action":null}`, false},
		{`{"default_action":{"block":true}}`, false},
		{`{"default_action":"Block"}`, false},
	} {
		writeTest(t, s, func(tx *Tx) error {
			_, err := tx.SetAccountData(alice, AccountData{Type: invitePermission, Content: jsontext.Value(c.content)}, AccountDataLimits{})
			return err
		})
		if got := blocked("@alice:test.example"); got != c.want {
			t.Errorf("%s: blocked %v", c.content, got)
		}
	}
	writeTest(t, s, func(tx *Tx) error { // in a room it means nothing
		_, err := tx.SetAccountData(alice, AccountData{Room: "!r:x", Type: invitePermission, Content: jsontext.Value(`{"default_action":"block"}`)}, AccountDataLimits{})
		return err
	})
	for _, user := range []matrix.UserID{"@alice:test.example", "@nobody:test.example", "@alice:elsewhere.example"} {
		if blocked(user) {
			t.Errorf("%s may not be invited", user)
		}
	}
}

func TestLockedAndSuspended(t *testing.T) {
	t.Parallel()
	s := openPlain(t)
	alice := addUser(t, s, "alice")
	var device int64
	writeTest(t, s, func(tx *Tx) (err error) {
		if device, err = tx.AddDevice(alice, "D", ""); err != nil {
			return err
		}
		return tx.StartSession(device, NewTokens{Access: "t"})
	})
	sub := s.Subscribe(Interest{User: alice})
	defer sub.Close()
	for _, locked := range []bool{true, false} {
		writeTest(t, s, func(tx *Tx) error {
			return errors.Join(tx.LockUser(alice, locked), tx.SuspendUser(alice, !locked))
		})
		<-sub.C() // a long poll must look again
		readTest(t, s, func(rx *Rx) error {
			u, err1 := rx.UserByNum(alice)
			p, err2 := rx.SessionByAccess("t")
			if u.Locked != locked || u.Suspended == locked || p.Locked != locked || p.Suspended == locked || err1 != nil || err2 != nil {
				t.Errorf("locked %v: user %+v, session %+v; %v, %v", locked, u, p, err1, err2)
			}
			if err := rx.DeviceAlive(device); errors.Is(err, ErrUserLocked) != locked || err != nil && !locked {
				t.Errorf("locked %v: device alive: %v", locked, err)
			}
			return nil
		})
	}
	writeTest(t, s, func(tx *Tx) error { return tx.DeactivateUser(alice, false) })
	for name, fn := range map[string]func(*Tx) error{
		"lock":    func(tx *Tx) error { return tx.LockUser(alice, true) },
		"suspend": func(tx *Tx) error { return tx.SuspendUser(alice, true) },
	} {
		if err := s.Write(t.Context(), "test", fn); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s a closed account: %v", name, err)
		}
	}
}
