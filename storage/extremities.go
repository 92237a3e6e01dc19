package storage

import "fmt"

var (
	extremitiesOf = stmt(`SELECT ` + eventColumns + ` FROM extremities x CROSS JOIN events e ON e.num = x.event` + eventSender +
		`WHERE x.room = ? ORDER BY x.event`)
	clearExtremities = stmt(`DELETE FROM extremities WHERE room = ?`)
	addExtremity     = stmt(`INSERT INTO extremities (room, event) VALUES (?, ?)`)
)

// Extremities lists a room's forward extremities, in the order in which they
// were stored: the accepted events that no told event comes after.
func (rx *Rx) Extremities(room RoomNum) ([]Event, error) {
	return rx.listEvents("extremities", extremitiesOf, int64(room))
}

// SetExtremities replaces a room's forward extremities.
func (tx *Tx) SetExtremities(room RoomNum, nums []EventNum) error {
	if _, err := tx.exec(clearExtremities, int64(room)); err != nil {
		return fmt.Errorf("set extremities: %w", err)
	}
	for _, n := range nums {
		if _, err := tx.exec(addExtremity, int64(room), int64(n)); err != nil {
			return fmt.Errorf("set extremities: %w", err)
		}
	}
	return nil
}
