package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hearth/storage/matrix"
)

// tangle is a random graph of auth events, and random states of its events.
// Nothing of it would pass any rule: it is about sets and paths only.
func tangle(t *rapid.T) (*room, []StateMap) {
	r := newRoom(t, "11")
	n := rapid.IntRange(1, 40).Draw(t, "events")
	for i := range n {
		var auth []string
		for range rapid.IntRange(0, min(i, 4)).Draw(t, "links") {
			auth = append(auth, fmt.Sprint("e", rapid.IntRange(0, i-1).Draw(t, "to")))
		}
		key := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))
		r.add(pdu{id: fmt.Sprint("e", i), typ: "x", key: key, sender: alice, content: `{}`, auth: strings.Join(auth, " ")})
	}
	states := make([]StateMap, rapid.IntRange(2, 4).Draw(t, "states"))
	for i := range states {
		states[i] = make(StateMap)
		if i > 0 && rapid.Bool().Draw(t, "alike") {
			states[i] = maps.Clone(states[0])
		}
		for range rapid.IntRange(1, 10).Draw(t, "entries") {
			maps.Copy(states[i], r.state(fmt.Sprint("e", rapid.IntRange(0, n-1).Draw(t, "entry"))))
		}
	}
	return r, states
}

type idSet map[matrix.EventID]bool

// chain is the auth chains of ids, without them unless they are in one.
func (r *room) chain(ids idSet) idSet {
	set := make(idSet)
	var visit func(matrix.EventID)
	visit = func(id matrix.EventID) {
		for _, a := range r.stored[id].Event.AuthEvents() {
			if !set[a] {
				set[a] = true
				visit(a)
			}
		}
	}
	for id := range ids {
		visit(id)
	}
	return set
}

func ids(s StateMap) idSet {
	set := make(idSet)
	for _, id := range s {
		set[id] = true
	}
	return set
}

// plainDifference is the auth difference as it is defined.
func plainDifference(r *room, states []StateMap) idSet {
	count := make(map[matrix.EventID]int)
	for _, s := range states {
		for id := range r.chain(ids(s)) {
			count[id]++
		}
	}
	set := make(idSet)
	for id, n := range count {
		if n < len(states) {
			set[id] = true
		}
	}
	return set
}

// plainSubgraph is the conflicted state subgraph as it is defined: an event is
// in it that a conflicted event reaches (or is) and that reaches one (or is).
func plainSubgraph(r *room, conflicted idSet) idSet {
	set := maps.Clone(conflicted)
	for id := range r.chain(conflicted) {
		for below := range r.chain(idSet{id: true}) {
			if conflicted[below] {
				set[id] = true
			}
		}
	}
	return set
}

func (g *graph) idsOf(list []int32) idSet {
	set := make(idSet)
	for _, n := range list {
		set[g.nodes[n].id] = true
	}
	return set
}

// TestGraphSets compares the auth difference and the conflicted state subgraph
// with their definitions, with stored generations and without.
func TestGraphSets(t *testing.T) {
	property(t, func(t *rapid.T) {
		r, states := tangle(t)
		wantDifference := plainDifference(r, states)
		for _, src := range []Source{r, r.indexed()} {
			rs := newResolver(r.version, src)
			d, err := rs.split(states)
			if err != nil {
				t.Fatal(err)
			}
			list, err := d.find(rs.unconflicted)
			if err != nil {
				t.Fatal(err)
			}
			if got := rs.g.idsOf(list); !maps.Equal(got, wantDifference) || len(list) != len(got) {
				t.Fatalf("%T: auth difference %v, want %v", src, got, wantDifference)
			}
			want := plainSubgraph(r, rs.g.idsOf(rs.conflicted))
			list, err = rs.subgraph()
			if err != nil {
				t.Fatal(err)
			}
			if got := rs.g.idsOf(list); !maps.Equal(got, want) || len(list) != len(got) {
				t.Fatalf("%T: subgraph %v, want %v", src, got, want)
			}
		}
	})
}

// TestPowerOrder compares the order with the definition of a topological order
// that is lexicographically smallest: at each step the smallest event of which
// no other that is left is in the auth chain.
func TestPowerOrder(t *testing.T) {
	property(t, func(t *rapid.T) {
		r, states := tangle(t)
		rs := newResolver(r.version, r.indexed())
		if err := rs.findFullConflictedSet(states); err != nil {
			t.Fatal(err)
		}
		p := &powerSet{}
		var err error
		if p.around, err = rs.g.reach(rs.full, rs.g.lowest(rs.full)); err != nil {
			t.Fatal(err)
		}
		left := make(idSet)
		for _, n := range rs.full {
			if rapid.IntRange(0, 2).Draw(t, "out") > 0 {
				p.chosen.add(n)
				left[rs.g.nodes[n].id] = true
			}
		}
		for _, n := range rs.powerOrder(p) {
			best := matrix.EventID("")
			for id := range left {
				below := r.chain(idSet{id: true})
				free := !slices.ContainsFunc(slices.Collect(maps.Keys(left)), func(o matrix.EventID) bool { return below[o] })
				if free && (best == "" || r.stored[id].Event.OriginServerTS() < r.stored[best].Event.OriginServerTS()) {
					best = id
				}
			}
			if got := rs.g.nodes[n].id; got != best {
				t.Fatalf("got %s, want %s", got, best)
			}
			delete(left, best)
		}
		if len(left) > 0 {
			t.Fatalf("not placed: %v", left)
		}
	})
}

// TestQueue wants the least first, whatever the order of pushing.
func TestQueue(t *testing.T) {
	property(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.Int()).Draw(t, "items")
		q := queue[int]{less: func(a, b int) bool { return a < b }}
		for _, x := range want {
			q.push(x)
		}
		slices.Sort(want)
		for i, want := range want {
			if got := q.pop(); got != want {
				t.Fatalf("item %d: got %d, want %d", i, got, want)
			}
		}
	})
}

// lying gives generations that do not follow from the links.
type lying struct{ *room }

func (l lying) Generations(ids []matrix.EventID) ([]int64, error) {
	list := make([]int64, len(ids))
	for i, id := range ids {
		list[i] = int64(len(id)*7%5) + 1
	}
	return list, nil
}

// TestWrongGenerations wants an end, whatever comes out.
func TestWrongGenerations(t *testing.T) {
	property(t, func(t *rapid.T) {
		s := simulate(t, anyVersion(t))
		got, err := Resolve(s.version, s.some(t), lying{s.room})
		if err == nil && got == nil {
			t.Fatal("neither a state nor an error")
		}
	})
	r := newRoom(t, "2") // power levels in a circle
	r.add(baseState(r)...)
	for _, p := range []pdu{
		{id: "x:a.test", typ: "m.room.power_levels", sender: alice, content: r.levels(""), auth: "y:a.test"},
		{id: "y:a.test", typ: "m.room.power_levels", sender: alice, content: r.levels(""), auth: "x:a.test"},
		{id: "t:a.test", typ: "m.room.topic", sender: alice, content: `{}`, auth: "x:a.test"},
		{id: "u:a.test", typ: "m.room.topic", sender: alice, content: `{}`, auth: "y:a.test"},
	} {
		r.add(p)
	}
	states := []StateMap{r.state("create alice levels t:a.test"), r.state("create alice levels u:a.test")}
	if _, err := Resolve(r.version, states, lying{r}); err != nil && !strings.Contains(err.Error(), "cycle") {
		t.Error(err)
	}
}
