package storage

import (
	"cmp"
	"fmt"
	"slices"
)

var readSnapshot = stmt(`SELECT room, base, depth, hash, delta FROM state_snapshots WHERE num = ?`)

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
	snap.num = s
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
	return snap, rows.Scan((*int64)(&snap.room), (*int64)(&snap.base), &snap.depth, &snap.hash, &snap.delta)
}

// stateHop is a snapshot on the way to the empty state. Number 0 is its end.
type stateHop struct {
	stateSnapshot
	entries []stateEntry
}

// stateChain is the way from a snapshot to the empty state, read as far as
// somebody asked.
type stateChain struct {
	rx   *Rx
	from StateNum
	hops []stateHop
}

func (r *Rx) chain(s StateNum) *stateChain { return &stateChain{rx: r, from: s} }

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
		if err != nil {
			return nil, err
		}
		entries, err := decodeDelta(snap.delta)
		if err != nil {
			return nil, err
		}
		c.hops = append(c.hops, stateHop{snap, entries})
	}
	return &c.hops[i], nil
}

// upTo is what the first n hops, all of them read, change on what lies below.
func (c *stateChain) upTo(n int) (union []stateEntry) {
	for _, h := range c.hops[:n] {
		union = overlay(union, h.entries)
	}
	return union
}

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
		for i, k := range keys {
			if known[i] {
				continue
			}
			if at, found := searchEntries(h.entries, k.key); found {
				out[i], known[i] = h.entries[at].event, true
				missing--
			}
		}
	}
	return out, nil
}

func searchEntries(entries []stateEntry, key int64) (int, bool) {
	return slices.BinarySearchFunc(entries, key, func(e stateEntry, k int64) int { return cmp.Compare(e.key, k) })
}
