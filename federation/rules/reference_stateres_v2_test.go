package rules_test

import (
	"math/big"
	"sort"
)

// refSet is a set of events by ID.
type refSet map[string]*refEvent

func (s refSet) add(other refSet) {
	for id, e := range other {
		s[id] = e
	}
}

// authChain is the set of all of an event's auth events, all of theirs, and so on.
// It is remembered: the number of paths doubles with every few events.
func (r *refRoom) authChain(e *refEvent) refSet {
	if chain, ok := r.chains[e.id]; ok {
		return chain
	}
	chain := refSet{}
	for _, id := range e.refs("auth_events") {
		a := r.events[id]
		chain[id] = a
		chain.add(r.authChain(a))
	}
	r.chains[e.id] = chain
	return chain
}

// resolveV2: Room Version 2, "State resolution", and Room Version 12's changes.
func (r *refRoom) resolveV2(states []refState, v21 bool) refState {
	unconflicted, conflicted := refSplit(states)

	// Full conflicted set: the conflicted state set, the auth difference and, from
	// version 12 on, the conflicted state subgraph.
	full := refSet{}
	full.add(conflicted)
	full.add(r.authDifference(states))
	if v21 {
		full.add(r.conflictedSubgraph(conflicted))
	}

	// 1. Select the set X of all power events in the full conflicted set. For each
	// enlarge X by adding the events in its auth chain which also belong to that set.
	x := refSet{}
	for id, e := range full {
		if !refIsPowerEvent(e) {
			continue
		}
		x[id] = e
		for id, a := range r.authChain(e) {
			if full[id] != nil {
				x[id] = a
			}
		}
	}
	// 2. Iterative auth checks from the unconflicted state map (v12: from an empty one).
	start := unconflicted
	if v21 {
		start = refState{}
	}
	partial := r.iterativeAuthChecks(start, r.reverseTopologicalPowerOrder(x))

	// 3. Take all remaining events and order them by the mainline ordering.
	var rest []*refEvent
	for id, e := range full {
		if x[id] == nil {
			rest = append(rest, e)
		}
	}
	r.sortMainline(rest, partial[refKey{"m.room.power_levels", ""}])

	// 4. Iterative auth checks on the partially resolved state and that list.
	result := r.iterativeAuthChecks(partial, rest)

	// 5. Replace any event with the one of the same key from the unconflicted state map.
	for k, e := range unconflicted {
		result[k] = e
	}
	return result
}

// refSplit: "Unconflicted state map and conflicted state set".
func refSplit(states []refState) (refState, refSet) {
	unconflicted, conflicted := refState{}, refSet{}
	for _, k := range refSortedKeys(states...) {
		everywhere := true
		for _, s := range states {
			if s[k] == nil || s[k].id != refCandidates(states, k)[0].id {
				everywhere = false
			}
		}
		for _, e := range refCandidates(states, k) {
			if everywhere {
				unconflicted[k] = e
			} else {
				conflicted[e.id] = e
			}
		}
	}
	return unconflicted, conflicted
}

// authDifference is the union of the states' full auth chains minus their intersection.
func (r *refRoom) authDifference(states []refState) refSet {
	union := refSet{}
	var chains []refSet
	for _, s := range states {
		chain := refSet{}
		for _, e := range s {
			chain.add(r.authChain(e))
		}
		chains = append(chains, chain)
		union.add(chain)
	}
	out := refSet{}
	for id, e := range union {
		for _, chain := range chains {
			if chain[id] == nil {
				out[id] = e
			}
		}
	}
	return out
}

// conflictedSubgraph is the union of all auth_events paths between any two events of
// the conflicted state set: what one of them reaches and what reaches another.
func (r *refRoom) conflictedSubgraph(conflicted refSet) refSet {
	out := refSet{}
	for _, from := range conflicted {
		for id, between := range r.authChain(from) {
			for to := range conflicted {
				if id == to || r.authChain(between)[to] != nil {
					out[id] = between
					out[from.id] = from
				}
			}
		}
	}
	return out
}

// refIsPowerEvent: "Power events".
func refIsPowerEvent(e *refEvent) bool {
	stateKey, isState := e.stateKey()
	if !isState {
		return false
	}
	switch e.typ() {
	case "m.room.power_levels", "m.room.join_rules":
		return true
	case "m.room.member":
		m := e.text("membership")
		return (m == "leave" || m == "ban") && e.sender() != stateKey
	}
	return false
}

// reverseTopologicalPowerOrder sorts by Kahn's algorithm: what an event's auth chain
// holds comes before it, and of all candidates the smallest comes next.
func (r *refRoom) reverseTopologicalPowerOrder(x refSet) []*refEvent {
	var order []*refEvent
	left := refSet{}
	left.add(x)
	for len(left) > 0 {
		var next *refEvent
		for _, e := range left {
			ready := true
			for id := range r.authChain(e) {
				if left[id] != nil {
					ready = false
				}
			}
			if ready && (next == nil || r.powerLess(e, next)) {
				next = e
			}
		}
		order = append(order, next)
		delete(left, next.id)
	}
	return order
}

// powerLess is the comparison relation of the reverse topological power ordering.
func (r *refRoom) powerLess(x, y *refEvent) bool {
	if c := r.senderPowerAt(x).Cmp(r.senderPowerAt(y)); c != 0 {
		return c > 0 // 1. greater power level
	}
	if a, b := x.num("origin_server_ts"), y.num("origin_server_ts"); a != b {
		return a < b // 2. less origin_server_ts
	}
	return x.id < y.id // 3. less event_id
}

// senderPowerAt is the sender's power level when looking at the event's auth_events.
func (r *refRoom) senderPowerAt(e *refEvent) *big.Int {
	return r.powerOf(e, e.sender(), r.stateOfAuthEvents(e))
}

// powerLevelsOf is the m.room.power_levels event in the auth_events of an event.
func (r *refRoom) powerLevelsOf(e *refEvent) *refEvent {
	return r.stateOfAuthEvents(e)[refKey{"m.room.power_levels", ""}]
}

// sortMainline orders by the mainline ordering based on P.
func (r *refRoom) sortMainline(events []*refEvent, p *refEvent) {
	mainline := map[string]int{}
	for i := 0; p != nil; i++ {
		mainline[p.id] = i
		p = r.powerLevelsOf(p)
	}
	const infinity = 1 << 30
	position := func(e *refEvent) int {
		for e = r.powerLevelsOf(e); e != nil; e = r.powerLevelsOf(e) {
			if i, ok := mainline[e.id]; ok {
				return i
			}
		}
		return infinity
	}
	sort.Slice(events, func(i, j int) bool {
		x, y := events[i], events[j]
		if a, b := position(x), position(y); a != b {
			return a > b // 1. greater mainline position
		}
		if a, b := x.num("origin_server_ts"), y.num("origin_server_ts"); a != b {
			return a < b // 2. less origin_server_ts
		}
		return x.id < y.id // 3. less event_id
	})
}

// iterativeAuthChecks: "Iterative auth checks".
func (r *refRoom) iterativeAuthChecks(start refState, events []*refEvent) refState {
	state := refCopyState(start)
	for _, e := range events {
		if _, isState := e.stateKey(); !isState {
			continue // "a sorted list of state events": see TestSettledMessageInAuthChain
		}
		// If a key that is required for checking is not present in the state, the
		// event's own auth event is used unless it is rejected.
		view := refCopyState(state)
		for _, id := range e.refs("auth_events") {
			a := r.events[id]
			if view[a.key()] == nil && !a.rejected {
				view[a.key()] = a
			}
		}
		if r.ruleState(e, view) == "" {
			state[e.key()] = e
		}
	}
	return state
}
