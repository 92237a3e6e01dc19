package storage

import "math/bits"

// placement is where in the tree a new snapshot goes.
type placement struct {
	base  StateNum
	depth int64
	delta []stateEntry
}

// place finds the place of the child that changes make of the state at the
// beginning of c.
//
// A snapshot of depth d has for its base its ancestor of depth d & (d-1), so
// clearing the bits of d one after the other is the way to the empty state.
// The child of depth p has depth p+1, and its base lies on p's own way: for
// each trailing one of p one hop up. What the child must hold is what those
// hops hold, and its change on top. More than one change count as that many
// steps, rounded up to a power of two: a large state then stands at a depth
// where it need not be copied again for as many changes as it has entries.
//
// Where snapshots on the way were collected, the base is the first beyond the
// gap, which makes the delta larger and the way shorter.
func (t *Tx) place(c *stateChain, changes []stateEntry) (placement, error) {
	top, err := c.hop(0)
	if err != nil {
		return placement{}, err
	}
	j := 0
	if len(changes) > 1 {
		j = bits.Len(uint(len(changes) - 1))
	}
	at := placement{depth: (top.depth>>j + 1) << j}
	if top.num == 0 && len(changes) == 0 {
		at.depth = 0 // the empty state itself
	}
	n, base := 0, top
	for ; base.depth > at.depth&(at.depth-1); n++ {
		if base, err = c.hop(n + 1); err != nil {
			return placement{}, err
		}
	}
	union, err := c.upTo(n)
	if err != nil {
		return placement{}, err
	}
	at.delta = overlay(changes, union)
	if base.depth > 0 {
		at.base = base.num
	} else {
		at.delta = withoutRemoved(append([]stateEntry(nil), at.delta...))
	}
	return at, nil
}

// crowded is how many entries more than its changes a delta holds before it is
// worth a look whether a sibling holds the same ones.
const crowded = 16

var siblings = stmt(`SELECT num FROM state_snapshots WHERE base = ? AND room = ? AND depth = ? ORDER BY num DESC LIMIT 2`)

// placeNear is place, or, where the delta would be large, a place below a
// sibling that holds nearly the same: many branches from one state whose
// children are due a large delta must not hold it once each.
func (t *Tx) placeNear(room RoomNum, c *stateChain, changes []stateEntry) (placement, error) {
	best, err := t.place(c, changes)
	if err != nil || len(best.delta) < len(changes)+crowded {
		return best, err
	}
	near, err := t.stateList(siblings, int64(best.base), int64(room), best.depth)
	if err != nil {
		return best, err
	}
	below := t.chain(best.base)
	was := func(key int64) (EventNum, error) {
		v, err := below.values([]stateEntry{{key: key}}, 0)
		if err != nil {
			return 0, err
		}
		return v[0], nil
	}
	delta := best.delta
	for _, s := range near {
		sc := t.chain(s)
		h, err := sc.hop(0)
		if err != nil {
			return best, err
		}
		// From the sibling to the new one: was gives what the base has, which
		// is what either has of a key that its delta does not name.
		entries, err := h.all()
		if err != nil {
			return best, err
		}
		diff, err := diffEntries(entries, delta, was)
		if err != nil {
			return best, err
		}
		at, err := t.place(sc, diff)
		if err != nil {
			return best, err
		}
		if len(at.delta) < len(best.delta) {
			best = at
		}
	}
	return best, nil
}
