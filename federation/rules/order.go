package rules

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hearth/storage/matrix"
)

// powerSet is step 1's set X and what lies between its events.
type powerSet struct {
	chosen bitset  // X
	around []int32 // X with its auth chains as far down as X goes; descendants first
}

// powerEvents selects the power events of the full conflicted set, and what
// else of that set is in their auth chains.
func (r *resolver) powerEvents() (*powerSet, error) {
	var roots []int32
	for _, n := range r.full {
		if r.g.nodes[n].is.has(powerEvent) {
			roots = append(roots, n)
		}
	}
	around, err := r.g.reach(roots, r.g.lowest(r.full))
	if err != nil {
		return nil, err
	}
	p := &powerSet{around: around}
	for _, n := range around {
		if r.inFull.has(n) {
			p.chosen.add(n)
		}
	}
	return p, nil
}

// isPowerEvent tells whether an event might take away somebody's ability to do
// something. Room Version 2, "Power events".
func isPowerEvent(ev *matrix.Event) bool {
	key, isState := ev.StateKey()
	if !isState {
		return false
	}
	switch ev.Type() {
	case matrix.TypePowerLevels, matrix.TypeJoinRules:
		return true
	case matrix.TypeMember:
		if key == string(ev.Sender()) {
			return false
		}
		m := ev.Membership()
		return m == matrix.MembershipLeave || m == matrix.MembershipBan
	}
	return false
}

// ranked is an event with what orders it, but for its ID: that is looked up
// where all else is equal, so that what is sorted stays small.
type ranked struct {
	power int64 // of its sender; or the mainline position: in both the greatest comes first
	ts    int64
	n     int32
}

// compare orders by power, greatest first, then time, then ID.
func (g *graph) compare(a, b ranked) int {
	if c := cmp.Compare(b.power, a.power); c != 0 {
		return c
	}
	if c := cmp.Compare(a.ts, b.ts); c != 0 {
		return c
	}
	return strings.Compare(string(g.nodes[a.n].id), string(g.nodes[b.n].id))
}

// powerOrder is the reverse topological power ordering of X, by Kahn's
// algorithm. Events between those of X order them too, but are not listed:
// they count as placed once everything they cite is.
func (r *resolver) powerOrder(p *powerSet) []int32 {
	place := make([]int32, len(r.g.nodes)) // by event: its number in around, from 1 on
	for i, n := range p.around {
		place[n] = int32(i) + 1
	}
	citedBy := make([][]int32, len(p.around))
	waits := make([]int32, len(p.around)) // for so many auth events
	for i, n := range p.around {
		for _, a := range r.g.auth(n) {
			if j := place[a] - 1; j >= 0 {
				citedBy[j] = append(citedBy[j], int32(i))
				waits[i]++
			}
		}
	}
	ready := queue[ranked]{less: func(a, b ranked) bool { return r.g.compare(a, b) < 0 }}
	var through []int32 // places of events that are placed and whose citers are to be told
	reach := func(i int32) {
		n := p.around[i]
		if !p.chosen.has(n) {
			through = append(through, i)
			return
		}
		ready.push(ranked{r.senderPower(n), r.g.nodes[n].ts, n})
	}
	for i := range waits {
		if waits[i] == 0 {
			reach(int32(i))
		}
	}
	var order []int32
	for {
		for len(through) > 0 {
			i := through[len(through)-1]
			through = through[:len(through)-1]
			for _, j := range citedBy[i] {
				if waits[j]--; waits[j] == 0 {
					reach(j)
				}
			}
		}
		if len(ready.items) == 0 {
			return order
		}
		n := ready.pop().n
		order = append(order, n)
		through = append(through, place[n]-1)
	}
}

// senderPower is the power level of an event's sender by its own auth events.
func (r *resolver) senderPower(n int32) int64 {
	levels, create := unset, (*matrix.CreateContent)(nil)
	if r.create != nil {
		create = r.create.Create()
	}
	for _, a := range r.g.auth(n) {
		switch ev := r.g.nodes[a].ev; {
		case ev == nil:
		case ev.IsState(matrix.TypePowerLevels, ""):
			levels, _ = ev.PowerLevels()
		case ev.IsState(matrix.TypeCreate, "") && !r.version.RoomIDFromCreate:
			create = ev.Create()
		}
	}
	return powerOf(r.version, create, levels, r.g.nodes[n].ev.Sender())
}

// mainlineOrder sorts list by the mainline of the power levels in the
// partially resolved state. Room Version 2, "Mainline ordering".
func (r *resolver) mainlineOrder(list []int32) error {
	m := mainline{g: r.g, position: make(map[int32]int64)}
	if n, ok := r.lookup(powerKey); ok {
		m.add(n)
	}
	keys := make([]ranked, len(list))
	for i, n := range list {
		position, err := m.positionOf(n)
		if err != nil {
			return err
		}
		// The greatest position comes first, as the greatest power does.
		keys[i] = ranked{position, r.g.nodes[n].ts, n}
	}
	slices.SortFunc(keys, r.g.compare)
	for i := range keys {
		list[i] = keys[i].n
	}
	return nil
}

// offMainline is the position of events that cite nothing on the mainline.
const offMainline = math.MaxInt64

// mainline is the chain of power levels that a power levels event cites. It is
// followed only as far down as positions are asked for.
type mainline struct {
	g        *graph
	line     []int32
	position map[int32]int64 // of power levels: their own place, or that of what they cite
}

func (m *mainline) add(n int32) {
	m.position[n] = int64(len(m.line))
	m.line = append(m.line, n)
}

// positionOf is the place on the mainline of the first power levels that is
// reached from n by following power levels, offMainline if there is none.
func (m *mainline) positionOf(n int32) (int64, error) {
	if len(m.line) == 0 {
		return offMainline, nil
	}
	var path []int32
	position := int64(offMainline)
	for {
		cited, err := m.g.citedLevels(n)
		if err != nil {
			return 0, err
		}
		if cited < 0 {
			break
		}
		if err := m.extend(m.g.nodes[cited].gen); err != nil {
			return 0, err
		}
		if at, ok := m.position[cited]; ok {
			position = at
			break
		}
		if len(path) > len(m.g.nodes) {
			return 0, fmt.Errorf("state resolution: %w: %s", errCycle, m.g.nodes[n].id)
		}
		path = append(path, cited)
		n = cited
	}
	for _, p := range path {
		m.position[p] = position
	}
	return position, nil
}

// extend follows the mainline until nothing of at least generation gen can follow.
func (m *mainline) extend(gen int64) error {
	for len(m.line) > 0 {
		tail := m.line[len(m.line)-1]
		if m.g.nodes[tail].gen <= gen {
			return nil
		}
		next, err := m.g.citedLevels(tail)
		if err != nil {
			return err
		}
		if next < 0 {
			return nil
		}
		if len(m.line) > len(m.g.nodes) {
			return fmt.Errorf("state resolution: %w: %s", errCycle, m.g.nodes[next].id)
		}
		m.add(next)
	}
	return nil
}

// citedLevels finds the power levels among the auth events of n, -1 if there are none.
func (g *graph) citedLevels(n int32) (int32, error) {
	if g.nodes[n].is.has(levelsKnown) {
		return g.nodes[n].levels, nil
	}
	if err := g.load([]int32{n}); err != nil {
		return 0, err
	}
	if err := g.load(g.auth(n)); err != nil {
		return 0, err
	}
	node := &g.nodes[n]
	node.is |= levelsKnown
	node.levels = -1
	for _, a := range g.auth(n) {
		if g.nodes[a].is.has(powerLevels) {
			node.levels = a
			break
		}
	}
	return node.levels, nil
}
