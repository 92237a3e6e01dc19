package rules

import "hearth/storage/matrix"

// apply is the iterative auth checks algorithm: events that the rules allow in
// the state so far enter it, in order. Room Version 2, "Iterative auth checks".
//
// auth_events are not judged again: an event whose auth_events break the rules
// was rejected on receipt, and such events are not here.
func (r *resolver) apply(order []int32) error {
	if err := r.loadUnconflicted(order); err != nil {
		return err
	}
	view := &eventView{r: r}
	for _, n := range order {
		view.node = n
		ev := r.g.nodes[n].ev
		err := Authorize(ev, view)
		if r.err != nil {
			return r.err
		}
		if err == nil {
			key, _ := ev.StateKey()
			r.state[Key{ev.Type(), key}] = n
		}
	}
	return nil
}

// loadUnconflicted reads in one batch what the checks will ask of the
// unconflicted state. (v2.1 begins from an empty state.)
func (r *resolver) loadUnconflicted(order []int32) error {
	if r.version.StateRes == matrix.StateResV2_1 {
		return nil
	}
	var list []int32
	var keys []Key
	for _, n := range order {
		keys = appendAuthKeys(keys[:0], r.g.nodes[n].ev)
		for _, k := range keys {
			if n, ok := r.unconflicted[k]; ok && !r.g.nodes[n].is.has(loaded) {
				list = append(list, n)
			}
		}
	}
	if err := r.g.load(list); err != nil {
		return err
	}
	return r.g.missing(list)
}

// lookup finds an entry of the partially resolved state.
func (r *resolver) lookup(k Key) (int32, bool) {
	n, ok := r.state[k]
	if !ok && r.version.StateRes != matrix.StateResV2_1 {
		n, ok = r.unconflicted[k]
	}
	return n, ok
}

// eventView is the partially resolved state as one event is checked against
// it: what the state lacks comes from the event's own auth events, if they
// were not rejected.
type eventView struct {
	r    *resolver
	node int32
}

// Event implements [AuthState].
func (v *eventView) Event(typ, stateKey string) *matrix.Event {
	r := v.r
	if n, ok := r.lookup(Key{typ, stateKey}); ok {
		if !r.g.nodes[n].is.has(loaded) && r.err == nil {
			r.err = r.g.load([]int32{n})
		}
		return r.g.nodes[n].ev
	}
	for _, a := range r.g.auth(v.node) {
		node := &r.g.nodes[a]
		if node.ev != nil && node.standing == Accepted && node.ev.IsState(typ, stateKey) {
			return node.ev
		}
	}
	if typ == matrix.TypeCreate && stateKey == "" {
		return r.create // nil where it is an auth event like others
	}
	return nil
}
