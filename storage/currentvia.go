package storage

import (
	"fmt"

	"hearth/storage/matrix"
)

var currentHeader = stmt(`SELECT e.num, e.room, e.event_id, e.pos, e.depth, e.generation, e.standing, e.soft_failed, e.outlier,
	e.state_before, e.replaces, e.redacted_by, 0, 0, '', x'' FROM current_state c CROSS JOIN events e ON e.num = c.event
	WHERE c.room = ? AND c.type = ? AND c.state_key = ?`)

// CurrentStateVia is [Rx.CurrentState] for a caller that keeps parsed events:
// known is asked for the one with this ID, in its redacted form or not; only
// where it returns nil the event is read. The sender's device is not told.
func (rx *Rx) CurrentStateVia(room RoomNum, typ, stateKey string, known func(id matrix.EventID, redacted bool) *matrix.Event) (Event, error) {
	row, err := rx.currentHeader(room, typ, stateKey)
	if err != nil {
		return Event{}, fmt.Errorf("current state: %w", err)
	}
	ev := known(matrix.EventID(row.id), row.RedactedBy != 0)
	if ev == nil {
		return rx.EventByNum(row.Num)
	}
	out := row.Event
	out.Event = ev
	out.Standing, out.SoftFailed, out.Outlier = uint8(row.standing), row.softFailed != 0, row.outlier != 0
	return out, nil
}

func (rx *Rx) currentHeader(room RoomNum, typ, stateKey string) (*eventRow, error) {
	rows, err := rx.query(currentHeader, int64(room), typ, stateKey)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return nil, err
		}
		return nil, ErrNotFound
	}
	var row eventRow
	if err := rows.Scan(row.fields()...); err != nil {
		return nil, err
	}
	return &row, nil
}
