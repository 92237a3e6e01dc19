package rules_test

import (
	"fmt"
	"slices"
	"strings"
)

// graphStats counts what graphs held, to show that they are worth comparing.
type graphStats struct {
	graphs, events, refused, byAuthOnly, byStateOnly int
	merges, resolutions, contested                   int
	conflicts, decided                               int
	rules, accepted                                  map[string]int
}

func (s *graphStats) add(g *graph) {
	if s.rules == nil {
		s.rules, s.accepted = map[string]int{}, map[string]int{}
	}
	s.graphs++
	for _, e := range g.order {
		s.events++
		if len(e.refs("prev_events")) > 1 {
			s.merges++
		}
		state, auth := g.byState[e.id], g.byAuth[e.id]
		if e.rejected {
			s.refused++
		} else {
			s.accepted[strings.TrimSpace(e.typ()+" "+e.text("membership"))]++
		}
		switch {
		case state == "" && auth != "":
			s.byAuthOnly++
		case state != "" && auth == "":
			s.byStateOnly++
		}
		s.rules[strings.TrimSpace(fmt.Sprint(g.version, " ", state))]++
	}
	for _, r := range g.resolve {
		s.resolutions++
		n := len(refConflictKeys(r.states))
		s.conflicts += n
		if n > 0 {
			s.contested++
		}
		if !slices.ContainsFunc(r.states, func(st refState) bool { return refSameState(st, r.want) }) {
			s.decided++
		}
	}
}

func refConflictKeys(states []refState) []refKey {
	var keys []refKey
	for _, k := range refSortedKeys(states...) {
		for _, s := range states {
			if s[k] != states[0][k] {
				keys = append(keys, k)
				break
			}
		}
	}
	return keys
}

func refSameState(a, b refState) bool {
	if len(a) != len(b) {
		return false
	}
	for k, e := range a {
		if b[k] != e {
			return false
		}
	}
	return true
}
