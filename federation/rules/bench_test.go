package rules

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"hearth/storage/matrix"
)

// crowd is a room of n members who all changed something in each of two
// branches: two states with 2 × n events in conflict.
func crowd(tb testing.TB, version matrix.RoomVersion, n int) (*room, []StateMap) {
	tb.Helper()
	r := newRoom(tb, version)
	base := baseState(r)
	create := "create "
	if r.version.RoomIDFromCreate {
		create = ""
	}
	base[1].auth, base[1].prev = strings.TrimSpace(create), "create"
	base[2].auth, base[3].auth = create+"alice", create+"alice levels"
	base[3].content = joinRule("public")
	r.add(base[:4]...)
	states := []StateMap{r.state("create alice levels rules"), r.state("create alice levels rules")}
	for i := range n {
		user := fmt.Sprintf("@user%d:%c.test", i, "abce"[i%4])
		first := pdu{id: fmt.Sprintf("j%d", i), typ: "m.room.member", key: user, sender: user, content: member("join"), auth: create + "levels rules"}
		r.add(first)
		for b, branch := range states {
			p := first
			p.id, p.auth = fmt.Sprintf("b%d-%d", b, i), first.auth+" "+first.id
			p.content = fmt.Sprintf(`{"displayname":"%d","membership":"join"}`, b)
			if i%20 == 0 && b == 1 {
				p.sender, p.content, p.auth = alice, member("ban"), create+"levels alice "+first.id
			}
			r.add(p)
			branch[Key{p.typ, p.key}] = r.find(p.id)
		}
	}
	return r, states
}

func must(tb testing.TB) func(StateMap, error) StateMap {
	return func(s StateMap, err error) StateMap {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return s
	}
}

// BenchmarkResolve resolves 2 × n conflicted members.
func BenchmarkResolve(b *testing.B) {
	for _, version := range []matrix.RoomVersion{"1", "11", "12"} {
		for _, n := range []int{1000, 5000, 10000} {
			b.Run(fmt.Sprintf("v%s/2x%d", version, n), func(b *testing.B) {
				r, states := crowd(b, version, n)
				src := r.indexed()
				b.ReportAllocs()
				for b.Loop() {
					must(b)(Resolve(r.version, states, src))
				}
			})
		}
	}
}

// BenchmarkResolveGrowth reports by what factor the time of a resolution grows
// from 5,000 to 10,000 conflicted members, both measured in turn. Each begins
// with other data in the processor's caches, as in a server; without that the
// smaller room stays in them from one round to the next, the larger does not
// fit, and the factor tells of the processor and not of the work.
func BenchmarkResolveGrowth(b *testing.B) {
	for _, version := range []matrix.RoomVersion{"11", "12"} {
		b.Run("v"+string(version), func(b *testing.B) {
			small, smallStates := crowd(b, version, 5000)
			large, largeStates := crowd(b, version, 10000)
			smallSource, largeSource := small.indexed(), large.indexed()
			other := make([]byte, 256<<20)
			best := func(best *time.Duration, run func()) {
				for i := 0; i < len(other); i += 64 {
					other[i]++
				}
				begin := time.Now()
				run()
				if took := time.Since(begin); *best == 0 || took < *best {
					*best = took
				}
			}
			var short, long time.Duration
			for b.Loop() {
				best(&short, func() { must(b)(Resolve(small.version, smallStates, smallSource)) })
				best(&long, func() { must(b)(Resolve(large.version, largeStates, largeSource)) })
			}
			b.ReportMetric(float64(long)/float64(short), "x/doubling")
			b.ReportMetric(float64(long.Microseconds())/1000, "ms/2x10000")
		})
	}
}

// BenchmarkResolveSmall resolves one conflict where 10,000 members agree.
func BenchmarkResolveSmall(b *testing.B) {
	r, states := crowd(b, "12", 10000)
	r.add(pdu{id: "one", typ: "m.room.topic", sender: alice, content: `{}`, auth: "levels alice"},
		pdu{id: "two", typ: "m.room.topic", sender: alice, content: `{}`, auth: "levels alice"})
	states[1] = maps.Clone(states[0])
	states[0][Key{Type: "m.room.topic"}], states[1][Key{Type: "m.room.topic"}] = r.find("one"), r.find("two")
	src := r.indexed()
	b.ReportAllocs()
	for b.Loop() {
		must(b)(Resolve(r.version, states, src))
	}
}

// TestResolveAllocations wants the work to grow with the conflict: twice the
// members, at most 2.3 times the allocations.
func TestResolveAllocations(t *testing.T) {
	everyVersion(t, func(t *testing.T, v *matrix.Version) {
		count := func(n int) float64 {
			r, states := crowd(t, v.ID, n)
			src := r.indexed()
			return testing.AllocsPerRun(1, func() { must(t)(Resolve(v, states, src)) })
		}
		if short, long := count(500), count(1000); long > 2.3*short {
			t.Errorf("%v allocations for 500 members, %v for 1000", short, long)
		}
	})
}

// diamonds is a chain of n power levels, each citing the one before by two
// ways, so that 2^n paths lead from the last to the first; and the states that
// have the first and the last of them.
func diamonds(tb testing.TB, version matrix.RoomVersion, n int) (*room, []StateMap) {
	tb.Helper()
	r := newRoom(tb, version)
	create := "create "
	if r.version.RoomIDFromCreate {
		create = ""
	}
	r.add(baseState(r)[0],
		pdu{id: "a0", typ: "m.room.member", key: alice, sender: alice, content: member("join"), auth: create, prev: "create"},
		pdu{id: "p0", typ: "m.room.power_levels", sender: alice, content: r.levels(""), auth: create + "a0"})
	for i := range n {
		r.add(pdu{id: fmt.Sprintf("a%d", i+1), typ: "m.room.member", key: alice, sender: alice, content: member("join"), auth: fmt.Sprintf("%sp%d a%d", create, i, i)},
			pdu{id: fmt.Sprintf("p%d", i+1), typ: "m.room.power_levels", sender: alice, content: r.levels(""), auth: fmt.Sprintf("%sp%d a%d", create, i, i+1)})
	}
	return r, []StateMap{r.state("create a0 p0"), r.state(fmt.Sprintf("create a%d p%d", n, n))}
}

// BenchmarkDiamonds resolves two states with a chain of diamonds between them.
func BenchmarkDiamonds(b *testing.B) {
	for _, n := range []int{30, 60, 120} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r, states := diamonds(b, "12", n)
			src := r.indexed()
			b.ReportAllocs()
			for b.Loop() {
				must(b)(Resolve(r.version, states, src))
			}
		})
	}
	b.Run("60/subgraph", func(b *testing.B) {
		r, states := diamonds(b, "12", 60)
		src := r.indexed()
		b.ReportAllocs()
		for b.Loop() {
			rs := newResolver(r.version, src)
			if _, err := rs.split(states); err != nil {
				b.Fatal(err)
			}
			if _, err := rs.subgraph(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestDiamonds wants the last power levels, and each event read once.
func TestDiamonds(t *testing.T) {
	everyVersion(t, func(t *testing.T, v *matrix.Version) {
		if v.StateRes == matrix.StateResV1 {
			return // it knows nothing of auth chains
		}
		const n = 60
		r, states := diamonds(t, v.ID, n)
		want := states[1]
		got := must(t)(Resolve(v, states, r))
		if got[powerKey] != want[powerKey] {
			t.Errorf("got %s, want %s", got[powerKey], want[powerKey])
		}
		if limit := 2*n + 3; r.asked > limit {
			t.Errorf("asked for %d events of %d", r.asked, limit)
		}
	})
}

// TestResolveReadsLittle wants a small conflict at the end of a long history
// to be resolved without the history, where generations are stored.
func TestResolveReadsLittle(t *testing.T) {
	for _, version := range []matrix.RoomVersion{"2", "11", "12"} {
		r, _ := diamonds(t, version, 1000)
		create := "create "
		if r.version.RoomIDFromCreate {
			create = ""
		}
		r.add(pdu{id: "one", typ: "m.room.topic", sender: alice, content: `{}`, auth: create + "p1000 a1000"},
			pdu{id: "two", typ: "m.room.topic", sender: alice, content: `{}`, auth: create + "p1000 a1000"})
		state := r.state("create a1000 p1000")
		states := []StateMap{r.state("create a1000 p1000 one"), r.state("create a1000 p1000 two")}
		src := r.indexed()
		got := must(t)(Resolve(r.version, states, src))
		if topic := (Key{Type: "m.room.topic"}); got[topic] != r.find("two") || len(got) != len(state)+1 {
			t.Errorf("v%s: got %v", version, got)
		}
		if r.asked > 10 {
			t.Errorf("v%s: asked for %d events of 2,000", version, r.asked)
		}
	}
}

// levelsOf1000 is a room with 1,000 users in its power levels.
func levelsOf1000(tb testing.TB) (*room, Events, *matrix.Event) {
	r := newRoom(tb, "11")
	state := make(Events)
	for _, p := range baseState(r) {
		if p.typ == matrix.TypePowerLevels {
			var users []string
			for i := range 1000 {
				users = append(users, fmt.Sprintf(`"@user%d:example.test":%d`, i, i%100))
			}
			p.content = r.levels("", users...)
		}
		state.Add(r.build(p))
	}
	return r, state, r.build(pdu{id: "m", typ: "m.room.message", key: "-", sender: bob, content: `{"body":"x"}`})
}

// BenchmarkAuthorizeMessage authorizes a message where the power levels name
// 1,000 users; "unparsed" meets the levels for the first time each time.
func BenchmarkAuthorizeMessage(b *testing.B) {
	r, state, message := levelsOf1000(b)
	b.Run("parsed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := Authorize(message, state); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unparsed", func(b *testing.B) {
		levels := state[powerKey]
		b.ReportAllocs()
		for b.Loop() {
			fresh, err := matrix.ParseStored(r.version, levels.ID(), levels.JSON())
			if err != nil {
				b.Fatal(err)
			}
			state[powerKey] = fresh
			if err := Authorize(message, state); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestAuthorizeMessageAllocations wants the power levels not to be parsed again.
func TestAuthorizeMessageAllocations(t *testing.T) {
	_, state, message := levelsOf1000(t)
	allocs := testing.AllocsPerRun(100, func() {
		if err := Authorize(message, state); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 2 {
		t.Errorf("%v allocations", allocs)
	}
}
