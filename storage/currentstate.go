package storage

import (
	"fmt"

	"hearth/storage/matrix"
)

const currentEvents = `SELECT ` + eventColumns + ` FROM current_state c CROSS JOIN events e ON e.num = c.event` + eventSender

var (
	currentEvent  = stmt(currentEvents + `WHERE c.room = ? AND c.type = ? AND c.state_key = ?`)
	currentOfType = stmt(currentEvents + `WHERE c.room = ? AND c.type = ? ORDER BY c.state_key`)
	currentAll    = stmt(currentEvents + `WHERE c.room = ? ORDER BY c.type, c.state_key`)
	currentNum    = stmt(`SELECT event FROM current_state WHERE room = ? AND type = ? AND state_key = ?`)
	currentNums   = stmt(`SELECT type, state_key, event FROM current_state WHERE room = ? ORDER BY type, state_key`)
)

// CurrentState finds an entry of the room's current state.
func (rx *Rx) CurrentState(room RoomNum, typ, stateKey string) (Event, error) {
	return rx.oneEvent("current state", currentEvent, int64(room), typ, stateKey)
}

// CurrentStateNum is [Rx.CurrentState] without reading the event.
func (rx *Rx) CurrentStateNum(room RoomNum, typ, stateKey string) (n EventNum, err error) {
	if err := rx.row(currentNum, []any{int64(room), typ, stateKey}, (*int64)(&n)); err != nil {
		return 0, fmt.Errorf("current state: %w", err)
	}
	return n, nil
}

// CurrentStateOf lists the current state of a room, of some types in the order
// of types and then by state key; without types all of it, by type.
func (rx *Rx) CurrentStateOf(room RoomNum, types ...string) ([]Event, error) {
	if len(types) == 0 {
		return rx.listEvents("current state", currentAll, int64(room))
	}
	var all []Event
	for _, typ := range types {
		list, err := rx.listEvents("current state", currentOfType, int64(room), typ)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// CurrentStateKeys lists the current state of a room by key, without the events.
func (rx *Rx) CurrentStateKeys(room RoomNum) ([]StateKeyed, error) {
	rows, err := rx.query(currentNums, int64(room))
	if err != nil {
		return nil, fmt.Errorf("current state: %w", err)
	}
	defer rows.Close()
	var list []StateKeyed
	for rows.Next() {
		var s StateKeyed
		if err := rows.Scan(&s.Type, &s.StateKey, (*int64)(&s.Event)); err != nil {
			return nil, fmt.Errorf("current state: %w", err)
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

var stateAtPos = stmt(`SELECT state FROM room_states WHERE room = ? AND pos <= ? ORDER BY pos DESC LIMIT 1`)

// CurrentStateAt is the snapshot that was a room's current state at a
// position; [ErrNotFound] where it had none yet.
func (rx *Rx) CurrentStateAt(room RoomNum, pos int64) (s StateNum, err error) {
	if err := rx.row(stateAtPos, []any{int64(room), pos}, (*int64)(&s)); err != nil {
		return 0, fmt.Errorf("current state at %d: %w", pos, err)
	}
	return s, nil
}

// StateChange is how the current state moved under one key.
type StateChange struct {
	Type, StateKey string
	Event          EventNum // 0: the entry vanished
	Was            EventNum // 0: it is new
	Pos            int64    // of the last change
}

var stateChanges = stmt(`SELECT type, state_key, event, was, pos FROM state_changes
	WHERE room = ? AND pos > ? AND pos <= ? ORDER BY pos, type, state_key`)

// StateChanges lists how a room's current state moved in (after, upto]: for
// each key that moved what it became last, with what it was at after. An entry
// that came back to what it was is among them. They are in the order of their
// first changes.
func (rx *Rx) StateChanges(room RoomNum, after, upto int64) ([]StateChange, error) {
	rows, err := rx.query(stateChanges, int64(room), after, upto)
	if err != nil {
		return nil, fmt.Errorf("state changes: %w", err)
	}
	defer rows.Close()
	var list []StateChange
	var seen map[StateKey]int
	for rows.Next() {
		var c StateChange
		if err := rows.Scan(&c.Type, &c.StateKey, (*int64)(&c.Event), (*int64)(&c.Was), &c.Pos); err != nil {
			return nil, fmt.Errorf("state changes: %w", err)
		}
		key := StateKey{c.Type, c.StateKey}
		if at, again := seen[key]; again {
			list[at].Event, list[at].Pos = c.Event, c.Pos
			continue
		}
		if seen == nil {
			seen = map[StateKey]int{}
		}
		seen[key] = len(list)
		list = append(list, c)
	}
	return list, rows.Err()
}

// localTo tells whether the user is of the transaction's server.
func (rx *Rx) localTo(user matrix.UserID) bool { return user.Server() == rx.ServerName() }
