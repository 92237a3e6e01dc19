package storage

import (
	"errors"
	"fmt"
)

// StateKeyed is one entry of a room's state: the event that set this type and
// state key. As a change, Event 0 removes the entry.
type StateKeyed struct {
	Type, StateKey string
	Event          EventNum
}

// StateKey names an entry of a room's state.
type StateKey struct{ Type, StateKey string }

var errNoState = errors.New("storage: no such state")

// State lists a whole state, in an order that has no meaning but does not
// change. StateNum 0 is the empty state.
func (r *Rx) State(s StateNum) ([]StateKeyed, error) {
	entries, err := r.wholeState(s)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return r.named(entries)
}

// StateNums is State without the keys: only which events, in the same order.
// It saves a look-up per entry.
func (r *Rx) StateNums(s StateNum) ([]EventNum, error) {
	entries, err := r.wholeState(s)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	nums := make([]EventNum, len(entries))
	for i, e := range entries {
		nums[i] = e.event
	}
	return nums, nil
}

// wholeState rebuilds a state, sorted by key.
func (r *Rx) wholeState(s StateNum) ([]stateEntry, error) {
	c, err := r.wholeChain(s)
	if err != nil {
		return nil, err
	}
	return c.state()
}

// StateEvent finds the event of one key in a state. [ErrNotFound]: it has none.
func (r *Rx) StateEvent(s StateNum, typ, stateKey string) (EventNum, error) {
	event, err := r.stateEvent(s, typ, stateKey)
	if err == nil && event == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("state event: %w", err)
	}
	return event, nil
}

func (r *Rx) stateEvent(s StateNum, typ, stateKey string) (event EventNum, err error) {
	key, err := r.stateKey(typ, stateKey)
	if err != nil {
		return 0, err
	}
	return event, r.eachHop(s, func(snap stateSnapshot) (bool, error) {
		e, found, err := findInDelta(snap.delta, key)
		event = e
		return !found, err
	})
}

// StateEvents finds the events of several keys in a state, in the order of
// keys: 0 where it has none.
func (r *Rx) StateEvents(s StateNum, keys ...StateKey) ([]EventNum, error) {
	out := make([]EventNum, len(keys))
	var want []stateEntry
	nums := make([]int64, len(keys))
	for i, k := range keys {
		num, err := r.stateKey(k.Type, k.StateKey)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("state events: %w", err)
		}
		nums[i] = num
		want = append(want, stateEntry{key: num})
	}
	want = sortedEntries(want)
	c, err := r.wholeChain(s)
	if err != nil {
		return nil, fmt.Errorf("state events: %w", err)
	}
	got, err := c.values(want, 0)
	if err != nil {
		return nil, fmt.Errorf("state events: %w", err)
	}
	for i, num := range nums {
		if at, found := searchEntries(want, num); found {
			out[i] = got[at]
		}
	}
	return out, nil
}

// StateOfType lists the entries of one type, in an order that has no meaning
// but does not change.
func (r *Rx) StateOfType(s StateNum, typ string) ([]StateKeyed, error) {
	entries, err := r.wholeState(s)
	if err != nil {
		return nil, fmt.Errorf("state of a type: %w", err)
	}
	return r.namedBy(stateKeysOf, entries, typ)
}

// StateDiff lists the keys whose events differ between two states of a room,
// with what b has: Event 0 where b has none. It costs what lies between the
// two and the ancestor they share.
func (r *Rx) StateDiff(a, b StateNum) ([]StateKeyed, error) {
	diff, err := r.diffStates(a, b)
	if err != nil {
		return nil, fmt.Errorf("state difference: %w", err)
	}
	return r.named(diff)
}

func (r *Rx) diffStates(a, b StateNum) ([]stateEntry, error) {
	ca, cb := r.chain(a), r.chain(b)
	i, j := 0, 0
	for {
		ha, err := ca.hop(i)
		if err != nil {
			return nil, err
		}
		hb, err := cb.hop(j)
		if err != nil {
			return nil, err
		}
		if ha.num == hb.num {
			break // the same ancestor, or both reached the empty state
		}
		if ha.num != 0 && (hb.num == 0 || ha.depth >= hb.depth) {
			i++
		} else {
			j++
		}
	}
	was := func(key int64) (EventNum, error) {
		v, err := ca.values([]stateEntry{{key: key}}, i)
		if err != nil {
			return 0, err
		}
		return v[0], nil
	}
	fromA, err := ca.upTo(i)
	if err != nil {
		return nil, err
	}
	fromB, err := cb.upTo(j)
	if err != nil {
		return nil, err
	}
	return diffEntries(fromA, fromB, was)
}
