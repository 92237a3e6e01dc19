package storage

import (
	"errors"
	"fmt"

	"hearth/storage/matrix"
)

var markPurged = stmt(`UPDATE rooms SET purging = 1, public = 0 WHERE num = ?`)

// PurgeRoom lets go of a room with all it holds. From this unit on nobody
// finds it; the sweeper deletes its rows a few at a time. Until they are gone a
// room of the same ID cannot be made. A room that is not there is [ErrNotFound].
func (tx *Tx) PurgeRoom(room RoomNum) error {
	r, err := tx.RoomByNum(room)
	if err == nil {
		_, err = tx.exec(markPurged, int64(room))
	}
	if err != nil {
		return fmt.Errorf("purge room: %w", err)
	}
	tx.News(News{Rooms: []matrix.RoomID{r.ID}})
	return nil
}

var purgedRoom = stmt(`SELECT num FROM rooms WHERE purging = 1 ORDER BY num LIMIT 1`)

// purgeSteps delete up to ?2 rows each of what room ?1 holds beside its events.
var purgeSteps = []*statement{
	stmt(`DELETE FROM memberships WHERE room = ?1 AND user_id IN (SELECT user_id FROM memberships WHERE room = ?1 LIMIT ?2)`),
	stmt(`DELETE FROM joined_servers WHERE room = ?1 AND server IN (SELECT server FROM joined_servers WHERE room = ?1 LIMIT ?2)`),
	stmt(`DELETE FROM aliases WHERE alias IN (SELECT alias FROM aliases WHERE room = ?1 LIMIT ?2)`),
	stmt(`DELETE FROM extremities WHERE room = ?1 AND event IN (SELECT event FROM extremities WHERE room = ?1 LIMIT ?2)`),
	stmt(`DELETE FROM current_state WHERE room = ?1 AND (type, state_key) IN
		(SELECT type, state_key FROM current_state WHERE room = ?1 LIMIT ?2)`),
	stmt(`DELETE FROM state_changes WHERE room = ?1 AND (pos, type, state_key) IN
		(SELECT pos, type, state_key FROM state_changes WHERE room = ?1 LIMIT ?2)`),
	stmt(`DELETE FROM room_states WHERE room = ?1 AND pos IN (SELECT pos FROM room_states WHERE room = ?1 LIMIT ?2)`),
	stmt(`DELETE FROM redactions WHERE room = ?1 AND (target, event) IN (SELECT target, event FROM redactions WHERE room = ?1 LIMIT ?2)`),
	stmt(`DELETE FROM missing_parents WHERE room = ?1 AND (event_id, child) IN
		(SELECT event_id, child FROM missing_parents WHERE room = ?1 LIMIT ?2)`),
}

var (
	eventsToPurge = stmt(`SELECT num FROM events WHERE room = ?1 AND pos <> 0
		UNION ALL SELECT num FROM events WHERE room = ?1 AND pos = 0 LIMIT ?2`)
	purgeEdges   = stmt(`DELETE FROM event_edges WHERE parent IN (SELECT value FROM json_each(?))`)
	purgeSenders = stmt(`DELETE FROM event_senders WHERE event IN (SELECT value FROM json_each(?))`)
	purgeEvents  = stmt(`DELETE FROM events WHERE num IN (SELECT value FROM json_each(?))`)
	removeRoom   = stmt(`DELETE FROM rooms WHERE num = ?`)
)

// sweepPurgedRooms deletes rows of one purged room, about limit of them, and
// the room's own after the last. It returns limit while there is more to do.
func (tx *Tx) sweepPurgedRooms(limit int) (int, error) {
	var room RoomNum
	err := tx.row(purgedRoom, nil, (*int64)(&room))
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("purged rooms: %w", err)
	}
	n, err := tx.purgeSome(room, limit)
	if err == nil && n < limit {
		_, err = tx.exec(removeRoom, int64(room))
	}
	if err != nil {
		return 0, fmt.Errorf("purge room %d: %w", room, err)
	}
	return limit, nil
}

// purgeSome deletes up to about limit rows of a room; fewer than limit: its own
// is the last.
func (tx *Tx) purgeSome(room RoomNum, limit int) (int, error) {
	total := 0
	for _, step := range purgeSteps {
		n, err := tx.exec(step, int64(room), limit-total)
		if err != nil {
			return 0, err
		}
		if total += int(n); total >= limit {
			return total, nil
		}
	}
	for _, step := range []func(RoomNum, int) (int, error){tx.purgeRoomEvents, tx.PurgeState} {
		n, err := step(room, limit-total)
		if err != nil {
			return 0, err
		}
		if total += n; total >= limit {
			return total, nil
		}
	}
	return total, nil
}

func (tx *Tx) purgeRoomEvents(room RoomNum, limit int) (int, error) {
	nums, err := tx.eventNums(eventsToPurge, int64(room), limit)
	if err != nil || len(nums) == 0 {
		return 0, err
	}
	list := numbers(nums)
	for _, s := range []*statement{purgeEdges, purgeSenders, purgeEvents} {
		if _, err := tx.exec(s, list); err != nil {
			return 0, err
		}
	}
	return len(nums), nil
}

// eventNums runs a query for the numbers of events.
func (rx *Rx) eventNums(s *statement, args ...any) ([]EventNum, error) {
	rows, err := rx.query(s, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []EventNum
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		list = append(list, EventNum(n))
	}
	return list, rows.Err()
}
