package storage

import (
	"fmt"
	"slices"
)

var (
	addSnapshot  = stmt(`INSERT INTO state_snapshots (room, base, depth, hash, delta) VALUES (?, ?, ?, ?, ?)`)
	looseState   = stmt(`INSERT INTO state_loose (num, at_clock) VALUES (?, ?)`)
	sameSnapshot = stmt(`SELECT num FROM state_snapshots WHERE room = ? AND hash = ? ORDER BY num LIMIT 4`)
)

// ChildState stores the state that changes make of parent, and returns its
// number; parent 0 is the empty state. A change to Event 0 removes its key; of
// several changes to one key the last counts. A room has one snapshot of each
// content, so what is there already, parent itself included, is returned
// instead. What nothing refers to an hour later is collected.
func (t *Tx) ChildState(room RoomNum, parent StateNum, changes []StateKeyed) (StateNum, error) {
	s, err := t.childState(room, parent, changes)
	if err != nil {
		return 0, fmt.Errorf("child state: %w", err)
	}
	return s, nil
}

func (t *Tx) childState(room RoomNum, parent StateNum, changes []StateKeyed) (StateNum, error) {
	entries, err := t.intern(changes)
	if err != nil {
		return 0, err
	}
	c, err := t.wholeChain(parent)
	if err != nil {
		return 0, err
	}
	top, err := c.hop(0)
	if err != nil {
		return 0, err
	}
	if parent != 0 && top.room != room {
		return 0, fmt.Errorf("state %d is of room %d, not %d", parent, top.room, room)
	}
	was, err := c.values(entries, 0)
	if err != nil {
		return 0, err
	}
	hash, effective := top.hash, entries[:0]
	for i, e := range entries {
		if e.event != was[i] {
			hash += hashOf(e) - hashOf(stateEntry{e.key, was[i]})
			effective = append(effective, e)
		}
	}
	if len(effective) == 0 && parent != 0 {
		return parent, nil
	}
	same, err := t.findState(room, hash, func(s StateNum) (bool, error) {
		diff, err := t.diffStates(parent, s)
		return slices.Equal(diff, effective), err
	})
	if err != nil || same != 0 {
		return same, err
	}
	at, err := t.placeNear(room, c, effective)
	if err != nil {
		return 0, err
	}
	return t.addState(room, at, hash)
}

// StoreState stores a whole state, the outcome of a resolution: as the child
// of whichever state in near makes the smallest delta, or by itself where none
// is close. The same content has the same number, as with ChildState. full names
// each key once, and each event under the key it always has.
func (t *Tx) StoreState(room RoomNum, near []StateNum, full []StateKeyed) (StateNum, error) {
	s, err := t.storeState(room, near, full)
	if err != nil {
		return 0, fmt.Errorf("store state: %w", err)
	}
	return s, nil
}

func (t *Tx) storeState(room RoomNum, near []StateNum, full []StateKeyed) (StateNum, error) {
	states, err := t.nearStates(room, near)
	if err != nil {
		return 0, err
	}
	entries, err := t.internNear(states, full)
	if err != nil {
		return 0, err
	}
	hash := hashOfAll(entries)
	same, err := t.findState(room, hash, func(s StateNum) (bool, error) {
		have, err := t.wholeState(s)
		return slices.Equal(have, entries), err
	})
	if err != nil || same != 0 {
		return same, err
	}
	best, err := t.place(t.chain(0), entries)
	if err != nil {
		return 0, err
	}
	for _, n := range states {
		changes, err := diffEntries(n.entries, entries, nothing)
		if err != nil {
			return 0, err
		}
		at, err := t.placeNear(room, n.chain, changes)
		if err != nil {
			return 0, err
		}
		if len(at.delta) < len(best.delta) {
			best = at
		}
	}
	return t.addState(room, best, hash)
}

// nearState is a state beside which another is stored.
type nearState struct {
	chain   *stateChain
	entries []stateEntry
}

// nearStates reads those of near that are states of the room, each once.
func (t *Tx) nearStates(room RoomNum, near []StateNum) (list []nearState, err error) {
	for i, n := range near {
		c, err := t.wholeChain(n)
		if err != nil {
			return nil, err
		}
		top, err := c.hop(0)
		if err != nil {
			return nil, err
		}
		if top.room != room || slices.Contains(near[:i], n) {
			continue
		}
		entries, err := c.state()
		if err != nil {
			return nil, err
		}
		list = append(list, nearState{c, entries})
	}
	return list, nil
}

// internNear is intern for a whole state. An event has one key, so that of most
// events is known from the states nearby, without a look-up.
func (t *Tx) internNear(near []nearState, full []StateKeyed) ([]stateEntry, error) {
	keys := map[EventNum]int64{}
	for _, n := range near {
		for _, e := range n.entries {
			keys[e.event] = e.key
		}
	}
	entries := make([]stateEntry, 0, len(full))
	var others []StateKeyed
	for _, s := range full {
		if key := keys[s.Event]; key != 0 {
			entries = append(entries, stateEntry{key, s.Event})
		} else if s.Event != 0 {
			others = append(others, s)
		}
	}
	interned, err := t.intern(others)
	return sortedEntries(append(entries, interned...)), err
}

// findState finds the snapshot of a room that has this hash and is the one,
// as same tells; 0: none is.
func (t *Tx) findState(room RoomNum, hash int64, same func(StateNum) (bool, error)) (StateNum, error) {
	found, err := t.stateList(sameSnapshot, int64(room), hash)
	if err != nil {
		return 0, err
	}
	for _, s := range found {
		if ok, err := same(s); ok || err != nil {
			return s, err
		}
	}
	return 0, nil
}

func (r *Rx) stateList(q *statement, args ...any) (list []StateNum, err error) {
	rows, err := r.query(q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s int64
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		list = append(list, StateNum(s))
	}
	return list, rows.Err()
}

func (t *Tx) addState(room RoomNum, at placement, hash int64) (StateNum, error) {
	n, err := t.insert(addSnapshot, int64(room), int64(at.base), at.depth, hash, encodeDelta(at.delta))
	if err != nil {
		return 0, err
	}
	_, err = t.exec(looseState, n, t.Clock())
	return StateNum(n), err
}
