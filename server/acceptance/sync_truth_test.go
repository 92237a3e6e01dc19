package acceptance

import (
	"slices"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// truth is a room as the sync model knows it: all of its events, in the order in
// which they were told to somebody who was always there. What others must be
// told follows from it by the rules of the specification, written down anew.
type truth struct {
	id        matrix.RoomID
	events    []testserver.RoomEvent
	forgotten map[matrix.UserID]bool
}

type stateKey struct{ typ, key string }

func keyOf(e testserver.RoomEvent) (stateKey, bool) {
	if e.StateKey == nil {
		return stateKey{}, false
	}
	return stateKey{e.Type, *e.StateKey}, true
}

func text1(e testserver.RoomEvent, field string) string {
	var content map[string]any
	if decode(e.Content, &content) != nil {
		return ""
	}
	s, _ := content[field].(string)
	return s
}

// state is which event each key has after the first n events.
func (r *truth) state(n int) map[stateKey]matrix.EventID {
	state := map[stateKey]matrix.EventID{}
	for _, e := range r.events[:n] {
		if key, ok := keyOf(e); ok {
			state[key] = e.ID
		}
	}
	return state
}

// last is the index of the last of the first n events with this key; -1: none.
func (r *truth) last(n int, key stateKey) int {
	for i := n - 1; i >= 0; i-- {
		if k, ok := keyOf(r.events[i]); ok && k == key {
			return i
		}
	}
	return -1
}

func (r *truth) member(n int, u matrix.UserID) string {
	if i := r.last(n, stateKey{"m.room.member", string(u)}); i >= 0 {
		return text1(r.events[i], "membership")
	}
	return ""
}

func (r *truth) visibility(n int) string {
	if i := r.last(n, stateKey{"m.room.history_visibility", ""}); i >= 0 {
		return text1(r.events[i], "history_visibility")
	}
	return "shared"
}

// leaving is the index of the last of the first n events with which the user
// left or was removed after having been joined; -1: there is none.
func (r *truth) leaving(n int, u matrix.UserID) int {
	for i := n - 1; i > 0; i-- {
		if r.member(i+1, u) != "join" && r.member(i, u) == "join" {
			return i
		}
	}
	return -1
}

// out tells whether the user was out of the room at some time in the first n
// events, after having been told of it: what follows does not continue that.
func (r *truth) out(n int, u matrix.UserID) bool {
	for i := range n {
		if m := r.member(i+1, u); m == "leave" || m == "ban" {
			return true
		}
	}
	return false
}

// wasOut tells whether the user left, refused to come or was banned with one of
// the first n events: they may have been told something of the room's timeline.
func (r *truth) wasOut(n int, u matrix.UserID) bool {
	for i := range n {
		if member := r.member(i+1, u); member == "leave" || member == "ban" {
			return true
		}
	}
	return false
}

// since is the index of the event with which the membership of now began.
func (r *truth) since(n int, u matrix.UserID) int {
	now := r.member(n, u)
	at := -1
	for i := n - 1; i >= 0 && r.member(i+1, u) == now; i-- {
		if k, ok := keyOf(r.events[i]); ok && k == (stateKey{"m.room.member", string(u)}) {
			at = i
		}
	}
	return at
}

// visible tells whether the user, who is joined after n events or left with
// event n-1, may see event i. Client-Server API, "Room History Visibility".
func (r *truth) visible(i, n int, u matrix.UserID) bool {
	joinedLater := false
	for j := i + 1; j <= n && !joinedLater; j++ {
		joinedLater = r.member(j, u) == "join"
	}
	for _, vis := range []string{r.visibility(i), r.visibility(i + 1)} {
		for _, member := range []string{r.member(i, u), r.member(i+1, u)} {
			switch {
			case vis == "world_readable", member == "join", vis == "shared" && joinedLater,
				vis == "invited" && member == "invite" && joinedLater:
				return true
			}
		}
	}
	// What ended an invitation is theirs to see, as it is told beside the timeline too.
	key, _ := keyOf(r.events[i])
	return key == (stateKey{"m.room.member", string(u)}) && (r.member(i, u) == "invite" || r.member(i, u) == "knock") && !r.in(i+1, u)
}

// in tells whether the user is in the room after n events, or may come in.
func (r *truth) in(n int, u matrix.UserID) bool {
	m := r.member(n, u)
	return m != "leave" && m != "ban"
}

// shown is what a sync must tell of a room's timeline.
type shown struct {
	kind    string // section; empty: it may be left out
	events  []matrix.EventID
	limited bool
	whole   bool // the state must be whole
	end     int  // the state is that after so many events
}

// expect says what a client must be told of the room, whose last sync was after
// p events: p < 0 for a first sync.
func (r *truth) expect(u matrix.UserID, p int, wants wish) shown {
	s := r.expectWhole(u, p, wants)
	s.cut(r, u, wants)
	return s
}

func (r *truth) expectWhole(u matrix.UserID, p int, wants wish) shown {
	n := len(r.events)
	was, now := r.member(max(p, 0), u), r.member(n, u)
	own := stateKey{"m.room.member", string(u)}
	switch now {
	case "":
		return shown{}
	case "invite", "knock":
		if p < 0 || r.last(n, own) >= p {
			return shown{kind: now}
		}
		return shown{}
	case "join":
		if p >= 0 && was == "join" {
			return r.window(shown{end: n}, p, n, u, wants)
		}
		floor := r.leaving(max(p, 0), u) + 1
		return r.window(shown{kind: "join", limited: p >= 0 || r.out(max(p, 0), u), whole: true, end: n}, floor, n, u, wants)
	}
	moved := p >= 0 && r.since(n, u) >= p
	if !moved && !(p < 0 && wants.leave && !r.forgotten[u]) {
		return shown{}
	}
	left := r.leaving(n, u)
	s := shown{kind: "leave", end: left + 1}
	switch {
	case left < max(p, 0) || r.forgotten[u]:
		s.end = -1
		// An invitation hid from the client that they left, and with what.
		s.limited = left >= 0 && !r.forgotten[u] && (was == "invite" || was == "knock")
	case was == "join":
		s = r.window(s, p, left+1, u, wants)
	default:
		floor := r.leaving(max(p, 0), u) + 1
		s.limited, s.whole = r.out(max(p, 0), u), true
		s = r.window(s, floor, left+1, u, wants)
	}
	if e := r.events[r.last(n, own)]; wants.wants(e) && wants.limit > 0 && !slices.Contains(s.events, e.ID) {
		if s.events = append(s.events, e.ID); len(s.events) > wants.limit {
			s.events, s.limited = s.events[1:], true
		}
	}
	return s
}

// cut leaves out of a timeline whose client takes its state from there what
// would leave it with a wrong one: events whose successor may not be seen.
func (s *shown) cut(r *truth, u matrix.UserID, wants wish) {
	if wants.after || s.end < 0 {
		return
	}
	state, byID := r.state(s.end), map[matrix.EventID]testserver.RoomEvent{}
	if s.kind == "leave" {
		own := stateKey{"m.room.member", string(u)}
		state[own] = r.state(len(r.events))[own]
	}
	for _, e := range r.events {
		byID[e.ID] = e
	}
	last := map[stateKey]bool{}
	for i, id := range slices.Backward(s.events) {
		key, ok := keyOf(byID[id])
		if ok && !last[key] && state[key] != id && wants.wants(byID[state[key]]) {
			s.events, s.limited = s.events[i+1:], true
			return
		}
		last[key] = true
	}
}

// window adds what may be seen and is wanted of the events [from, to).
func (r *truth) window(s shown, from, to int, u matrix.UserID, wants wish) shown {
	for i := from; i < to; i++ {
		if wants.wants(r.events[i]) && r.visible(i, to, u) {
			s.events = append(s.events, r.events[i].ID)
		}
	}
	if over := len(s.events) - wants.limit; over > 0 {
		s.events, s.limited = s.events[over:], true
	}
	return s
}
