package storage

import (
	"fmt"

	"hearth/storage/matrix"
)

var addRedaction = stmt(`INSERT INTO redactions (room, target, event) VALUES (?, ?, ?)`)

// noteRedaction remembers what a redaction names, whether or not that is here.
func (tx *Tx) noteRedaction(e *Event) error {
	if _, err := tx.exec(addRedaction, int64(e.Room), string(e.Redacts()), int64(e.Num)); err != nil {
		return fmt.Errorf("note redaction: %w", err)
	}
	return nil
}

var redactionsOf = stmt(`SELECT ` + eventColumns + ` FROM redactions r CROSS JOIN events e ON e.num = r.event` + eventSender +
	`WHERE r.room = ? AND r.target = ? ORDER BY r.event`)

// RedactionsOf lists the accepted redactions that name an event of the room,
// in the order in which they came. Whether they apply is not said: it depends
// on the event, which may not be here yet.
func (rx *Rx) RedactionsOf(room RoomNum, target matrix.EventID) ([]Event, error) {
	return rx.listEvents("redactions", redactionsOf, int64(room), string(target))
}

var redactEvent = stmt(`UPDATE events SET redacted_by = ?, redacted_clock = ? WHERE num = ? AND redacted_by = 0`)

// Redact makes an event read as its redacted form from now on. What was stored
// is overwritten seven days later. An event that was redacted before stays as it is.
func (tx *Tx) Redact(target, by EventNum) error {
	if _, err := tx.exec(redactEvent, int64(by), tx.Clock(), int64(target)); err != nil {
		return fmt.Errorf("redact: %w", err)
	}
	return nil
}
