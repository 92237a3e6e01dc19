package rules

import "math/bits"

// authDifference finds the events that are in the full auth chain of some of
// the states to be resolved but not of all. Room Version 2, "Auth difference".
//
// It walks from the states down, by generation: when an event's turn comes,
// everything that could reach it has been there before, so what is known of it
// is final. As soon as nothing waits but what is in the chains of all states,
// so is everything below, and the walk ends.
type authDifference struct {
	g     *graph
	words int // of one colour set
	total int // number of states

	own     []uint64 // by event: the states it is in
	chain   []uint64 // by event: the states whose auth chain it is in
	known   bitset   // events that are or were in the queue
	queue   queue[int32]
	pending int // events in the queue that are not settled
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

// put says that an event is in a state, by the state's number.
func (d *authDifference) put(n int32, state int) {
	d.of(d.own, n)[state/64] |= 1 << (state % 64)
	d.known.add(n)
}

// putAll says that an event is in all states.
func (d *authDifference) putAll(n int32) {
	for state := range d.total {
		d.put(n, state)
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

// settled tells that, as things are, the event is not part of the difference
// and makes nothing below it part of it: it is in all chains, or in all states
// and in no chain.
func (d *authDifference) settled(n int32) bool {
	switch d.of(d.chain, n).count() {
	case d.total:
		return true
	case 0:
		return d.of(d.own, n).count() == d.total
	}
	return false
}

// walk returns the difference, in no particular order.
func (d *authDifference) walk() (list []int32, err error) {
	for n := range d.g.nodes {
		if d.known.has(int32(n)) {
			d.enqueue(int32(n))
		}
	}
	for d.pending > 0 && len(d.queue.items) > 0 {
		level := d.next()
		if err := d.g.load(level); err != nil {
			return nil, err
		}
		d.grow()
		for _, n := range level {
			if c := d.of(d.chain, n).count(); c > 0 && c < d.total {
				list = append(list, n)
			}
			for _, a := range d.g.nodes[n].auth {
				d.pass(n, a)
			}
		}
	}
	return list, nil
}

func (d *authDifference) enqueue(n int32) {
	d.queue.push(n)
	if !d.settled(n) {
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
		if !d.settled(n) {
			d.pending--
		}
		level = append(level, n)
	}
	return level
}

// pass gives the colours of n to its auth event a.
func (d *authDifference) pass(n, a int32) {
	waits := d.known.has(a)
	if waits && !d.settled(a) {
		d.pending--
	}
	own, chain, to := d.of(d.own, n), d.of(d.chain, n), d.of(d.chain, a)
	for i := range to {
		to[i] |= own[i] | chain[i]
	}
	if !waits {
		d.known.add(a)
		d.enqueue(a)
	} else if !d.settled(a) {
		d.pending++
	}
}
