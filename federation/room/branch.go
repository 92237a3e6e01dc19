package room

import (
	"errors"
	"slices"

	"hearth/federation/rules"
	"hearth/storage"
)

// branch is the state after an event: a stored one, and what the event itself
// changes. It is comparable, but one state may be written as two branches.
type branch struct {
	base   storage.StateNum
	change storage.StateKeyed // zero: none
}

// branchOf is the state after a stored event.
func branchOf(ev storage.Event) branch {
	b := branch{base: ev.StateBefore}
	if key, isState := ev.StateKey(); isState && ev.Standing == uint8(rules.Accepted) {
		b.change = storage.StateKeyed{Type: ev.Type(), StateKey: key, Event: ev.Num}
	}
	return b
}

// branches lists the states after events, each once, in an order that depends
// on the states only.
func branches(events []storage.Event) []branch {
	list := make([]branch, 0, len(events))
	for _, ev := range events {
		if b := branchOf(ev); !slices.Contains(list, b) {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(a, b branch) int {
		if a.base != b.base {
			return int(a.base - b.base)
		}
		return int(a.change.Event - b.change.Event)
	})
	return list
}

// find is the event at a key; 0: none.
func (b branch) find(rx *storage.Rx, typ, stateKey string) (storage.EventNum, error) {
	if b.change.Event != 0 && b.change.Type == typ && b.change.StateKey == stateKey {
		return b.change.Event, nil
	}
	num, err := rx.StateEvent(b.base, typ, stateKey)
	if errors.Is(err, storage.ErrNotFound) {
		return 0, nil
	}
	return num, err
}

// distinct drops branches that are the same state as another one.
func distinct(rx *storage.Rx, list []branch) ([]branch, error) {
	var out []branch
	for _, b := range list {
		known := false
		for _, o := range out {
			same, err := sameState(rx, o, b)
			if err != nil {
				return nil, err
			}
			known = known || same
		}
		if !known {
			out = append(out, b)
		}
	}
	return out, nil
}

// sameState tells whether two branches are one state. Stored states of the
// same content have the same number, so only the changes can hide it.
func sameState(rx *storage.Rx, a, b branch) (bool, error) {
	if a == b {
		return true, nil
	}
	if a.base == b.base && (a.change.Event == 0) != (b.change.Event == 0) {
		return false, nil
	}
	diff, err := rx.StateDiff(a.base, b.base)
	if err != nil || len(diff) > 2 {
		return false, err
	}
	for _, k := range append(diff, a.change, b.change) {
		if k.Type == "" {
			continue
		}
		inA, err := a.find(rx, k.Type, k.StateKey)
		if err != nil {
			return false, err
		}
		inB, err := b.find(rx, k.Type, k.StateKey)
		if err != nil || inA != inB {
			return false, err
		}
	}
	return true, nil
}
