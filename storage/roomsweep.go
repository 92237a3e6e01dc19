package storage

import (
	"fmt"
	"time"

	"hearth/storage/matrix"
)

const (
	// redactedFor is how long the content of a redacted event is kept, in case
	// somebody must look at what was removed.
	redactedFor = 7 * 24 * time.Hour
	// sendersFor is how long the transaction of an event is known: as long as
	// the transaction's record.
	sendersFor = 14 * 24 * time.Hour
	// forgottenFor is how long a room is kept that all users here have forgotten:
	// until then their devices learn that they left it, and they may come back.
	forgottenFor = 30 * 24 * time.Hour
)

// roomSweeps registers the housekeeping of rooms.
func (s *Store) roomSweeps() {
	s.Sweep("overwrite redacted events", time.Hour, func(tx *Tx, limit int) (int, error) {
		return tx.overwriteRedacted(tx.Clock()-redactedFor.Milliseconds(), limit)
	})
	s.Sweep("forget senders of events", time.Hour, func(tx *Tx, limit int) (int, error) {
		n, err := tx.expire(oldestEventSenders, expireEventSenders, tx.Clock()-sendersFor.Milliseconds(), limit)
		return int(n), err
	})
	s.Sweep("purge forgotten rooms", time.Hour, func(tx *Tx, limit int) (int, error) {
		return tx.purgeForgotten(tx.Clock()-forgottenFor.Milliseconds(), limit)
	})
	s.Sweep("purge rooms", time.Minute, (*Tx).sweepPurgedRooms)
}

var (
	oldestEventSenders = stmt(`SELECT event, at_clock FROM event_senders ORDER BY event LIMIT ?`)
	expireEventSenders = stmt(`DELETE FROM event_senders WHERE event <= ?`)
	redactedBefore     = stmt(`SELECT e.num, r.version, e.json FROM events e CROSS JOIN rooms r ON r.num = e.room
		WHERE e.redacted_clock IS NOT NULL AND e.redacted_clock < ? ORDER BY e.redacted_clock LIMIT ?`)
	overwriteEvent = stmt(`UPDATE events SET json = ?, redacted_clock = NULL WHERE num = ?`)
)

// overwriteRedacted replaces the JSON of events that were redacted before a
// time of the age clock by its redacted form, and returns how many it found.
func (tx *Tx) overwriteRedacted(before int64, limit int) (int, error) {
	type event struct {
		num  int64
		json []byte
	}
	rows, err := tx.query(redactedBefore, before, limit)
	if err != nil {
		return 0, fmt.Errorf("redacted events: %w", err)
	}
	defer rows.Close()
	var list []event
	for rows.Next() {
		var e event
		var version string
		if err := rows.Scan(&e.num, &version, &e.json); err != nil {
			return 0, fmt.Errorf("redacted events: %w", err)
		}
		v, err := storedVersion(version)
		if err == nil {
			e.json, err = matrix.Redact(v, e.json)
		}
		if err != nil {
			return 0, fmt.Errorf("redacted event %d: %w", e.num, err)
		}
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		return 0, fmt.Errorf("redacted events: %w", err)
	}
	for _, e := range list {
		if _, err := tx.exec(overwriteEvent, e.json, e.num); err != nil {
			return 0, fmt.Errorf("overwrite redacted event: %w", err)
		}
	}
	return len(list), nil
}

var (
	isRemembered = stmt(`SELECT EXISTS (SELECT 1 FROM memberships WHERE room = ? AND local = 1 AND forgotten = 0)`)
	setForgotten = stmt(`UPDATE rooms SET forgotten_clock = ?2 WHERE num = ?1`)
	forgottenOld = stmt(`SELECT num FROM rooms WHERE forgotten_clock IS NOT NULL AND forgotten_clock < ? AND purging = 0
		ORDER BY forgotten_clock LIMIT ?`)
)

// noteForgotten notes when the last user of this server has forgotten a room.
func (tx *Tx) noteForgotten(room RoomNum) error {
	var somebody bool
	err := tx.row(isRemembered, []any{int64(room)}, &somebody)
	if err == nil && !somebody {
		_, err = tx.exec(setForgotten, int64(room), tx.Clock())
	}
	return err
}

// purgeForgotten lets go of rooms that nobody here has remembered since a time
// of the age clock, unless somebody does again, and returns how many it found.
func (tx *Tx) purgeForgotten(before int64, limit int) (int, error) {
	rooms, err := tx.eventNums(forgottenOld, before, limit)
	if err != nil {
		return 0, fmt.Errorf("forgotten rooms: %w", err)
	}
	for _, num := range rooms {
		var somebody bool
		err := tx.row(isRemembered, []any{int64(num)}, &somebody)
		switch {
		case err != nil:
		case somebody:
			_, err = tx.exec(setForgotten, int64(num), nil)
		default:
			err = tx.PurgeRoom(RoomNum(num))
		}
		if err != nil {
			return 0, fmt.Errorf("forgotten room %d: %w", num, err)
		}
	}
	return len(rooms), nil
}
