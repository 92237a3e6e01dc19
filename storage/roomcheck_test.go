package storage_test

import (
	"path/filepath"
	"strings"
	"testing"

	"hearth/storage"
	"hearth/storage/storagetest"
)

// TestCheckFindsBrokenRooms breaks each rule once. Every other test ends with
// the same check finding nothing.
func TestCheckFindsBrokenRooms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := storagetest.OpenDir(t, dir)
	r := newRoomTest(t, s, "11")
	r.member(alice, bob, "invite")
	r.member(carol, carol, "join")
	r.state("m.room.topic", "", `{"topic":"x"}`)
	r.message(alice, "x")
	if found := s.Check(t.Context()); len(found) != 0 {
		t.Fatalf("before anything is broken: %v", found)
	}
	for _, c := range []struct{ sql, undo, want string }{
		{`UPDATE memberships SET membership = 'ban' WHERE user_id LIKE '@bob%'`,
			`UPDATE memberships SET membership = 'invite' WHERE user_id LIKE '@bob%'`, "same event and kind"},
		{`UPDATE memberships SET sender = '@x:y' WHERE user_id LIKE '@bob%'`,
			`UPDATE memberships SET sender = '@alice:test.example' WHERE user_id LIKE '@bob%'`, "same event and kind"},
		{`INSERT INTO memberships (room, user_id, membership, event, pos, since, local) VALUES (1, '@y:z', 'leave', 5, 1, 1, 0)`,
			`DELETE FROM memberships WHERE user_id = '@y:z'`, "has its entry in the current state"},
		{`UPDATE rooms SET invited = 2`, `UPDATE rooms SET invited = 1`, "members are counted"},
		{`UPDATE joined_servers SET members = 2 WHERE server LIKE 'remote%'`,
			`UPDATE joined_servers SET members = 1 WHERE server LIKE 'remote%'`, "joined servers are counted"},
		{`INSERT INTO extremities SELECT 1, min(num) FROM events`, `DELETE FROM extremities WHERE event = (SELECT min(num) FROM events)`,
			"no told event comes after it"},
		{`UPDATE rooms SET latest_pos = latest_pos + 1`, `UPDATE rooms SET latest_pos = latest_pos - 1`, "latest position"},
		{`UPDATE current_state SET event = 1 WHERE type = 'm.room.topic'`,
			`UPDATE current_state SET event = (SELECT event FROM state_changes WHERE type = 'm.room.topic') WHERE type = 'm.room.topic'`,
			"differ in m.room.topic"},
		{`INSERT INTO current_state VALUES (1, 'x', '', 1)`, `DELETE FROM current_state WHERE type = 'x'`, "was a change"},
		{`INSERT INTO room_states VALUES (1, 99, 1)`, `DELETE FROM room_states WHERE pos = 99`, "history of a room's states"},
		{`UPDATE events SET outlier = 1 WHERE num = 3`, `UPDATE events SET outlier = 0 WHERE num = 3`, "an edge connects"},
		{`UPDATE events SET top = 1 WHERE num = 3`, `UPDATE events SET top = depth WHERE num = 3`, "greatest depth so far"},
		{`UPDATE events SET standing = 1 WHERE num = 3`, `UPDATE events SET standing = 0 WHERE num = 3`, "what is told"},
		{`INSERT INTO missing_parents SELECT 1, event_id, 5 FROM events WHERE num = 3`, `DELETE FROM missing_parents`, "a missing parent is missing"},
		{`INSERT INTO aliases VALUES ('#a:b', 7, 'x', 0)`, `DELETE FROM aliases`, "what belongs to a room"},
		{`UPDATE events SET redacted_by = 99 WHERE num = 3`, `UPDATE events SET redacted_by = 0 WHERE num = 3`, "is redacted by"},
		{`INSERT INTO state_changes VALUES (1, 1000000, 'm.room.topic', '', 3, 0)`, `DELETE FROM state_changes WHERE pos = 1000000`,
			"state_changes has position 1000000"},
	} {
		s.Break(t, c.sql)
		found := s.Check(t.Context())
		text := ""
		for _, p := range found {
			text += string(p) + "\n"
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("after %s it finds %q, want %q", c.sql, text, c.want)
		}
		s.Break(t, c.undo)
		if found := s.Check(t.Context()); len(found) != 0 {
			t.Fatalf("after %s: %v", c.undo, found)
		}
	}
}

// TestRestoredRooms continues in a new epoch: whatever the lost history told,
// no position of it comes again.
func TestRestoredRooms(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	r := newRoomTest(t, s, "11")
	r.message(alice, "kept")
	dir := t.TempDir()
	if err := s.Backup(t.Context(), filepath.Join(dir, storage.FileName), nil); err != nil {
		t.Fatal(err)
	}
	backfill := func(r *roomTest) (old storage.Event) {
		within(t, r.s, func(tx *storage.Tx) (err error) {
			e := r.draft("m.room.message", nil, bob, `{"body":"older"}`, nil)
			old, err = r.append(tx, e, nil, must[storage.Room](t)(tx.RoomByNum(r.num)).State, storage.NewEvent{Place: storage.Backfilled})
			return err
		})
		return old
	}
	lost := r.message(alice, "lost")
	lostOld := backfill(r)
	restored := storagetest.OpenDir(t, dir)
	again := *r
	again.s = restored
	now := again.message(alice, "new")
	if now.Pos <= lost.Pos || now.Depth != lost.Depth {
		t.Errorf("after the restore at %d, depth %d; lost was %d, %d", now.Pos, now.Depth, lost.Pos, lost.Depth)
	}
	if old := backfill(&again); old.Pos >= lostOld.Pos {
		t.Errorf("backfilled at %d, where the lost history had %d", old.Pos, lostOld.Pos)
	}
	// A page back from what the lost history told has neither a gap nor an event twice.
	ids := again.pages(storage.Cursor{Before: lost.Pos + 1, Depth: lost.Depth, Pos: lost.Pos}, true, 2)
	if len(ids) != 4 {
		t.Errorf("%d events before the lost one, want 4", len(ids))
	}
}
