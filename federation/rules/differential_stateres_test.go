package rules_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"hearth/federation/rules"
	"hearth/storage/matrix"
)

// Events implements rules.Source.
func (p *production) Events(ids []matrix.EventID) ([]rules.Stored, error) {
	var out []rules.Stored
	for _, id := range ids {
		out = append(out, p.stored(string(id)))
	}
	return out, nil
}

// indexed is a Source that knows how deep each event lies in its auth chain.
type indexed struct{ *production }

// Generations implements rules.Generations: an auth chain is larger than those of
// the events in it.
func (p indexed) Generations(ids []matrix.EventID) ([]int64, error) {
	var out []int64
	for _, id := range ids {
		n := int64(0)
		if e := p.g.room.events[string(id)]; e != nil {
			n = int64(len(p.g.room.authChain(e))) + 1
		}
		out = append(out, n)
	}
	return out, nil
}

// compareResolutions resolves every set of states the graph came by, with and
// without an index, in the order given and in another.
func (d *differences) compareResolutions(g *graph, events map[string]*matrix.Event) {
	p := &production{g, events}
	shuffle := rand.New(rand.NewPCG(g.seed, 1))
	for i, r := range g.resolve {
		var states []rules.StateMap
		for _, s := range r.states {
			m := rules.StateMap{}
			for k, e := range s {
				m[rules.Key{Type: k.typ, StateKey: k.stateKey}] = matrix.EventID(e.id)
			}
			states = append(states, m)
		}
		about := fmt.Sprint("resolution ", i)
		want := describe(refIDs(r.want), r.want)
		for _, src := range []rules.Source{p, indexed{p}} {
			got, err := rules.Resolve(versionOf(g.version), states, src)
			ids := map[refKey]string{}
			for k, id := range got {
				ids[refKey{k.Type, k.StateKey}] = string(id)
			}
			about := fmt.Sprintf("%s with %T", about, src)
			if d.same("resolution fails", g, about, err, error(nil)) {
				d.same("resolved state", g, about, describe(ids, r.want), want)
			}
			shuffle.Shuffle(len(states), func(i, j int) { states[i], states[j] = states[j], states[i] })
		}
	}
}

func refIDs(s refState) map[refKey]string {
	ids := map[refKey]string{}
	for k, e := range s {
		ids[k] = e.id
	}
	return ids
}

// describe lists only what differs from the expected state; equal states are "".
func describe(ids map[refKey]string, want refState) string {
	var out []string
	for _, k := range refSortedKeys(want) {
		if ids[k] != want[k].id {
			out = append(out, fmt.Sprint(k, " is ", ids[k], ", not ", want[k].id))
		}
	}
	for k, id := range ids {
		if want[k] == nil {
			out = append(out, fmt.Sprint(k, " is ", id, ", not absent"))
		}
	}
	return strings.Join(out, "; ")
}
