package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"hearth/storage/matrix"
)

// errCycle can only come of events that no server could ever accept.
var errCycle = errors.New("auth events form a cycle")

// graph numbers the events of one resolution and reads each at most once.
// Numbers are for speed only: no result depends on their order.
type graph struct {
	src   Source
	gens  Generations // nil: generations are computed from the whole chains
	index map[matrix.EventID]int32
	nodes []node
	links []int32 // the nodes' auth events
}

// node is one event. Its fields are there in three steps: known by ID, with a
// generation, and loaded. What each step of a resolution asks of every event
// is kept here, as events themselves lie scattered in memory.
type node struct {
	id       matrix.EventID
	ev       *matrix.Event // nil: not loaded, or missing
	gen      int64
	ts       int64 // origin_server_ts
	authFrom int32 // where its auth events are in links
	authTo   int32
	levels   int32 // number of the power levels among them, see citedLevels
	standing Standing
	is       traits
}

// traits is what is known of an event.
type traits uint8

const (
	loaded      traits = 1 << iota // the source was asked for it
	usable                         // it may take part in a resolution
	powerEvent                     // see isPowerEvent
	powerLevels                    // it is m.room.power_levels with an empty state key
	levelsKnown                    // levels is valid
)

func (t traits) has(x traits) bool { return t&x != 0 }

func newGraph(src Source, size int) *graph {
	g := &graph{src: src, index: make(map[matrix.EventID]int32, size), nodes: make([]node, 0, size), links: make([]int32, 0, 4*size)}
	g.gens, _ = src.(Generations)
	return g
}

// number finds or gives the event's number.
func (g *graph) number(id matrix.EventID) int32 {
	n, ok := g.index[id]
	if !ok {
		n = int32(len(g.nodes))
		g.index[id] = n
		g.nodes = append(g.nodes, node{id: id})
	}
	return n
}

// load reads the events of list that are not there yet, and learns the
// generations of their auth events.
func (g *graph) load(list []int32) error {
	missing := 0
	for _, n := range list {
		if !g.nodes[n].is.has(loaded) {
			missing++
		}
	}
	if missing == 0 {
		return nil
	}
	todo := make([]int32, 0, missing)
	ids := make([]matrix.EventID, 0, missing)
	for _, n := range list {
		if node := &g.nodes[n]; !node.is.has(loaded) {
			node.is |= loaded // here already, for lists that name an event twice
			todo = append(todo, n)
			ids = append(ids, node.id)
		}
	}
	found, err := g.src.Events(ids)
	if err != nil {
		return fmt.Errorf("state resolution: load %d events: %w", len(ids), err)
	}
	if len(found) != len(ids) {
		return fmt.Errorf("state resolution: asked for %d events, got %d", len(ids), len(found))
	}
	old := len(g.nodes)
	for i, n := range todo {
		g.link(n, found[i])
	}
	return g.learn(old)
}

// link stores an event and numbers its auth events.
func (g *graph) link(n int32, s Stored) {
	ev := s.Event
	if ev == nil {
		return
	}
	from := len(g.links)
	for _, id := range ev.AuthEvents() {
		if a := g.number(id); !slices.Contains(g.links[from:], a) {
			g.links = append(g.links, a)
		}
	}
	node := &g.nodes[n] // only now: number may have moved the nodes
	node.ev, node.standing, node.ts = ev, s.Standing, ev.OriginServerTS()
	node.authFrom, node.authTo = int32(from), int32(len(g.links))
	if _, isState := ev.StateKey(); isState && s.Standing != RejectedByAuth {
		node.is |= usable
	}
	if isPowerEvent(ev) {
		node.is |= powerEvent
	}
	if ev.IsState(matrix.TypePowerLevels, "") {
		node.is |= powerLevels
	}
}

// auth is the auth events of a loaded event, none of one that is missing.
func (g *graph) auth(n int32) []int32 {
	node := &g.nodes[n]
	return g.links[node.authFrom:node.authTo]
}

// learn asks the source for the generations of the nodes from number old on.
func (g *graph) learn(old int) error {
	if g.gens == nil || old == len(g.nodes) {
		return nil
	}
	ids := make([]matrix.EventID, 0, len(g.nodes)-old)
	for i := old; i < len(g.nodes); i++ {
		ids = append(ids, g.nodes[i].id)
	}
	gens, err := g.gens.Generations(ids)
	if err != nil {
		return fmt.Errorf("state resolution: generations of %d events: %w", len(ids), err)
	}
	if len(gens) != len(ids) {
		return fmt.Errorf("state resolution: asked for %d generations, got %d", len(ids), len(gens))
	}
	for i, gen := range gens {
		g.nodes[old+i].gen = gen
	}
	return nil
}

// rank gives the nodes that are numbered so far their generations: from the
// source, or by reading the whole auth chains.
func (g *graph) rank() error {
	if g.gens != nil {
		return g.learn(0)
	}
	for done := 0; done < len(g.nodes); {
		level := make([]int32, 0, len(g.nodes)-done)
		for ; done < len(g.nodes); done++ {
			level = append(level, int32(done))
		}
		if err := g.load(level); err != nil {
			return err
		}
	}
	return g.computeGenerations()
}

// computeGenerations sets each generation to one more than the greatest among
// the auth events. It keeps its own stack, as chains can be very long.
func (g *graph) computeGenerations() error {
	const open = -1
	var stack []int32
	for root := range g.nodes {
		if g.nodes[root].gen != 0 {
			continue
		}
		stack = append(stack, int32(root))
		for len(stack) > 0 {
			n := stack[len(stack)-1]
			node := &g.nodes[n]
			switch {
			case node.gen > 0:
				stack = stack[:len(stack)-1]
			case node.gen == open: // all its auth events are done
				gen := int64(1)
				for _, a := range g.auth(n) {
					if g.nodes[a].gen == open {
						return fmt.Errorf("state resolution: %w: %s", errCycle, node.id)
					}
					gen = max(gen, g.nodes[a].gen+1)
				}
				node.gen = gen
				stack = stack[:len(stack)-1]
			default:
				node.gen = open
				for _, a := range g.auth(n) {
					switch g.nodes[a].gen {
					case 0:
						stack = append(stack, a)
					case open:
						return fmt.Errorf("state resolution: %w: %s", errCycle, node.id)
					}
				}
			}
		}
	}
	return nil
}

// reach lists roots and everything in their auth chains of at least
// generation floor: descendants first, each event once.
func (g *graph) reach(roots []int32, floor int64) ([]int32, error) {
	seen := newBitset(len(g.nodes))
	list := make([]int32, 0, len(roots))
	for _, n := range roots {
		if seen.add(n) {
			list = append(list, n)
		}
	}
	for done := 0; done < len(list); {
		level := list[done:]
		if err := g.load(level); err != nil {
			return nil, err
		}
		done = len(list)
		for _, n := range level {
			for _, a := range g.auth(n) {
				if g.nodes[a].gen >= floor && seen.add(a) {
					list = append(list, a)
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b int32) int { return cmp.Compare(g.nodes[b].gen, g.nodes[a].gen) })
	return list, nil
}

// lowest is the smallest generation among list.
func (g *graph) lowest(list []int32) int64 {
	low := int64(1<<63 - 1)
	for _, n := range list {
		low = min(low, g.nodes[n].gen)
	}
	return low
}

// missing makes the error that names those of list the source does not have,
// nil if it has all. They must have been loaded.
func (g *graph) missing(list []int32) error {
	var ids []matrix.EventID
	for _, n := range list {
		if node := &g.nodes[n]; node.is.has(loaded) && node.ev == nil {
			ids = append(ids, node.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return &MissingError{IDs: slices.Compact(ids)}
}

// bitset is a set of event numbers that grows with the graph.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

// add tells whether n is new in the set.
func (b *bitset) add(n int32) bool {
	for int(n/64) >= len(*b) {
		*b = append(*b, 0)
	}
	word, bit := &(*b)[n/64], uint64(1)<<(n%64)
	fresh := *word&bit == 0
	*word |= bit
	return fresh
}

func (b bitset) has(n int32) bool {
	return int(n/64) < len(b) && b[n/64]&(1<<(n%64)) != 0
}
