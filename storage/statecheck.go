package storage

import "database/sql/driver"

var (
	rootStates = stmt(`SELECT s.num FROM state_snapshots s JOIN rooms r ON r.num = s.room WHERE s.base = 0 AND r.purging = 0`)
	basedOn    = stmt(`SELECT num FROM state_snapshots WHERE base = ?`)
)

// stateFaults are queries whose every row, a number, is something wrong.
var stateFaults = []struct{ format, sql string }{
	{"event %d has a state that is not there", `SELECT num FROM events WHERE state_before <> 0
		AND state_before NOT IN (SELECT num FROM state_snapshots)`},
	{"room %d has a state that is not there", `SELECT num FROM rooms WHERE state <> 0 AND purging = 0
		AND state NOT IN (SELECT num FROM state_snapshots)`},
	{"the state history of room %d has a state that is not there", `SELECT DISTINCT room FROM room_states WHERE state <> 0
		AND state NOT IN (SELECT num FROM state_snapshots)`},
	{"state %d is of no room", `SELECT num FROM state_snapshots WHERE room NOT IN (SELECT num FROM rooms)`},
	{"state %d is of another room than what refers to it", `SELECT s.num FROM state_snapshots s
		WHERE EXISTS (SELECT 1 FROM events e WHERE e.state_before = s.num AND e.state_before <> 0 AND e.room <> s.room)
		OR EXISTS (SELECT 1 FROM room_states h WHERE h.state = s.num AND h.room <> s.room)`},
	{"state %d is stored twice", `SELECT max(num) FROM state_snapshots GROUP BY room, hash HAVING count(*) > 1`},
	// Whatever is referred to by nothing, or by one child only, waits to be collected.
	{"state %d has been forgotten by collection", `SELECT s.num FROM state_snapshots s JOIN rooms r ON r.num = s.room
		WHERE r.purging = 0 AND r.state <> s.num AND NOT EXISTS (SELECT 1 FROM state_loose l WHERE l.num = s.num)
		AND NOT EXISTS (SELECT 1 FROM events e WHERE e.state_before = s.num AND e.state_before <> 0)
		AND NOT EXISTS (SELECT 1 FROM room_states h WHERE h.state = s.num)
		AND (SELECT count(*) FROM state_snapshots c WHERE c.base = s.num) < 2`},
}

// stateCheck walks all snapshots from the empty state on.
type stateCheck struct {
	rx   *Rx
	note func(string, ...any)
	keys map[int64]bool
	seen int64
}

// checkState looks at the states of rooms: that nothing refers to one that is
// not there, that each base is an ancestor of smaller depth in the same room,
// that every state hashes to what is stored, and that collection has lost none.
func (c *conn) checkState(note func(string, ...any)) error {
	for _, f := range stateFaults {
		err := c.each(f.sql, func(v []driver.Value) error {
			note(f.format, v[0])
			return nil
		})
		if err != nil {
			return err
		}
	}
	k := stateCheck{rx: &Rx{conn: c}, note: note, keys: map[int64]bool{}}
	err := c.each("SELECT num FROM state_keys", func(v []driver.Value) error {
		k.keys[v[0].(int64)] = true
		return nil
	})
	if err != nil {
		return err
	}
	roots, err := k.rx.stateList(rootStates)
	if err != nil {
		return err
	}
	if err := k.walk(stateSnapshot{}, nil, roots); err != nil {
		return err
	}
	all, err := c.number("SELECT count(*) FROM state_snapshots s JOIN rooms r ON r.num = s.room WHERE r.purging = 0")
	if all != k.seen {
		note("%d of %d states have a base that is not there", all-k.seen, all)
	}
	return err
}

// walk checks the children of base, whose whole state is given, and what stands on them.
func (k *stateCheck) walk(base stateSnapshot, state []stateEntry, children []StateNum) error {
	for _, s := range children {
		snap, err := k.rx.snapshot(s)
		if err != nil {
			return err
		}
		delta, err := decodeDelta(snap.delta)
		if err != nil {
			k.note("state %d: %v", s, err)
			continue
		}
		if base.num != 0 && (snap.room != base.room || s <= base.num || !below(base.depth, snap.depth)) {
			k.note("state %d of room %d at depth %d stands on %d of room %d at depth %d",
				s, snap.room, snap.depth, base.num, base.room, base.depth)
			continue
		}
		k.seen++
		whole := withoutRemoved(overlay(delta, append([]stateEntry(nil), state...)))
		if got := hashOfAll(whole); got != snap.hash {
			k.note("state %d hashes to %x, stored is %x", s, uint64(got), uint64(snap.hash))
		}
		for _, e := range delta {
			if e.event != 0 && !k.keys[e.key] {
				k.note("state %d names key %d, which is not there", s, e.key)
			}
		}
		next, err := k.rx.stateList(basedOn, int64(s))
		if err != nil {
			return err
		}
		if err := k.walk(snap, whole, next); err != nil {
			return err
		}
	}
	return nil
}

// below tells whether a base of depth a may carry a snapshot of depth d: a is d
// without some of its lowest ones.
func below(a, d int64) bool {
	for d > a && d > 0 {
		d &= d - 1
	}
	return d == a
}
