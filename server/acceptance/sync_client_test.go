package acceptance

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

func decode(raw jsontext.Value, to any) error { return json.Unmarshal(raw, to) }

// wish is what a client of the sync model asks for.
type wish struct {
	filter string
	after  bool // use_state_after

	limit int
	types []string      // of the timeline; none: all
	not   matrix.UserID // whose events it does not want in the timeline
	lazy  bool
	leave bool
}

func (w *wish) wants(e testserver.RoomEvent) bool {
	return e.Sender != w.not && (w.types == nil || slices.Contains(w.types, e.Type))
}

func (w *wish) query() url.Values {
	q := url.Values{}
	if w.filter != "" {
		q.Set("filter", w.filter)
	}
	if w.after {
		q.Set("use_state_after", "true")
	}
	return q
}

// wishes are the clients there are; %s is a user ID.
func wishes(root matrix.UserID) []wish {
	return []wish{
		{limit: 10},
		{limit: 10, after: true},
		{limit: 2, filter: `{"room":{"timeline":{"limit":2}}}`},
		{limit: 1, lazy: true, filter: `{"room":{"timeline":{"limit":1},"state":{"lazy_load_members":true}}}`},
		{limit: 3, types: []string{"m.room.message"}, filter: `{"room":{"timeline":{"limit":3,"types":["m.room.message"]}}}`},
		{limit: 2, lazy: true, after: true, filter: `{"room":{"timeline":{"limit":2},"state":{"lazy_load_members":true}}}`},
		{limit: 4, not: root, filter: fmt.Sprintf(`{"room":{"timeline":{"limit":4,"not_senders":[%q]}}}`, root)},
		{limit: 3, leave: true, filter: `{"room":{"include_leave":true,"timeline":{"limit":3}}}`},
		{limit: 0, filter: `{"room":{"timeline":{"limit":0}}}`},
	}
}

// modelRoom is a room as a client has put it together.
type modelRoom struct {
	state   map[stateKey]matrix.EventID
	seen    map[matrix.EventID]bool // in timelines
	joined  int
	invited int
	heroes  []matrix.UserID
	data    map[string]string
}

// modelClient is a device that builds its view of the world from what it is told.
type modelClient struct {
	t      *testing.T
	c      *testserver.Client
	wish   wish
	join   map[matrix.RoomID]*modelRoom
	left   map[matrix.RoomID]*modelRoom
	invite map[matrix.RoomID]bool
	knock  map[matrix.RoomID]bool
	data   map[string]string
	told   map[matrix.RoomID]int // how many events each room had at the last sync; a new room has 0
	begun  bool
}

func newModelClient(t *testing.T, c *testserver.Client, w wish) *modelClient {
	c.Rewind("")
	return &modelClient{
		t: t, c: c, wish: w, join: map[matrix.RoomID]*modelRoom{}, left: map[matrix.RoomID]*modelRoom{},
		invite: map[matrix.RoomID]bool{}, knock: map[matrix.RoomID]bool{}, data: map[string]string{}, told: map[matrix.RoomID]int{},
	}
}

// sync asks for what is new, compares it with what must be told, and applies it.
func (m *modelClient) sync(rooms map[matrix.RoomID]*truth, full bool) {
	m.t.Helper()
	q := m.wish.query()
	if full {
		q.Set("full_state", "true")
	}
	s := m.c.SyncWith(q)
	for id, r := range rooms {
		p := m.told[id]
		if !m.begun {
			p = -1
		}
		m.compare(s, r, r.expect(m.c.UserID, p, m.wish), full)
		m.compareStart(r, s.Rooms.Join[id], p)
		m.told[id] = len(r.events)
	}
	m.begun = true
	m.apply(rooms, s)
}

// compare holds one room of an answer against what must be told.
func (m *modelClient) compare(s *testserver.Sync, r *truth, want shown, full bool) {
	m.t.Helper()
	kind := ""
	var got testserver.SyncRoom
	for name, section := range map[string]map[matrix.RoomID]testserver.SyncRoom{"join": s.Rooms.Join, "leave": s.Rooms.Leave} {
		if room, ok := section[r.id]; ok {
			kind, got = kind+name, room
		}
	}
	if _, ok := s.Rooms.Invite[r.id]; ok {
		kind += "invite"
	}
	if _, ok := s.Rooms.Knock[r.id]; ok {
		kind += "knock"
	}
	if want.kind != "" && kind != want.kind {
		m.t.Fatalf("%s: told as %q, want %q\n%s", r.id, kind, want.kind, m.dump(r))
	}
	if want.kind == "" && !full && kind != "" && r.member(len(r.events), m.c.UserID) != "join" {
		m.t.Fatalf("%s: told as %q, want nothing\n%s", r.id, kind, m.dump(r))
	}
	if ids := got.Timeline.IDs(); !slices.Equal(ids, want.events) {
		m.t.Fatalf("%s as %s: timeline %v, want %v\n%s", r.id, kind, ids, want.events, m.dump(r))
	}
	if (kind == "join" || kind == "leave" && !full) && got.Timeline.Limited != want.limited {
		m.t.Fatalf("%s as %s: limited %v\n%s", r.id, kind, got.Timeline.Limited, m.dump(r))
	}
}

// compareStart holds the state before a timeline that follows on what the client
// knows, or on a gap, against the truth, as far as the timeline changes it: what
// comes after hides it from every later look.
func (m *modelClient) compareStart(r *truth, got testserver.SyncRoom, p int) {
	m.t.Helper()
	told := got.Timeline.IDs()
	n := len(r.events)
	from := n - len(told)
	if m.wish.after || m.wish.not != "" || got.State == nil || len(told) == 0 || r.events[from].ID != told[0] || !got.Timeline.Limited && from != max(p, 0) {
		return
	}
	state := map[stateKey]matrix.EventID{}
	if known := m.join[r.id]; known != nil {
		maps.Copy(state, known.state)
	}
	for _, e := range got.State.Events {
		key, _ := keyOf(e)
		state[key] = e.ID
	}
	want := r.state(from)
	for _, e := range r.events[from:] {
		key, ok := keyOf(e)
		if _, known := state[key]; ok && state[key] != want[key] && (known || !m.wish.lazy) {
			m.t.Fatalf("%s: state %v before the timeline is %q, want %q\n%s", r.id, key, state[key], want[key], m.dump(r))
		}
	}
}

func (m *modelClient) dump(r *truth) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s, told %d, %+v\n", m.c.UserID, m.c.DeviceID, m.told[r.id], m.wish)
	for i, e := range r.events {
		key := "-"
		if e.StateKey != nil {
			key = *e.StateKey
		}
		fmt.Fprintf(&b, "%3d %s %s %s %s %s\n", i, e.ID, e.Type, key, e.Sender, e.Content)
	}
	return b.String()
}

func (m *modelClient) apply(rooms map[matrix.RoomID]*truth, s *testserver.Sync) {
	for _, e := range s.AccountData.Events {
		m.data[e.Type] = string(e.Content)
	}
	for id := range s.Rooms.Invite {
		m.move(id, m.invite)
	}
	for id := range s.Rooms.Knock {
		m.move(id, m.knock)
	}
	for id, told := range s.Rooms.Join {
		r := m.join[id]
		m.move(id, nil)
		if r == nil {
			r = newModelRoom()
		}
		m.join[id] = r
		m.applyRoom(rooms[id], r, told)
	}
	for id, told := range s.Rooms.Leave {
		r := m.join[id]
		if r == nil {
			r = m.left[id]
		}
		m.move(id, nil)
		if r == nil {
			r = newModelRoom()
		}
		m.left[id] = r
		m.applyRoom(rooms[id], r, told)
	}
}

func newModelRoom() *modelRoom {
	return &modelRoom{state: map[stateKey]matrix.EventID{}, seen: map[matrix.EventID]bool{}, data: map[string]string{}}
}

// move takes a room out of wherever it was.
func (m *modelClient) move(id matrix.RoomID, to map[matrix.RoomID]bool) {
	delete(m.join, id)
	delete(m.left, id)
	delete(m.invite, id)
	delete(m.knock, id)
	if to != nil {
		to[id] = true
	}
}

func (m *modelClient) applyRoom(truth *truth, r *modelRoom, told testserver.SyncRoom) {
	m.t.Helper()
	section := told.State
	if m.wish.after {
		section = told.StateAfter
	}
	if section == nil || (told.State != nil) == (told.StateAfter != nil) {
		m.t.Fatalf("%s: state %v, state_after %v", m.c.UserID, told.State, told.StateAfter)
	}
	once := map[stateKey]bool{}
	for _, e := range section.Events {
		key, ok := keyOf(e)
		if !ok || once[key] {
			m.t.Fatalf("%s: %s %v twice in the state, or no state", m.c.UserID, e.ID, key)
		}
		once[key] = true
		r.state[key] = e.ID
	}
	if told.Timeline.Limited { // what ended an invitation was told beside the timeline, and now is part of it
		for i, e := range truth.events {
			if key, _ := keyOf(e); key == (stateKey{"m.room.member", string(m.c.UserID)}) && !truth.in(i+1, m.c.UserID) {
				delete(r.seen, e.ID)
			}
		}
	}
	for _, e := range told.Timeline.Events {
		if r.seen[e.ID] {
			m.t.Fatalf("%s was told %s twice\n%s", m.c.UserID, e.ID, m.dump(truth))
		}
		r.seen[e.ID] = true
		if key, ok := keyOf(e); ok && !m.wish.after {
			r.state[key] = e.ID
		}
	}
	if told.Summary.Joined != nil {
		r.joined, r.invited, r.heroes = *told.Summary.Joined, *told.Summary.Invited, told.Summary.Heroes
	}
	for _, e := range told.AccountData.Events {
		r.data[e.Type] = string(e.Content)
	}
}

// check compares what the client has put together with the truth.
func (m *modelClient) check(rooms map[matrix.RoomID]*truth, data map[string]map[string]string) {
	m.t.Helper()
	u := m.c.UserID
	for id, r := range rooms {
		n := len(r.events)
		now := r.member(n, u)
		room, joined := m.join[id]
		if joined != (now == "join") || m.invite[id] != (now == "invite") || m.knock[id] != (now == "knock") {
			m.t.Fatalf("%s: client has joined %v, invite %v, knock %v\n%s", id, joined, m.invite[id], m.knock[id], m.dump(r))
		}
		if joined {
			m.checkState(r, room, r.state(n))
			m.checkSenders(r, room)
			m.checkSummary(r, room)
			if !maps.Equal(room.data, data[string(id)]) {
				m.t.Fatalf("%s: account data %v, want %v\n%s", id, room.data, data[string(id)], m.dump(r))
			}
		}
		if room = m.left[id]; room != nil && !r.forgotten[u] && r.leaving(n, u) >= 0 && len(room.state) > 1 {
			state := r.state(r.leaving(n, u) + 1)
			own := stateKey{"m.room.member", string(u)}
			state[own] = r.state(n)[own]
			m.checkState(r, room, state)
		}
	}
	if !maps.Equal(m.data, data[""]) {
		m.t.Fatalf("%s: account data %v, want %v", u, m.data, data[""])
	}
}

func (m *modelClient) checkState(r *truth, room *modelRoom, want map[stateKey]matrix.EventID) {
	m.t.Helper()
	hidden := map[matrix.EventID]bool{} // what it must have missed, by its own wish
	for _, e := range r.events {
		hidden[e.ID] = !m.wish.after && e.Sender == m.wish.not
	}
	for key, id := range want {
		if hidden[id] {
			continue
		}
		if got, ok := room.state[key]; got != id && (ok || !m.wish.lazy || key.typ != "m.room.member") {
			m.t.Fatalf("%s: state %v is %s, want %s\n%s", r.id, key, got, id, m.dump(r))
		}
	}
	for key, id := range room.state {
		if want[key] != id && !hidden[want[key]] {
			m.t.Fatalf("%s: state %v is %s, want %q\n%s", r.id, key, id, want[key], m.dump(r))
		}
	}
}

// checkSenders looks whether the client knows who sent what it saw, as far as
// they were members once.
func (m *modelClient) checkSenders(r *truth, room *modelRoom) {
	m.t.Helper()
	for _, e := range r.events {
		sender := stateKey{"m.room.member", string(e.Sender)}
		if _, known := room.state[sender]; room.seen[e.ID] && !known && r.last(len(r.events), sender) >= 0 {
			m.t.Fatalf("%s: the sender of %s is not known\n%s", r.id, e.ID, m.dump(r))
		}
	}
}

func (m *modelClient) checkSummary(r *truth, room *modelRoom) {
	m.t.Helper()
	n := len(r.events)
	counts, others := map[string]int{}, 0
	for key := range r.state(n) {
		if key.typ != "m.room.member" {
			continue
		}
		member := r.member(n, matrix.UserID(key.key))
		counts[member]++
		if key.key != string(m.c.UserID) && (member == "join" || member == "invite") {
			others++
		}
	}
	if room.joined != counts["join"] || room.invited != counts["invite"] {
		m.t.Fatalf("%s: %d joined and %d invited, want %v\n%s", r.id, room.joined, room.invited, counts, m.dump(r))
	}
	if i := r.last(n, stateKey{"m.room.name", ""}); others == 0 || i >= 0 && text1(r.events[i], "name") != "" {
		return
	}
	if len(room.heroes) != min(others, 5) || slices.Contains(room.heroes, m.c.UserID) {
		m.t.Fatalf("%s: heroes %v of %d others\n%s", r.id, room.heroes, others, m.dump(r))
	}
	for _, h := range room.heroes {
		if member := r.member(n, h); member != "join" && member != "invite" {
			m.t.Fatalf("%s: hero %s is %q\n%s", r.id, h, member, m.dump(r))
		}
	}
}
