package storage

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// stateGrace is how long a snapshot that nothing has referred to yet is kept
	// for the unit that will.
	stateGrace = int64(time.Hour / time.Millisecond)
	// collectBytes of deltas are looked at in one unit.
	collectBytes = 1 << 20
	// rowBytes is about what a snapshot takes beside its delta.
	rowBytes = 50
)

var (
	listLoose     = stmt(`SELECT num FROM state_loose WHERE at_clock < ? ORDER BY num DESC LIMIT ?`)
	dropLoose     = stmt(`DELETE FROM state_loose WHERE num = ?`)
	loosenState   = stmt(`INSERT OR REPLACE INTO state_loose (num, at_clock) VALUES (?, 0)`)
	stateChildren = stmt(`SELECT num FROM state_snapshots WHERE base = ? LIMIT 33`)
	rebaseState   = stmt(`UPDATE state_snapshots SET base = ?, delta = ? WHERE num = ?`)
	dropSnapshot  = stmt(`DELETE FROM state_snapshots WHERE num = ?`)
	stateReferred = stmt(`SELECT EXISTS (SELECT 1 FROM events WHERE state_before = ?1 AND state_before <> 0)
		OR EXISTS (SELECT 1 FROM room_states WHERE state = ?1)
		OR EXISTS (SELECT 1 FROM rooms WHERE num = ?2 AND state = ?1)`)
)

// CollectState deletes snapshots that nothing refers to: no event, no room, no
// state history, and no snapshot by its base. Before one goes, those that have
// it for their base are given its base, with both deltas in one; where that
// would take more room than it frees, because there are several, it stays.
//
// Snapshots that were never referred to go if they were made before a time of
// the age clock. It looks at limit snapshots at most and returns how many it
// looked at; fewer than limit: there is no more to do.
func (t *Tx) CollectState(before int64, limit int) (int, error) {
	list, err := t.stateList(listLoose, before, limit)
	if err != nil {
		return 0, fmt.Errorf("collect state: %w", err)
	}
	bytes := 0
	for _, s := range list {
		n, err := t.collect(s)
		if err != nil {
			return 0, fmt.Errorf("collect state %d: %w", s, err)
		}
		if bytes += n; bytes > collectBytes {
			return limit, nil
		}
	}
	return len(list), nil
}

// collect looks at one loose snapshot, and returns how many bytes it moved.
func (t *Tx) collect(s StateNum) (int, error) {
	if _, err := t.exec(dropLoose, int64(s)); err != nil {
		return 0, err
	}
	snap, err := t.snapshot(s)
	if errors.Is(err, errNoState) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var referred bool
	if err := t.row(stateReferred, []any{int64(s), int64(snap.room)}, &referred); err != nil || referred {
		return 0, err
	}
	moved, ok, err := t.rebaseChildren(snap)
	if err != nil || !ok {
		return moved, err
	}
	if moved == 0 {
		err = t.loosenNew(snap)
	}
	if err != nil {
		return moved, err
	}
	if _, err := t.exec(dropSnapshot, int64(s)); err != nil {
		return moved, err
	}
	if snap.base != 0 {
		// It has lost a child, so it may go now.
		_, err = t.exec(loosenState, int64(snap.base))
	}
	return moved, err
}

// rebaseChildren gives the children of a snapshot its own base, unless that
// would make them larger than all of it is now.
func (t *Tx) rebaseChildren(snap stateSnapshot) (bytes int, ok bool, err error) {
	children, err := t.stateList(stateChildren, int64(snap.num))
	if err != nil || len(children) > 32 {
		return 0, false, err
	}
	own, err := decodeDelta(snap.delta)
	if err != nil {
		return 0, false, err
	}
	saved := len(snap.delta) + rowBytes
	deltas := make([][]byte, len(children))
	var removed []int64 // keys that no delta here names any more
	for i, num := range children {
		child, err := t.snapshot(num)
		if err != nil {
			return bytes, false, err
		}
		entries, err := decodeDelta(child.delta)
		if err != nil {
			return bytes, false, err
		}
		entries = overlay(entries, own)
		if snap.base == 0 {
			for _, e := range entries {
				if e.event == 0 {
					removed = append(removed, e.key)
				}
			}
			entries = withoutRemoved(slices.Clone(entries))
		}
		deltas[i] = encodeDelta(entries)
		bytes += len(deltas[i])
		if saved += len(child.delta) - len(deltas[i]); saved < 0 {
			return bytes, false, nil
		}
	}
	for i, num := range children {
		if _, err := t.exec(rebaseState, int64(snap.base), deltas[i], int64(num)); err != nil {
			return bytes, false, err
		}
	}
	return bytes, true, t.loosen(removed)
}

// loosenNew loosens the keys that only a snapshot without children has, as far
// as its base can tell.
func (t *Tx) loosenNew(snap stateSnapshot) error {
	own, err := decodeDelta(snap.delta)
	if err != nil {
		return err
	}
	was, err := t.chain(snap.base).values(own, 0)
	if err != nil {
		return err
	}
	var keys []int64
	for i, e := range own {
		if was[i] == 0 {
			keys = append(keys, e.key)
		}
	}
	return t.loosen(keys)
}
