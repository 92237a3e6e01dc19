package rules

import (
	"maps"
	"math/bits"
	"slices"
)

// authDifference finds the events that are in the full auth chain of some of
// the states to be resolved but not of all. Room Version 2, "Auth difference".
//
// First it walks down from the conflicted events, by generation: when an
// event's turn comes, everything that could reach it has been there before, so
// what is known of it is final. As soon as nothing waits but what all states
// reach, so does everything below, and the walk ends. What some states reach
// and others do not is a candidate; it drops out if an unconflicted event
// reaches it, as that is in all states (see common).
type authDifference struct {
	g     *graph
	words int // of one colour set
	total int // number of states

	own     []uint64 // by event: the states it is in, if it is conflicted
	chain   []uint64 // by event: the states whose conflicted events reach it
	known   bitset   // events that are or were in the queue
	queue   queue[int32]
	pending int // events in the queue that not all states reach
}

// colours is a set of states, a bit for each.
type colours []uint64

func (c colours) count() (n int) {
	for _, w := range c {
		n += bits.OnesCount64(w)
	}
	return n
}

func newAuthDifference(g *graph, states int) *authDifference {
	d := &authDifference{g: g, words: (states + 63) / 64, total: states}
	d.queue.less = func(a, b int32) bool { return g.nodes[a].gen > g.nodes[b].gen }
	d.grow()
	return d
}

// put says that a conflicted event is in a state, by the state's number.
func (d *authDifference) put(n int32, state int) {
	d.of(d.own, n)[state/64] |= 1 << (state % 64)
	if d.known.add(n) {
		d.enqueue(n)
	}
}

func (d *authDifference) of(sets []uint64, n int32) colours {
	return sets[int(n)*d.words : (int(n)+1)*d.words]
}

func (d *authDifference) grow() {
	if missing := len(d.g.nodes)*d.words - len(d.own); missing > 0 {
		d.own = append(d.own, make([]uint64, missing)...)
		d.chain = append(d.chain, make([]uint64, missing)...)
	}
}

// everywhere tells that all states reach the event, as far as is known.
func (d *authDifference) everywhere(n int32) bool {
	return d.of(d.chain, n).count() == d.total
}

// find returns the difference, in no particular order. unconflicted are the
// events that are in all states.
func (d *authDifference) find(unconflicted map[Key]int32) ([]int32, error) {
	candidates, err := d.walk()
	if err != nil || len(candidates) == 0 {
		return nil, err
	}
	common, err := d.common(unconflicted, candidates)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(candidates, common.has), nil
}

// walk finds what conflicted events of some states, but not of all, reach.
func (d *authDifference) walk() (candidates []int32, err error) {
	for d.pending > 0 && len(d.queue.items) > 0 {
		level := d.next()
		if err := d.g.load(level); err != nil {
			return nil, err
		}
		d.grow()
		for _, n := range level {
			if c := d.of(d.chain, n).count(); c > 0 && c < d.total {
				candidates = append(candidates, n)
			}
			for _, a := range d.g.auth(n) {
				d.pass(n, a)
			}
		}
	}
	return candidates, nil
}

func (d *authDifference) enqueue(n int32) {
	d.queue.push(n)
	if !d.everywhere(n) {
		d.pending++
	}
}

// next takes all events of the greatest generation from the queue: none of
// them is in the chain of another.
func (d *authDifference) next() (level []int32) {
	items := &d.queue.items
	gen := d.g.nodes[(*items)[0]].gen
	for len(*items) > 0 && d.g.nodes[(*items)[0]].gen == gen {
		n := d.queue.pop()
		if !d.everywhere(n) {
			d.pending--
		}
		level = append(level, n)
	}
	return level
}

// pass gives the colours of n to its auth event a.
func (d *authDifference) pass(n, a int32) {
	waits := d.known.has(a)
	if waits && !d.everywhere(a) {
		d.pending--
	}
	own, chain, to := d.of(d.own, n), d.of(d.chain, n), d.of(d.chain, a)
	for i := range to {
		to[i] |= own[i] | chain[i]
	}
	if !waits {
		d.known.add(a)
		d.enqueue(a)
	} else if !d.everywhere(a) {
		d.pending++
	}
}

// common finds which candidates are in the auth chain of an unconflicted
// event. It reads those events a part at a time, and only what can lie above a
// candidate; often the first part settles all.
func (d *authDifference) common(unconflicted map[Key]int32, candidates []int32) (bitset, error) {
	var left, reached bitset
	for _, n := range candidates {
		left.add(n)
	}
	open := len(candidates)
	floor := d.g.lowest(candidates)
	visit := make([]int32, 0, 64)
	for part := range slices.Chunk(slices.Collect(maps.Values(unconflicted)), 512) {
		visit = visit[:0]
		for _, n := range part {
			if d.g.nodes[n].gen > floor {
				visit = append(visit, n)
			}
		}
		for len(visit) > 0 && open > 0 {
			if err := d.g.load(visit); err != nil {
				return nil, err
			}
			var next []int32
			for _, n := range visit {
				for _, a := range d.g.auth(n) {
					if d.g.nodes[a].gen < floor || !reached.add(a) {
						continue
					}
					if left.has(a) {
						open--
					}
					next = append(next, a)
				}
			}
			visit = next
		}
	}
	return reached, nil
}
