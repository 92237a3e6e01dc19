package storage

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"hearth/storage/matrix"
)

var eventIDs = stmt(`SELECT j.key, e.event_id FROM json_each(?) j CROSS JOIN events e ON e.num = j.value`)

// EventIDs returns the IDs of events by their numbers, in the order of nums.
// All must exist.
func (rx *Rx) EventIDs(nums []EventNum) ([]matrix.EventID, error) {
	if len(nums) == 0 {
		return nil, nil
	}
	rows, err := rx.query(eventIDs, numbers(nums))
	if err != nil {
		return nil, fmt.Errorf("event IDs: %w", err)
	}
	defer rows.Close()
	list := make([]matrix.EventID, len(nums))
	found := 0
	for rows.Next() {
		var at int64
		var id string
		if err := rows.Scan(&at, &id); err != nil {
			return nil, fmt.Errorf("event IDs: %w", err)
		}
		list[at] = matrix.EventID(id)
		found++
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("event IDs: %w", err)
	}
	if found != len(nums) {
		return nil, fmt.Errorf("event IDs: %d of %d are missing: %w", len(nums)-found, len(nums), ErrNotFound)
	}
	return list, nil
}

var generationsIn = stmt(`SELECT j.key, e.generation FROM json_each(?) j CROSS JOIN events e ON e.event_id = j.value
	WHERE e.room = ?`)

// GenerationsIn returns the generation of each event of a room, 0 where it is
// missing or of another room.
func (rx *Rx) GenerationsIn(room RoomNum, ids []matrix.EventID) ([]int64, error) {
	text, err := json.Marshal(ids)
	if err != nil {
		return nil, fmt.Errorf("generations: %w", err)
	}
	rows, err := rx.query(generationsIn, string(text), int64(room))
	if err != nil {
		return nil, fmt.Errorf("generations: %w", err)
	}
	defer rows.Close()
	list := make([]int64, len(ids))
	for rows.Next() {
		var at, generation int64
		if err := rows.Scan(&at, &generation); err != nil {
			return nil, fmt.Errorf("generations: %w", err)
		}
		list[at] = generation
	}
	return list, rows.Err()
}

var awaited = stmt(`SELECT m.child FROM missing_parents m JOIN events c ON c.num = m.child
	WHERE m.room = ? AND m.event_id = ? AND c.pos <> 0 LIMIT 1`)

// Awaited tells whether a told event names this one, which is not in the
// graph, as its parent: once it comes it is no forward extremity.
func (rx *Rx) Awaited(room RoomNum, id matrix.EventID) (bool, error) {
	var child int64
	err := rx.row(awaited, []any{int64(room), string(id)}, &child)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("awaited: %w", err)
	}
	return true, nil
}
