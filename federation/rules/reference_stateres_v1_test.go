package rules_test

import (
	"bytes"
	"crypto/sha1"
	"sort"
)

// resolve applies the state resolution algorithm of the room version.
func (r *refRoom) resolve(states []refState) refState {
	switch {
	case r.version == 1:
		return r.resolveV1(states)
	case r.version <= 11:
		return r.resolveV2(states, false)
	}
	return r.resolveV2(states, true)
}

// after is S'(E): S(E), with E's own entry replaced if E is an accepted state event.
func (r *refRoom) after(e *refEvent, before refState) refState {
	out := refCopyState(before)
	if _, isState := e.stateKey(); isState && !e.rejected {
		out[e.key()] = e
	}
	return out
}

func refCopyState(s refState) refState {
	out := refState{}
	for k, v := range s {
		out[k] = v
	}
	return out
}

// refSortedKeys lists all keys of some states in a fixed order.
func refSortedKeys(states ...refState) []refKey {
	seen := map[refKey]bool{}
	var keys []refKey
	for _, s := range states {
		for k := range s {
			if !seen[k] {
				seen[k] = true
				keys = append(keys, k)
			}
		}
	}
	sort.Slice(keys, func(i, j int) bool {
		if keys[i].typ != keys[j].typ {
			return keys[i].typ < keys[j].typ
		}
		return keys[i].stateKey < keys[j].stateKey
	})
	return keys
}

// refCandidates lists the distinct events that some states have for a key.
func refCandidates(states []refState, key refKey) []*refEvent {
	var out []*refEvent
	seen := map[string]bool{}
	for _, s := range states {
		if e := s[key]; e != nil && !seen[e.id] {
			seen[e.id] = true
			out = append(out, e)
		}
	}
	return out
}

// resolveV1: Room Version 1, "State resolution".
//
// A conflict is between different event IDs for one key; a key that only some
// states have is none. The text does not say in which order two members' conflicts
// are resolved, nor whether the one sees the other's result: see TestSettledV1Members.
func (r *refRoom) resolveV1(states []refState) refState {
	// Start by setting R to the union of the states, excluding any conflicting events.
	result := refState{}
	conflicts := map[refKey][]*refEvent{}
	keys := refSortedKeys(states...)
	for _, k := range keys {
		if events := refCandidates(states, k); len(events) == 1 {
			result[k] = events[0]
		} else {
			conflicts[k] = events
		}
	}
	// First m.room.power_levels, then m.room.join_rules, then m.room.member.
	for _, typ := range []string{"m.room.power_levels", "m.room.join_rules", "m.room.member"} {
		pass := refCopyState(result)
		for _, k := range keys {
			if conflicts[k] != nil && k.typ == typ {
				result[k] = r.resolveV1Auth(conflicts[k], pass)
				delete(conflicts, k)
			}
		}
	}
	// For all other conflicts, pick the event with the highest depth and lowest
	// sha1(event_id) that passes authentication in R.
	pass := refCopyState(result)
	for _, k := range keys {
		events := conflicts[k]
		refSortV1(events)
		for i := len(events) - 1; i >= 0; i-- {
			if r.ruleState(events[i], pass) == "" {
				result[k] = events[i]
				break
			}
		}
	}
	return result
}

// resolveV1Auth adds the first event to R, then each next one while R allows it.
func (r *refRoom) resolveV1Auth(events []*refEvent, base refState) *refEvent {
	state := refCopyState(base)
	refSortV1(events)
	best := events[0]
	for _, e := range events[1:] {
		state[e.key()] = best
		if r.ruleState(e, state) != "" {
			break
		}
		best = e
	}
	return best
}

// refSortV1 sorts by ascending depth, then descending sha1(event_id).
func refSortV1(events []*refEvent) {
	sort.Slice(events, func(i, j int) bool {
		a, b := events[i], events[j]
		if a.num("depth") != b.num("depth") {
			return a.num("depth") < b.num("depth")
		}
		x, y := sha1.Sum([]byte(a.id)), sha1.Sum([]byte(b.id))
		return bytes.Compare(x[:], y[:]) > 0
	})
}
