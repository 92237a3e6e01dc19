package storage

import (
	"cmp"
	"fmt"
	"slices"
)

var (
	readSnapshot = stmt(`SELECT num, room, base, depth, hash, delta FROM state_snapshots WHERE num = ?`)
	// The cross join keeps the order of the way; without it SQLite may choose
	// another. A base has a lower number, so a broken file makes no endless way.
	readChain = stmt(`WITH RECURSIVE way (num, base) AS (SELECT num, base FROM state_snapshots WHERE num = ?
		UNION ALL SELECT b.num, b.base FROM way JOIN state_snapshots b ON b.num = way.base AND b.num < way.num)
		SELECT s.num, room, s.base, depth, hash, delta FROM way CROSS JOIN state_snapshots s ON s.num = way.num`)
)

// stateSnapshot is one row of state_snapshots.
type stateSnapshot struct {
	num   StateNum
	room  RoomNum
	base  StateNum
	depth int64
	hash  int64
	delta []byte
}

func (r *Rx) snapshot(s StateNum) (snap stateSnapshot, err error) {
	rows, err := r.query(readSnapshot, int64(s))
	if err != nil {
		return snap, err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return snap, err
		}
		return snap, fmt.Errorf("%w: %d", errNoState, s)
	}
	return scanSnapshot(rows)
}

func scanSnapshot(rows *rows) (snap stateSnapshot, err error) {
	return snap, rows.Scan((*int64)(&snap.num), (*int64)(&snap.room), (*int64)(&snap.base), &snap.depth, &snap.hash, &snap.delta)
}

// eachHop calls fn with the snapshots on the way from s to the empty state, s
// first, until it returns false.
func (r *Rx) eachHop(s StateNum, fn func(stateSnapshot) (more bool, err error)) error {
	if s == 0 {
		return nil
	}
	rows, err := r.query(readChain, int64(s))
	if err != nil {
		return err
	}
	defer rows.Close()
	next := s
	for rows.Next() {
		snap, err := scanSnapshot(rows)
		if err != nil {
			return err
		}
		if more, err := fn(snap); err != nil || !more {
			return err
		}
		next = snap.base
	}
	if err := rows.Err(); err != nil || next == 0 {
		return err
	}
	return fmt.Errorf("%w: %d", errNoState, next)
}

// stateHop is a snapshot on the way to the empty state. Number 0 is its end.
type stateHop struct {
	stateSnapshot
	entries []stateEntry // of the delta, once somebody asked for all
}

func (h *stateHop) all() ([]stateEntry, error) {
	if h.entries != nil || h.num == 0 {
		return h.entries, nil
	}
	entries, err := decodeDelta(h.delta)
	if err != nil {
		return nil, fmt.Errorf("state %d: %w", h.num, err)
	}
	h.entries = entries
	return entries, nil
}

// find looks up one key in the delta.
func (h *stateHop) find(key int64) (event EventNum, found bool, err error) {
	if h.entries == nil {
		return findInDelta(h.delta, key)
	}
	at, found := searchEntries(h.entries, key)
	if found {
		event = h.entries[at].event
	}
	return event, found, nil
}

// stateChain is the way from a snapshot to the empty state: read as far as
// somebody asked, or as a whole.
type stateChain struct {
	rx   *Rx
	from StateNum
	hops []stateHop
}

func (r *Rx) chain(s StateNum) *stateChain { return &stateChain{rx: r, from: s} }

// wholeChain reads all of the way at once, which is cheaper per snapshot.
func (r *Rx) wholeChain(s StateNum) (*stateChain, error) {
	c := r.chain(s)
	return c, r.eachHop(s, func(snap stateSnapshot) (bool, error) {
		c.hops = append(c.hops, stateHop{stateSnapshot: snap})
		return true, nil
	})
}

// hop is the i-th snapshot of the way; all zero where the empty state is reached.
func (c *stateChain) hop(i int) (*stateHop, error) {
	for len(c.hops) <= i {
		next := c.from
		if n := len(c.hops); n > 0 {
			next = c.hops[n-1].base
		}
		if next == 0 {
			return &stateHop{}, nil
		}
		snap, err := c.rx.snapshot(next)
		if err == nil && snap.base >= next {
			err = fmt.Errorf("%w: %d, below %d", errNoState, snap.base, next)
		}
		if err != nil {
			return nil, err
		}
		c.hops = append(c.hops, stateHop{stateSnapshot: snap})
	}
	return &c.hops[i], nil
}

// upTo is what the first n hops, all of them read, change on what lies below.
func (c *stateChain) upTo(n int) (union []stateEntry, err error) {
	for i := range c.hops[:n] {
		entries, err := c.hops[i].all()
		if err != nil {
			return nil, err
		}
		union = overlay(union, entries)
	}
	return union, nil
}

// state is the content of the first snapshot; all of the way was read.
func (c *stateChain) state() ([]stateEntry, error) {
	entries, err := c.upTo(len(c.hops))
	if len(c.hops) == 1 {
		entries = slices.Clone(entries) // what the hop keeps is not ours to change
	}
	return withoutRemoved(entries), err
}

// decodeFrom is for how many keys a delta is decoded instead of searched.
const decodeFrom = 4

// values finds the events that keys, sorted, have in the state of the hop at
// index from: 0 where it has none.
func (c *stateChain) values(keys []stateEntry, from int) ([]EventNum, error) {
	out := make([]EventNum, len(keys))
	known := make([]bool, len(keys))
	for missing := len(keys); missing > 0; from++ {
		h, err := c.hop(from)
		if err != nil {
			return nil, err
		}
		if h.num == 0 {
			break
		}
		if missing >= decodeFrom {
			if _, err := h.all(); err != nil {
				return nil, err
			}
		}
		for i, k := range keys {
			if known[i] {
				continue
			}
			if out[i], known[i], err = h.find(k.key); err != nil {
				return nil, err
			}
			if known[i] {
				missing--
			}
		}
	}
	return out, nil
}

func searchEntries(entries []stateEntry, key int64) (int, bool) {
	return slices.BinarySearchFunc(entries, key, func(e stateEntry, k int64) int { return cmp.Compare(e.key, k) })
}
