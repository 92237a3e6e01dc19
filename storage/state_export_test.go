package storage

// What tests of states refer to snapshots with, without events of any content.
var (
	testAddEvent = stmt(`INSERT INTO events (room, event_id, pos, depth, generation, ts, state_before, json)
		VALUES (?1, 'test ' || ?2, 0, 0, 0, 0, ?3, x'00')`)
	testDropEvent   = stmt(`DELETE FROM events WHERE event_id = 'test ' || ?`)
	testMoveEvent   = stmt(`UPDATE events SET state_before = ?2 WHERE event_id = 'test ' || ?1`)
	testEventState  = stmt(`SELECT state_before FROM events WHERE event_id = 'test ' || ?`)
	testDropHistory = stmt(`DELETE FROM room_states WHERE room = ?1 AND pos < (SELECT max(pos) FROM room_states WHERE room = ?1)`)
	testStateSizes  = stmt(`SELECT count(*), coalesce(sum(length(delta)), 0), coalesce(max(length(delta)), 0), coalesce(max(depth), 0) FROM state_snapshots`)
	testStateKeys   = stmt(`SELECT count(*) FROM state_keys`)
	testTableBytes  = stmt(`SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name = ?`)
	testFilePages   = stmt(`SELECT page_count FROM pragma_page_count`)
)

// Refer has an event refer to a snapshot.
func (t *Tx) Refer(room RoomNum, event int, s StateNum) error {
	_, err := t.exec(testAddEvent, int64(room), event, int64(s))
	return err
}

// Referred is what such an event refers to.
func (r *Rx) Referred(event int, s *StateNum) error {
	return r.row(testEventState, []any{event}, (*int64)(s))
}

// ReferElsewhere has the event refer to another one.
func (t *Tx) ReferElsewhere(event int, s StateNum) error {
	_, err := t.exec(testMoveEvent, event, int64(s))
	return err
}

// Unrefer deletes such an event.
func (t *Tx) Unrefer(event int) error {
	_, err := t.exec(testDropEvent, event)
	return err
}

// DropHistory forgets which states a room had before the last one.
func (t *Tx) DropHistory(room RoomNum) error {
	_, err := t.exec(testDropHistory, int64(room))
	return err
}

// StateSizes counts snapshots, the bytes of their deltas and of the largest,
// and the greatest depth.
func (r *Rx) StateSizes() (snapshots, bytes, largest, depth int64, err error) {
	err = r.row(testStateSizes, nil, &snapshots, &bytes, &largest, &depth)
	return snapshots, bytes, largest, depth, err
}

// StateHops is how many snapshots are read to look up a key that is not there.
func (r *Rx) StateHops(s StateNum) (n int, err error) {
	c := r.chain(s)
	for {
		h, err := c.hop(n)
		if err != nil || h.num == 0 {
			return n, err
		}
		n++
	}
}

// CountStateKeys counts interned keys.
func (r *Rx) CountStateKeys() (n int64, err error) { return n, r.row(testStateKeys, nil, &n) }

// TableBytes is what a table or index takes in the file.
func (r *Rx) TableBytes(name string) (n int64, err error) {
	return n, r.row(testTableBytes, []any{name}, &n)
}

// FilePages is the size of the file in pages.
func (r *Rx) FilePages() (n int64, err error) { return n, r.row(testFilePages, nil, &n) }
