package room

import (
	"errors"
	"fmt"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// addition is an event that was built or checked, about to be stored.
type addition struct {
	ev         *matrix.Event
	before     storage.StateNum // the state before it
	depth      int64
	generation int64
	standing   rules.Standing
	softFailed bool
	untold     bool // accepted, but of no interest to clients
	device     int64
	txnID      string

	outlier storage.EventNum // it is stored beside the graph as this one; 0: it is not stored

	// leaf tells that the event is a forward extremity from now on; moves, that
	// its parents are none any more, which follows from leaf. others are the
	// extremities that stay, next the state after all of them; nil: it is the
	// state after this event.
	leaf, moves bool
	others      []storage.EventNum
	next        *merged
}

// append stores an event, moves the room's extremities and its current state,
// and tells those who wait.
func (r *Rooms) append(tx *storage.Tx, room storage.Room, a addition) (storage.Event, error) {
	ev, err := a.store(tx, room)
	if err != nil {
		return storage.Event{}, err
	}
	var changes []storage.StateChange
	if a.leaf || a.moves {
		if changes, err = a.advance(tx, room, ev); err != nil {
			return storage.Event{}, err
		}
	}
	if err := redact(tx, ev); err != nil {
		return storage.Event{}, err
	}
	return ev, announce(tx, room, ev, changes)
}

func (a *addition) store(tx *storage.Tx, room storage.Room) (storage.Event, error) {
	place := storage.Live
	if a.untold || a.softFailed || a.standing != rules.Accepted {
		place = storage.Untold
	}
	e := storage.NewEvent{
		Event: a.ev, Place: place, Depth: a.depth, Generation: a.generation, Standing: uint8(a.standing),
		SoftFailed: a.softFailed, StateBefore: a.before, Device: a.device, TxnID: a.txnID,
	}
	if a.outlier != 0 {
		return tx.PromoteOutlier(room, a.outlier, e)
	}
	return tx.AddEvent(room, e)
}

// redact applies an accepted redaction. One that was kept from clients has no
// effect, or its event is not here.
func redact(tx *storage.Tx, ev storage.Event) error {
	if ev.Type() != matrix.TypeRedaction || ev.Redacts() == "" || ev.Pos == 0 {
		return nil
	}
	target, err := tx.Event(ev.Redacts())
	if err != nil {
		return fmt.Errorf("redact %s: %w", ev.Redacts(), err)
	}
	return tx.Redact(target.Num, ev.Num)
}

// stateAfter is the state after an event: the one before it, and itself where
// it is a state event that was not rejected. Room Version 2, "State resolution".
func stateAfter(tx *storage.Tx, ev storage.Event) (storage.StateNum, error) {
	key, isState := ev.StateKey()
	if !isState || ev.Standing != uint8(rules.Accepted) {
		return ev.StateBefore, nil
	}
	s, err := tx.ChildState(ev.Room, ev.StateBefore, []storage.StateKeyed{{Type: ev.Type(), StateKey: key, Event: ev.Num}})
	if err != nil {
		return 0, fmt.Errorf("state after %s: %w", ev.ID(), err)
	}
	return s, nil
}

// advance moves the room's forward extremities and its current state.
func (a *addition) advance(tx *storage.Tx, room storage.Room, ev storage.Event) ([]storage.StateChange, error) {
	leaves := a.others
	if a.leaf {
		leaves = append(leaves, ev.Num)
	}
	if err := tx.SetExtremities(room.Num, leaves); err != nil {
		return nil, err
	}
	next, err := stateAfter(tx, ev)
	if err == nil && a.next != nil {
		next, err = a.next.store(tx, room.Num, ev.Num)
	}
	if err != nil || next == room.State {
		return nil, err
	}
	pos := ev.Pos
	if pos <= 0 {
		pos = tx.NextPos()
	}
	return tx.SetCurrentState(room, next, pos)
}

// announce wakes those who wait for the room, and the users of this server who
// are in it otherwise than before, as they may not wait for it yet.
func announce(tx *storage.Tx, room storage.Room, ev storage.Event, changes []storage.StateChange) error {
	if ev.Pos <= 0 && len(changes) == 0 {
		return nil
	}
	news := storage.News{Rooms: []matrix.RoomID{room.ID}}
	for _, c := range changes {
		if c.Type != matrix.TypeMember {
			continue
		}
		user, err := tx.UserByID(matrix.UserID(c.StateKey))
		switch {
		case err == nil:
			news.Users = append(news.Users, user.Num)
		case !errors.Is(err, storage.ErrNotFound):
			return fmt.Errorf("announce: %w", err)
		}
	}
	tx.News(news)
	return nil
}
