package storage

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

var (
	stateKeyNum  = stmt(`SELECT num FROM state_keys WHERE type = ? AND state_key = ?`)
	addStateKey  = stmt(`INSERT INTO state_keys (type, state_key) VALUES (?, ?)`)
	stateKeysAll = stmt(`SELECT num, type, state_key FROM state_keys WHERE num IN (SELECT value FROM json_each(?)) ORDER BY num`)
	stateKeysOf  = stmt(`SELECT num, type, state_key FROM state_keys WHERE num IN (SELECT value FROM json_each(?)) AND type = ? ORDER BY num`)
)

// stateKey is the number of a key of state; ErrNotFound: no room has had it.
func (r *Rx) stateKey(typ, key string) (num int64, err error) {
	return num, r.row(stateKeyNum, []any{typ, key}, &num)
}

// intern turns entries into numbers, sorted by key, and gives a number to each
// key that has none; of several entries with one key the last stays.
func (t *Tx) intern(state []StateKeyed) ([]stateEntry, error) {
	entries := make([]stateEntry, 0, len(state))
	for _, s := range lastOfEach(state) {
		num, err := t.stateKey(s.Type, s.StateKey)
		if errors.Is(err, ErrNotFound) {
			if s.Event == 0 {
				continue // a key without a delta that names it would stay for ever
			}
			num, err = t.insert(addStateKey, s.Type, s.StateKey)
		}
		if err != nil {
			return nil, fmt.Errorf("state key: %w", err)
		}
		entries = append(entries, stateEntry{num, s.Event})
	}
	slices.SortFunc(entries, func(a, b stateEntry) int { return cmp.Compare(a.key, b.key) })
	return entries, nil
}

// lastOfEach leaves out all but the last entry of each key.
func lastOfEach(state []StateKeyed) []StateKeyed {
	if len(state) < 2 {
		return state
	}
	last := make(map[StateKey]int, len(state))
	for i, s := range state {
		last[StateKey{s.Type, s.StateKey}] = i
	}
	if len(last) == len(state) {
		return state
	}
	var out []StateKeyed
	for i, s := range state {
		if last[StateKey{s.Type, s.StateKey}] == i {
			out = append(out, s)
		}
	}
	return out
}

// named turns numbers back into entries. The numbers are sorted by key.
func (r *Rx) named(entries []stateEntry) ([]StateKeyed, error) {
	return r.namedBy(stateKeysAll, entries)
}

// namedBy is named for those that a query finds.
func (r *Rx) namedBy(q *statement, entries []stateEntry, args ...any) ([]StateKeyed, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	nums := make([]int64, len(entries))
	for i, e := range entries {
		nums[i] = e.key
	}
	rows, err := r.query(q, append([]any{numbers(nums)}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("state keys: %w", err)
	}
	defer rows.Close()
	var out []StateKeyed
	for rows.Next() {
		var num int64
		s := StateKeyed{}
		if err := rows.Scan(&num, &s.Type, &s.StateKey); err != nil {
			return nil, fmt.Errorf("state keys: %w", err)
		}
		for len(entries) > 0 && entries[0].key < num {
			entries = entries[1:] // of another type, or removed and forgotten since
		}
		s.Event = entries[0].event
		out = append(out, s)
	}
	return out, rows.Err()
}
