package rules

import (
	"bytes"
	"cmp"
	"crypto/sha1" // the order of room version 1 is defined by it
	"slices"

	"hearth/storage/matrix"
)

// resolverV1 is one run of the state resolution of room version 1.
//
// Where its text leaves the order open in which conflicts of one pass see each
// other, each sees the state as the pass began: no other reading is the same
// on all servers.
type resolverV1 struct {
	src      Source
	resolved StateMap // R
	events   map[matrix.EventID]Stored
	err      error
}

func resolveV1(states []StateMap, src Source) (StateMap, error) {
	r := &resolverV1{src: src, resolved: make(StateMap, len(states[0])), events: make(map[matrix.EventID]Stored)}
	conflicts := r.split(states)
	var ids []matrix.EventID
	for _, list := range conflicts {
		ids = append(ids, list...)
	}
	if err := r.load(ids); err != nil {
		return nil, err
	}
	if err := r.loadAround(ids); err != nil {
		return nil, err
	}
	for _, pass := range []string{matrix.TypePowerLevels, matrix.TypeJoinRules, matrix.TypeMember, ""} {
		r.pass(pass, conflicts)
		if r.err != nil {
			return nil, r.err
		}
	}
	return r.resolved, nil
}

// split begins R with what does not conflict, and returns the rest. A key that
// only some states have is no conflict.
func (r *resolverV1) split(states []StateMap) map[Key][]matrix.EventID {
	conflicts := make(map[Key][]matrix.EventID)
	for _, s := range states {
		for k, id := range s {
			list, conflict := conflicts[k]
			first, seen := r.resolved[k]
			switch {
			case conflict:
				if !slices.Contains(list, id) {
					conflicts[k] = append(list, id)
				}
			case !seen:
				r.resolved[k] = id
			case first != id:
				delete(r.resolved, k)
				conflicts[k] = []matrix.EventID{first, id}
			}
		}
	}
	return conflicts
}

// pass resolves the conflicts of one type, or with "" those of all other types.
func (r *resolverV1) pass(typ string, conflicts map[Key][]matrix.EventID) {
	winners := make(StateMap)
	for k, ids := range conflicts {
		if typ != "" && k.Type != typ {
			continue
		}
		list := r.candidates(ids)
		var winner *matrix.Event
		if typ != "" {
			winner = r.last(k, list)
		} else {
			winner = r.newest(list)
		}
		if winner != nil {
			winners[k] = winner.ID()
		}
		delete(conflicts, k)
	}
	for k, id := range winners {
		r.resolved[k] = id
	}
}

// candidates sorts a conflict's events by ascending depth, then descending
// SHA-1 of their IDs.
func (r *resolverV1) candidates(ids []matrix.EventID) []*matrix.Event {
	type candidate struct {
		ev  *matrix.Event
		sum [sha1.Size]byte
	}
	list := make([]candidate, 0, len(ids))
	for _, id := range ids {
		if s := r.events[id]; s.Standing != RejectedByAuth {
			list = append(list, candidate{s.Event, sha1.Sum([]byte(id))})
		}
	}
	slices.SortFunc(list, func(a, b candidate) int {
		if c := cmp.Compare(a.ev.Depth(), b.ev.Depth()); c != 0 {
			return c
		}
		return bytes.Compare(b.sum[:], a.sum[:])
	})
	events := make([]*matrix.Event, len(list))
	for i := range list {
		events[i] = list[i].ev
	}
	return events
}

// last takes the first event unseen, and each next as long as the one before
// allows it.
func (r *resolverV1) last(k Key, list []*matrix.Event) *matrix.Event {
	if len(list) == 0 {
		return nil
	}
	view := &viewV1{r: r, key: k, ev: list[0]}
	for _, ev := range list[1:] {
		if Authorize(ev, view) != nil {
			break
		}
		view.ev = ev
	}
	return view.ev
}

// newest takes the deepest event that R allows, nil if it allows none.
func (r *resolverV1) newest(list []*matrix.Event) *matrix.Event {
	for _, ev := range slices.Backward(list) {
		if Authorize(ev, &viewV1{r: r}) == nil {
			return ev
		}
	}
	return nil
}

// load reads events of the states; all of them must be there.
func (r *resolverV1) load(ids []matrix.EventID) error {
	var todo []matrix.EventID
	for _, id := range ids {
		if _, ok := r.events[id]; !ok {
			r.events[id] = Stored{}
			todo = append(todo, id)
		}
	}
	if len(todo) == 0 {
		return nil
	}
	g := newGraph(r.src, len(todo))
	g.gens = nil // this algorithm does not ask for them
	list := make([]int32, len(todo))
	for i, id := range todo {
		list[i] = g.number(id)
	}
	if err := g.load(list); err != nil {
		return err
	}
	for _, n := range list {
		r.events[g.nodes[n].id] = Stored{g.nodes[n].ev, g.nodes[n].standing}
	}
	return g.missing(list)
}

// loadAround reads in one batch what R has of what the checks will ask for.
func (r *resolverV1) loadAround(ids []matrix.EventID) error {
	var keys []Key
	var list []matrix.EventID
	for _, id := range ids {
		keys = appendAuthKeys(keys[:0], r.events[id].Event)
		for _, k := range keys {
			if id, ok := r.resolved[k]; ok {
				list = append(list, id)
			}
		}
	}
	return r.load(list)
}

// viewV1 is R with, while a conflict is resolved, the event so far at its key.
type viewV1 struct {
	r   *resolverV1
	key Key
	ev  *matrix.Event
}

// Event implements [AuthState].
func (v *viewV1) Event(typ, stateKey string) *matrix.Event {
	k := Key{typ, stateKey}
	if v.ev != nil && k == v.key {
		return v.ev
	}
	id, ok := v.r.resolved[k]
	if !ok {
		return nil
	}
	if err := v.r.load([]matrix.EventID{id}); err != nil && v.r.err == nil {
		v.r.err = err
	}
	return v.r.events[id].Event
}
