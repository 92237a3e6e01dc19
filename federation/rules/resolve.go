package rules

import (
	"fmt"
	"maps"

	"hearth/storage/matrix"
)

// Resolve merges the states after an event's parents into the state before it,
// by the algorithm of the room version. Nothing depends on the order of
// states, nor on that of any map. The result may share nothing with states.
//
// A *MissingError says that src lacks events of the states. Auth events that
// are not there are passed over.
func Resolve(v *matrix.Version, states []StateMap, src Source) (StateMap, error) {
	switch {
	case len(states) == 0:
		return StateMap{}, nil
	case allEqual(states):
		return maps.Clone(states[0]), nil
	case v.StateRes == matrix.StateResV1:
		return resolveV1(states, src)
	}
	r := newResolver(v, src)
	if err := r.resolve(states); err != nil {
		return nil, err
	}
	return r.result(), nil
}

func allEqual(states []StateMap) bool {
	for _, s := range states[1:] {
		if !maps.Equal(states[0], s) {
			return false
		}
	}
	return true
}

// resolver is one run of state resolution v2 or v2.1.
type resolver struct {
	src     Source
	g       *graph
	version *matrix.Version

	unconflicted map[Key]int32
	conflicted   []int32
	full         []int32 // the full conflicted set
	inFull       bitset

	state  map[Key]int32 // the partially resolved state
	create *matrix.Event // with RoomIDFromCreate: the room's create event
	err    error         // first failure inside a lookup of the rules
}

func newResolver(v *matrix.Version, src Source) *resolver {
	return &resolver{src: src, version: v}
}

// resolve is "Algorithm" of Room Version 2 and 12, steps 1 to 4.
func (r *resolver) resolve(states []StateMap) error {
	if err := r.findFullConflictedSet(states); err != nil {
		return err
	}
	power, err := r.powerEvents()
	if err != nil {
		return err
	}
	if err := r.apply(r.powerOrder(power)); err != nil {
		return err
	}
	rest := make([]int32, 0, len(r.full))
	for _, n := range r.full {
		if !power.chosen.has(n) {
			rest = append(rest, n)
		}
	}
	if err := r.mainlineOrder(rest); err != nil {
		return err
	}
	return r.apply(rest)
}

// result is step 5: what is unconflicted wins.
func (r *resolver) result() StateMap {
	result := make(StateMap, len(r.unconflicted)+len(r.state))
	for k, n := range r.state {
		result[k] = r.g.nodes[n].id
	}
	for k, n := range r.unconflicted {
		result[k] = r.g.nodes[n].id
	}
	return result
}

// findFullConflictedSet is the union of the conflicted state set, the auth
// difference and, in v2.1, the conflicted state subgraph.
func (r *resolver) findFullConflictedSet(states []StateMap) error {
	diff, err := r.split(states)
	if err != nil {
		return err
	}
	if err := r.g.load(r.conflicted); err != nil {
		return err
	}
	if err := r.g.missing(r.conflicted); err != nil {
		return err
	}
	difference, err := diff.find(r.unconflicted)
	if err != nil {
		return err
	}
	lists := [][]int32{r.conflicted, difference}
	if r.version.StateRes == matrix.StateResV2_1 {
		between, err := r.subgraph()
		if err != nil {
			return err
		}
		lists = append(lists, between)
	}
	for _, list := range lists {
		for _, n := range list {
			if r.g.nodes[n].is.has(usable) && r.inFull.add(n) {
				r.full = append(r.full, n)
			}
		}
	}
	r.state = make(map[Key]int32, len(r.full)/2)
	return r.loadAround()
}

// split numbers the events of the states, tells the conflicted from the
// unconflicted, and colours the former for the auth difference.
func (r *resolver) split(states []StateMap) (*authDifference, error) {
	agreed := make([]Key, 0, len(states[0]))
	for k, id := range states[0] {
		if inAll(states[1:], k, id) {
			agreed = append(agreed, k)
		}
	}
	disputed := 0
	for _, s := range states {
		disputed += len(s) - len(agreed)
	}
	r.g = newGraph(r.src, len(agreed)+2*disputed) // with what else the latter cite
	r.unconflicted = make(map[Key]int32, len(agreed))
	for _, k := range agreed {
		r.unconflicted[k] = r.g.number(states[0][k])
	}
	type place struct {
		n     int32
		state int
	}
	places := make([]place, 0, disputed)
	var seen bitset
	for i, s := range states {
		for k, id := range s {
			if _, ok := r.unconflicted[k]; ok {
				continue
			}
			n := r.g.number(id)
			places = append(places, place{n, i})
			if seen.add(n) {
				r.conflicted = append(r.conflicted, n)
			}
		}
	}
	if err := r.g.rank(); err != nil {
		return nil, err
	}
	d := newAuthDifference(r.g, len(states))
	for _, p := range places {
		d.put(p.n, p.state)
	}
	return d, nil
}

func inAll(states []StateMap, k Key, id matrix.EventID) bool {
	for _, s := range states {
		if s[k] != id {
			return false
		}
	}
	return true
}

// subgraph is the conflicted state subgraph: everything on a path along auth
// events from one conflicted event to another. One walk down finds what they
// reach, one walk back up which of it reaches one of them; so each event is
// looked at twice, however many paths lead through it.
// Room Version 12, "Conflicted state subgraph".
func (r *resolver) subgraph() ([]int32, error) {
	below, err := r.g.reach(r.conflicted, r.g.lowest(r.conflicted))
	if err != nil {
		return nil, err
	}
	var leads bitset
	for _, n := range r.conflicted {
		leads.add(n)
	}
	var list []int32
	for i := len(below) - 1; i >= 0; i-- {
		n := below[i]
		for _, a := range r.g.auth(n) {
			if leads.has(a) {
				leads.add(n)
				break
			}
		}
		if leads.has(n) {
			list = append(list, n)
		}
	}
	return list, nil
}

// loadAround reads, in a few batches, what the checks of the full conflicted
// set will ask for: the auth events of its events, and the room's create event
// where that is nobody's auth event.
func (r *resolver) loadAround() error {
	var list []int32
	var seen bitset
	for _, n := range r.full {
		for _, a := range r.g.auth(n) {
			if seen.add(a) {
				list = append(list, a)
			}
		}
	}
	if err := r.g.load(list); err != nil {
		return err
	}
	if !r.version.RoomIDFromCreate || len(r.full) == 0 {
		return nil
	}
	// The states' own create event, so that an event of another room among them
	// is refused rather than the room's, whichever comes first.
	n, ok := r.unconflicted[createKey]
	if !ok {
		room := r.g.nodes[r.full[0]].ev.RoomID()
		if room == "" {
			return fmt.Errorf("state resolution: event %s has no room", r.g.nodes[r.full[0]].id)
		}
		n = r.g.number(matrix.EventID("$" + room[1:]))
	}
	if err := r.g.load([]int32{n}); err != nil {
		return err
	}
	if node := &r.g.nodes[n]; node.standing == Accepted {
		r.create = node.ev
	}
	return nil
}
