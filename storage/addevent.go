package storage

import (
	"errors"
	"fmt"

	"hearth/storage/matrix"
)

// Place is where an event stands in its room's stream.
type Place int

// Places of events.
const (
	Untold     Place = iota // clients never hear of it: outliers, rejected and soft-failed events
	Live                    // told to clients as it comes
	Backfilled              // older than what clients were told; they find it when they page back
)

// NewEvent is an event to be stored. What its fields mean: see [Event].
type NewEvent struct {
	Event       *matrix.Event
	Place       Place
	Depth       int64
	Generation  int64
	Standing    uint8
	SoftFailed  bool
	Outlier     bool // Depth and StateBefore do not count, and Place is Untold
	StateBefore StateNum
	Device      int64
	TxnID       string
}

func (e *NewEvent) check() error {
	if e.Place != Untold && (e.Outlier || e.SoftFailed || e.Standing != 0) {
		return errors.New("an outlier, a rejected or a soft-failed event is never told")
	}
	if !e.Outlier && e.Depth <= 0 {
		return errors.New("an event of the graph needs a depth")
	}
	return nil
}

// newTop is the top of an event of room ?1 at position ?3 and depth ?4.
const newTop = `iif(?3 > 0, max(?4, ifnull((SELECT top FROM events WHERE room = ?1 AND pos <> 0 ORDER BY pos DESC LIMIT 1), 0)), 0)`

var insertEvent = stmt(`INSERT INTO events (room, event_id, pos, depth, generation, ts, standing, soft_failed,
	outlier, state_before, replaces, json, top) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ` + newTop + `)`)

// AddEvent stores an event. Extremities and the current state are the caller's
// to move. An event that is there is [ErrConflict]; an outlier among those
// joins the graph by [Tx.PromoteOutlier].
func (tx *Tx) AddEvent(room Room, e NewEvent) (Event, error) {
	stored, err := tx.prepareEvent(room, &e)
	if err != nil {
		return Event{}, fmt.Errorf("add event %s: %w", e.Event.ID(), err)
	}
	num, err := tx.insert(insertEvent, int64(room.Num), string(e.Event.ID()), stored.Pos, stored.Depth, e.Generation,
		e.Event.OriginServerTS(), int64(e.Standing), e.SoftFailed, e.Outlier, int64(stored.StateBefore), int64(stored.Replaces),
		[]byte(e.Event.JSON()))
	if err == nil {
		stored.Num = EventNum(num)
		err = tx.linkEvent(&stored)
	}
	if err != nil {
		return Event{}, fmt.Errorf("add event %s: %w", e.Event.ID(), err)
	}
	return stored, nil
}

var promoteEvent = stmt(`UPDATE events SET pos = ?3, depth = ?4, generation = ?5, standing = ?6, soft_failed = ?7,
	state_before = ?8, replaces = ?9, outlier = 0, top = ` + newTop + ` WHERE room = ?1 AND num = ?2 AND outlier = 1`)

// PromoteOutlier lets an event that was stored as an outlier join the graph.
// e.Event is not looked at: the stored one stays. An event that is no outlier
// is [ErrNotFound].
func (tx *Tx) PromoteOutlier(room Room, num EventNum, e NewEvent) (Event, error) {
	old, err := tx.EventByNum(num)
	if err != nil {
		return Event{}, fmt.Errorf("promote outlier: %w", err)
	}
	e.Event, e.Outlier = old.Event, false
	stored, err := tx.prepareEvent(room, &e)
	if err == nil {
		stored.Num, stored.RedactedBy = num, old.RedactedBy
		err = tx.mustChange("promote", promoteEvent, int64(room.Num), int64(num), stored.Pos, stored.Depth, e.Generation,
			int64(e.Standing), e.SoftFailed, int64(stored.StateBefore), int64(stored.Replaces))
	}
	if err == nil {
		err = tx.linkEvent(&stored)
	}
	if err != nil {
		return Event{}, fmt.Errorf("promote outlier %s: %w", old.ID(), err)
	}
	return stored, nil
}

// prepareEvent gives the event its position and finds what it replaces.
func (tx *Tx) prepareEvent(room Room, e *NewEvent) (Event, error) {
	if err := e.check(); err != nil {
		return Event{}, err
	}
	stored := Event{
		Event: e.Event, Room: room.Num, Generation: e.Generation, Standing: e.Standing, SoftFailed: e.SoftFailed,
		Outlier: e.Outlier, Device: e.Device, TxnID: e.TxnID,
	}
	if e.Outlier {
		return stored, nil
	}
	stored.Depth, stored.StateBefore = e.Depth, e.StateBefore
	var err error
	if stored.Pos, err = tx.placeEvent(room.Num, e.Place); err != nil {
		return Event{}, err
	}
	key, isState := e.Event.StateKey()
	if !isState || e.StateBefore == 0 {
		return stored, nil
	}
	stored.Replaces, err = tx.StateEvent(e.StateBefore, e.Event.Type(), key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Event{}, fmt.Errorf("what it replaces: %w", err)
	}
	return stored, nil
}

// placeEvent takes the position of a new event. Those of backfilled events come
// from the counter too, below zero: they are in tokens for paging, and a
// restored backup must not give them out a second time.
func (tx *Tx) placeEvent(room RoomNum, p Place) (pos int64, err error) {
	switch p {
	case Live:
		pos = tx.NextPos()
		return pos, tx.touch(room, pos)
	case Backfilled:
		return -tx.NextPos(), nil
	}
	return 0, nil
}

var addSender = stmt(`INSERT INTO event_senders (event, device, txn_id, at_clock) VALUES (?, ?, ?, ?)`)

// linkEvent stores what stands beside the event's own row.
func (tx *Tx) linkEvent(e *Event) error {
	if e.TxnID != "" {
		if _, err := tx.exec(addSender, int64(e.Num), e.Device, e.TxnID, tx.Clock()); err != nil {
			return fmt.Errorf("sender: %w", err)
		}
	}
	if e.Outlier {
		return nil
	}
	if err := tx.linkParents(e); err != nil {
		return fmt.Errorf("parents: %w", err)
	}
	if err := tx.linkChildren(e); err != nil {
		return fmt.Errorf("children: %w", err)
	}
	if e.Type() == matrix.TypeRedaction && e.Redacts() != "" && e.Standing == 0 && !e.SoftFailed {
		return tx.noteRedaction(e)
	}
	return nil
}
