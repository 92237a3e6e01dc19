package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hearth/storage/matrix"
)

// resolve resolves states given by IDs, with and without stored generations,
// and wants both to agree.
func (r *room) resolve(states ...string) StateMap {
	r.tb.Helper()
	list := make([]StateMap, len(states))
	for i, ids := range states {
		list[i] = r.state(ids)
	}
	return r.resolveMaps(list)
}

func (r *room) resolveMaps(states []StateMap) StateMap {
	r.tb.Helper()
	got, err := Resolve(r.version, states, r)
	if err != nil {
		r.tb.Fatal(err)
	}
	indexed, err := Resolve(r.version, states, r.indexed())
	if err != nil {
		r.tb.Fatal(err)
	}
	if !maps.Equal(got, indexed) {
		r.tb.Fatalf("with generations %v, without %v", indexed, got)
	}
	return got
}

// want compares a state with one given by IDs.
func (r *room) want(got StateMap, ids string) {
	r.tb.Helper()
	want := r.state(ids)
	for k, id := range want {
		if got[k] != id {
			r.tb.Errorf("%v: got %q, want %q", k, got[k], id)
		}
	}
	for k, id := range got {
		if _, ok := want[k]; !ok {
			r.tb.Errorf("%v: got %q, want nothing", k, id)
		}
	}
}

// simulated is a random room: a history with forks, whose events passed by
// their auth events and by the state before them, or are marked as rejected.
type simulated struct {
	*room
	states []StateMap // after every event
}

var people = []string{alice, bob, carol, dave, eve}

// simulate makes a room. It resolves the states of its own forks with the
// code under test: what it needs is variety, not a verdict.
func simulate(t *rapid.T, version matrix.RoomVersion) *simulated {
	s := &simulated{room: newRoom(t, version)}
	start := StateMap{}
	for _, p := range baseState(s.room)[:4] {
		p.auth = s.selectAuth(p, start)
		s.add(p)
		start = s.after(start, p.id)
	}
	s.states = []StateMap{start}
	steps := rapid.IntRange(5, 30).Draw(t, "steps")
	for i := range steps {
		s.step(t, fmt.Sprintf("e%d", i))
	}
	return s
}

// step adds an event after a random state, or after a merge of two.
func (s *simulated) step(t *rapid.T, id string) {
	before := rapid.SampledFrom(s.states).Draw(t, "parent")
	if rapid.IntRange(0, 3).Draw(t, "merge") == 0 {
		other := rapid.SampledFrom(s.states).Draw(t, "other parent")
		merged, err := Resolve(s.version, []StateMap{before, other}, s.room)
		if err != nil {
			t.Fatal(err)
		}
		before = merged
	}
	p := randomEvent(t, s.room, id)
	p.auth = s.selectAuth(p, before)
	s.add(p)
	ev := s.event(id)
	create := s.stored[s.find("create")]
	switch {
	case AuthorizeByAuthEvents(ev, s.authOf(ev), create) != nil:
		s.mark(id, RejectedByAuth)
	case Authorize(ev, s.events(before)) != nil:
		s.mark(id, RejectedByState)
	default:
		before = s.after(before, id)
	}
	s.states = append(s.states, before)
}

func randomEvent(t *rapid.T, r *room, id string) pdu {
	sender := rapid.SampledFrom(people).Draw(t, "sender")
	target := rapid.SampledFrom(people).Draw(t, "target")
	p := pdu{id: id, sender: sender, ts: int64(rapid.IntRange(10, 40).Draw(t, "ts"))}
	switch rapid.IntRange(0, 8).Draw(t, "kind") {
	case 0, 1:
		p.typ, p.key, p.content = "m.room.member", sender, member("join")
	case 2:
		p.typ, p.key, p.content = "m.room.member", target, member("invite")
	case 3:
		p.typ, p.key, p.content = "m.room.member", target, member("leave")
	case 4:
		p.typ, p.key, p.content = "m.room.member", target, member("ban")
	case 5:
		p.typ, p.content = "m.room.join_rules", joinRule(rapid.SampledFrom([]string{"public", "invite", "knock"}).Draw(t, "rule"))
	case 6:
		level := rapid.IntRange(0, 100).Draw(t, "level")
		p.typ, p.content = "m.room.power_levels", r.levels(fmt.Sprintf(`"state_default":%d,`, rapid.IntRange(0, 60).Draw(t, "default")), fmt.Sprintf("%q:%d", carol, level))
	default:
		p.typ, p.content = "m.room.topic", `{}`
	}
	return p
}

// selectAuth is the auth events of p in a state, as the selection has them.
func (s *simulated) selectAuth(p pdu, state StateMap) string {
	key := p.key
	template := &matrix.Template{Type: p.typ, StateKey: &key, Sender: matrix.UserID(p.sender), Content: []byte(p.content)}
	var ids []string
	for _, ev := range SelectAuthEvents(TemplateAuthKeys(s.version, template), s.events(state)) {
		ids = append(ids, strings.TrimPrefix(string(ev.ID()), "$"))
	}
	return strings.Join(ids, " ")
}

func (s *simulated) events(state StateMap) Events {
	events := make(Events)
	for _, id := range state {
		events.Add(s.stored[id].Event)
	}
	return events
}

func (s *simulated) after(state StateMap, id string) StateMap {
	next := maps.Clone(state)
	maps.Copy(next, s.state(id))
	return next
}

// some draws states to resolve.
func (s *simulated) some(t *rapid.T) []StateMap {
	n := rapid.IntRange(2, 5).Draw(t, "states")
	list := make([]StateMap, n)
	for i := range list {
		list[i] = rapid.SampledFrom(s.states).Draw(t, "state")
	}
	return list
}

func anyVersion(t *rapid.T) matrix.RoomVersion {
	return rapid.SampledFrom(matrix.RoomVersions()).Draw(t, "version")
}

// TestResolveOrder wants the same result whatever the order of the states and
// however events are numbered, and with stored generations.
func TestResolveOrder(t *testing.T) {
	property(t, func(t *rapid.T) {
		s := simulate(t, anyVersion(t))
		states := s.some(t)
		want := s.resolveMaps(states)
		for range 3 {
			shuffled := rapid.Permutation(states).Draw(t, "order")
			if got := s.resolveMaps(shuffled); !maps.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	})
}

// TestResolveIdentity wants equal states to resolve to themselves, and one
// more copy of a state to change nothing.
func TestResolveIdentity(t *testing.T) {
	property(t, func(t *rapid.T) {
		s := simulate(t, anyVersion(t))
		states := s.some(t)
		for _, state := range states {
			if got := s.resolveMaps([]StateMap{state, maps.Clone(state), state}); !maps.Equal(got, state) {
				t.Fatalf("got %v, want %v", got, state)
			}
		}
		want := s.resolveMaps(states)
		if got := s.resolveMaps(append(states, states[0])); !maps.Equal(got, want) {
			t.Fatalf("with a copy of a state: got %v, want %v", got, want)
		}
	})
}

// TestResolveRejected wants events that were rejected by their own auth events
// never to enter, even when a state names them.
func TestResolveRejected(t *testing.T) {
	property(t, func(t *rapid.T) {
		s := simulate(t, anyVersion(t))
		states := s.some(t)
		spoilt := rapid.IntRange(0, len(states)-1).Draw(t, "spoilt")
		states[spoilt] = maps.Clone(states[spoilt])
		for id, stored := range s.stored {
			if stored.Standing != RejectedByAuth {
				continue
			}
			key, _ := stored.Event.StateKey()
			k := Key{stored.Event.Type(), key}
			// It must be in conflict; in room version 1 one state alone is none.
			other, ok := states[(spoilt+1)%len(states)][k]
			if other != id && (ok || s.version.StateRes != matrix.StateResV1) {
				states[spoilt][k] = id
			}
		}
		for k, id := range s.resolveMaps(states) {
			if s.stored[id].Standing == RejectedByAuth {
				t.Fatalf("%v is %s, which was rejected", k, id)
			}
		}
	})
}

// TestResolveUnconflicted wants v2 and v2.1 to keep what all states agree on,
// and every event of the result to be of the states or their auth chains.
func TestResolveUnconflicted(t *testing.T) {
	property(t, func(t *rapid.T) {
		s := simulate(t, anyVersion(t))
		states := s.some(t)
		got := s.resolveMaps(states)
		for k, id := range states[0] {
			if inAll(states[1:], k, id) && got[k] != id {
				t.Fatalf("%v is %s, all states have %s", k, got[k], id)
			}
		}
		known := s.closure(states)
		for k, id := range got {
			if !known[id] {
				t.Fatalf("%v is %s, which no state knows", k, id)
			}
		}
	})
}

// closure is the events of the states with their auth chains.
func (s *simulated) closure(states []StateMap) map[matrix.EventID]bool {
	known := make(map[matrix.EventID]bool)
	var visit func(matrix.EventID)
	visit = func(id matrix.EventID) {
		if !known[id] {
			known[id] = true
			for _, a := range s.stored[id].Event.AuthEvents() {
				visit(a)
			}
		}
	}
	for _, state := range states {
		for _, id := range state {
			visit(id)
		}
	}
	return known
}

func TestResolveNothing(t *testing.T) {
	everyVersion(t, func(t *testing.T, v *matrix.Version) {
		r := newRoom(t, v.ID)
		if got := r.resolveMaps(nil); len(got) != 0 {
			t.Errorf("no states: got %v", got)
		}
		if got := r.resolveMaps([]StateMap{{}, {}}); len(got) != 0 {
			t.Errorf("empty states: got %v", got)
		}
	})
}

// TestResolveMissing names the events of the states that are not there, and
// does without auth events that are not.
func TestResolveMissing(t *testing.T) {
	everyVersion(t, func(t *testing.T, v *matrix.Version) {
		r := newRoom(t, v.ID)
		r.add(baseState(r)...)
		base := r.state("create alice levels rules bob")
		one, two := maps.Clone(base), maps.Clone(base)
		topic := Key{Type: "m.room.topic"}
		one[topic], two[topic] = "$gone2", "$gone1"
		_, err := Resolve(v, []StateMap{one, two}, r)
		var missing *MissingError
		if !errors.As(err, &missing) || !slices.Equal(missing.IDs, []matrix.EventID{"$gone1", "$gone2"}) {
			t.Errorf("got %v", err)
		}
		auth := "create levels bob nowhere"
		if v.RoomIDFromCreate {
			auth = "levels bob nowhere"
		}
		r.add(pdu{id: "t1", typ: "m.room.topic", sender: bob, content: `{}`, auth: auth},
			pdu{id: "t2", typ: "m.room.topic", sender: bob, content: `{}`, auth: auth})
		r.want(r.resolve("create alice levels rules bob t1", "create alice levels rules bob t2"),
			"create alice levels rules bob t2")
	})
}

// failing is a Source that fails, or answers too little.
type failing struct {
	err   error
	short bool
}

func (f failing) Events(ids []matrix.EventID) ([]Stored, error) {
	if f.short {
		return make([]Stored, len(ids)-1), nil
	}
	return nil, f.err
}

func TestResolveSourceFails(t *testing.T) {
	broken := errors.New("broken")
	states := []StateMap{{createKey: "$a"}, {createKey: "$b"}}
	everyVersion(t, func(t *testing.T, v *matrix.Version) {
		if _, err := Resolve(v, states, failing{err: broken}); !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
		if _, err := Resolve(v, states, failing{short: true}); err == nil {
			t.Error("a short answer is no error")
		}
	})
}

// TestResolveCycle wants an end, with an error: only room versions 1 and 2 have
// IDs that allow a cycle to be written, and no server could accept it.
func TestResolveCycle(t *testing.T) {
	r := newRoom(t, "2")
	r.add(baseState(r)...)
	r.add(pdu{id: "x:a.test", typ: "m.room.topic", sender: alice, content: `{}`, auth: "y:a.test"},
		pdu{id: "y:a.test", typ: "m.room.topic", sender: alice, content: `{}`, auth: "x:a.test"})
	states := []StateMap{r.state("create x:a.test"), r.state("create y:a.test")}
	if _, err := Resolve(r.version, states, r); !errors.Is(err, errCycle) {
		t.Errorf("got %v, want %v", err, errCycle)
	}
}

// An event of another room in a state does not enter, and keeps no event of
// the room out, whichever state names it.
func TestResolveOtherRoom(t *testing.T) {
	r := newRoom(t, "12")
	base := baseState(r)
	base[1].prev, base[2].auth = "create", "alice"
	r.add(base...)
	topic := pdu{id: "ours", typ: "m.room.topic", sender: alice, content: `{}`, auth: "alice levels"}
	theirs := topic
	theirs.id, theirs.room = "theirs", hashRoom("other")
	r.add(topic, theirs)
	want := r.state("create alice levels ours")
	states := []StateMap{want, r.state("create alice levels theirs")}
	for range 2 {
		if got := must(t)(Resolve(r.version, states, r)); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		states[0], states[1] = states[1], states[0]
	}
}
