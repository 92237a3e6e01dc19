package storage

import (
	"errors"
	"fmt"

	"hearth/storage/matrix"
)

var (
	eventInGraph  = stmt(`SELECT num FROM events WHERE event_id = ? AND room = ? AND outlier = 0`)
	addEdge       = stmt(`INSERT INTO event_edges (parent, child) VALUES (?, ?) ON CONFLICT DO NOTHING`)
	addMissing    = stmt(`INSERT INTO missing_parents (room, event_id, child) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`)
	isMissing     = stmt(`SELECT child FROM missing_parents WHERE room = ? AND event_id = ? LIMIT 1`)
	foundMissing  = stmt(`INSERT INTO event_edges (parent, child) SELECT ?, child FROM missing_parents WHERE room = ? AND event_id = ?`)
	removeMissing = stmt(`DELETE FROM missing_parents WHERE room = ? AND event_id = ?`)
)

// linkParents connects the event with its parents, and notes those that are
// not in the graph.
func (tx *Tx) linkParents(e *Event) error {
	for _, id := range e.PrevEvents() {
		var parent int64
		err := tx.row(eventInGraph, []any{string(id), int64(e.Room)}, &parent)
		switch {
		case err == nil:
			_, err = tx.exec(addEdge, parent, int64(e.Num))
		case errors.Is(err, ErrNotFound):
			_, err = tx.exec(addMissing, int64(e.Room), string(id), int64(e.Num))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// linkChildren connects the event with those that came before their parent.
func (tx *Tx) linkChildren(e *Event) error {
	var child int64
	err := tx.row(isMissing, []any{int64(e.Room), string(e.ID())}, &child)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		_, err = tx.exec(foundMissing, int64(e.Num), int64(e.Room), string(e.ID()))
	}
	if err == nil {
		_, err = tx.exec(removeMissing, int64(e.Room), string(e.ID()))
	}
	return err
}

var (
	toldChild     = stmt(`SELECT c.num FROM event_edges x JOIN events c ON c.num = x.child WHERE x.parent = ? AND c.pos <> 0 LIMIT 1`)
	eventChildren = stmt(`SELECT ` + eventColumns + ` FROM event_edges x CROSS JOIN events e ON e.num = x.child` + eventSender +
		`WHERE x.parent = ? ORDER BY e.num`)
)

// HasToldChild tells whether a told event comes directly after this one: if
// so, it is no forward extremity.
func (rx *Rx) HasToldChild(n EventNum) (bool, error) {
	var child int64
	err := rx.row(toldChild, []any{int64(n)}, &child)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("told child: %w", err)
	}
	return true, nil
}

// Children lists the events of the graph that come directly after one, told or not.
func (rx *Rx) Children(n EventNum) ([]Event, error) {
	return rx.listEvents("children", eventChildren, int64(n))
}

// MissingParent is a backward extremity: an event that is named as a parent
// and is not in the graph. It may be here as an outlier.
type MissingParent struct {
	ID    matrix.EventID
	Child EventNum
	Depth int64 // of the child
}

var missingParents = stmt(`SELECT m.event_id, m.child, c.depth FROM missing_parents m JOIN events c ON c.num = m.child
	WHERE m.room = ? ORDER BY c.depth DESC, m.child LIMIT ?`)

// MissingParents lists the backward extremities of a room, those nearest to
// the present first. A parent that several children name is listed for each.
func (rx *Rx) MissingParents(room RoomNum, limit int) ([]MissingParent, error) {
	rows, err := rx.query(missingParents, int64(room), limit)
	if err != nil {
		return nil, fmt.Errorf("missing parents: %w", err)
	}
	defer rows.Close()
	var list []MissingParent
	for rows.Next() {
		var m MissingParent
		if err := rows.Scan((*string)(&m.ID), (*int64)(&m.Child), &m.Depth); err != nil {
			return nil, fmt.Errorf("missing parents: %w", err)
		}
		list = append(list, m)
	}
	return list, rows.Err()
}
