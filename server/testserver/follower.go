package testserver

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"hearth/storage/matrix"
)

// Follower is a device that keeps what its syncs tell of rooms, as a real
// client does, and can be held against what the server says to who asks. It is
// no use to several goroutines at once.
type Follower struct {
	*Client
	Rooms map[matrix.RoomID]*Followed
	// Faults are what no sequence of syncs may tell, whatever happened.
	Faults []string
}

// Followed is a room as a Follower knows it.
type Followed struct {
	Section string // join, invite, knock or leave: where it was told last
	// Events is the timeline, oldest first. Where one was told to be limited
	// there is an event without ID.
	Events []RoomEvent
	State  map[StateKey]RoomEvent

	inside  bool // was told as join once
	seen    map[matrix.EventID]bool
	dirty   bool
	checked int // events that were compared already
}

// StateKey names an entry of a room's state.
type StateKey struct{ Type, Key string }

// NewFollower follows as c's device, from the beginning.
func NewFollower(c *Client) *Follower {
	return &Follower{Client: c, Rooms: map[matrix.RoomID]*Followed{}}
}

// followFilter asks for as much as one answer tells.
const followFilter = `{"room":{"timeline":{"limit":100}}}`

// Follow syncs once and keeps what is told. Where the answer did not arrive
// whole, nothing changes, and the next Follow asks for the same. quiet tells
// that there was nothing new.
func (f *Follower) Follow(ctx context.Context, wait time.Duration) (quiet bool, err error) {
	s, err := f.syncFrom(ctx, f.since, wait, url.Values{"filter": {followFilter}})
	if err != nil {
		return false, err
	}
	f.take(s)
	f.since = s.NextBatch
	r := s.Rooms
	return len(s.ToDevice.Events)+len(r.Join)+len(r.Leave)+len(r.Invite)+len(r.Knock) == 0, nil
}

// CatchUp follows until nothing is new.
func (f *Follower) CatchUp() {
	f.site.tb.Helper()
	for {
		quiet, err := f.Follow(f.site.tb.Context(), 0)
		if err != nil {
			f.site.tb.Fatalf("%s: sync: %v", f.UserID, err)
		}
		if quiet {
			return
		}
	}
}

// Anew gives up what was told before, as a client does with timelines that it
// cannot continue: from here on, events may be told once more.
func (f *Follower) Anew() {
	for _, r := range f.Rooms {
		r.seen, r.checked = map[matrix.EventID]bool{}, 0
		r.Events = nil
	}
}

func (f *Follower) take(s *Sync) {
	for id, told := range s.Rooms.Join {
		f.takeRoom(id, "join", told)
	}
	for id, told := range s.Rooms.Leave {
		f.takeRoom(id, "leave", told)
	}
	for id := range s.Rooms.Invite {
		f.room(id).Section = "invite"
	}
	for id := range s.Rooms.Knock {
		f.room(id).Section = "knock"
	}
}

func (f *Follower) room(id matrix.RoomID) *Followed {
	r := f.Rooms[id]
	if r == nil {
		r = &Followed{State: map[StateKey]RoomEvent{}, seen: map[matrix.EventID]bool{}}
		f.Rooms[id] = r
	}
	r.dirty = true
	return r
}

func (f *Follower) takeRoom(id matrix.RoomID, section string, told SyncRoom) {
	r := f.room(id)
	if section == "join" && r.Section != "join" {
		r.State = map[StateKey]RoomEvent{} // who enters is told the whole state
	}
	r.Section, r.inside = section, r.inside || section == "join"
	if told.Timeline.Limited {
		for _, e := range r.Events {
			if f.goes(e) {
				delete(r.seen, e.ID)
			}
		}
		r.Events = append(r.Events, RoomEvent{})
	}
	if told.State != nil {
		r.apply(told.State.Events)
	}
	r.apply(told.Timeline.Events)
	for _, e := range told.Timeline.Events {
		if r.seen[e.ID] {
			f.fault("%s was told %s twice", id, e.ID)
		}
		r.seen[e.ID] = true
		r.Events = append(r.Events, e)
	}
}

func (r *Followed) apply(events []RoomEvent) {
	for _, e := range events {
		if e.StateKey != nil {
			r.State[StateKey{e.Type, *e.StateKey}] = e
		}
	}
}

func (f *Follower) fault(format string, args ...any) {
	f.Faults = append(f.Faults, fmt.Sprintf("%s %s: %s", f.UserID, f.DeviceID, fmt.Sprintf(format, args...)))
}

// Check compares what the Follower knows with what the server says now: which
// rooms the user is in, their state, and their events in order, as paging tells
// them. Nothing may happen meanwhile. Of rooms and events that were compared
// before, only what came since then is.
func (f *Follower) Check() {
	tb := f.site.tb
	tb.Helper()
	f.checkSections()
	for id, r := range f.Rooms {
		if r.dirty && r.inside && (r.Section == "join" || r.Section == "leave") {
			f.checkRoom(id, r)
		}
		r.dirty = false
	}
	for _, fault := range f.Faults {
		tb.Error(fault)
	}
	f.Faults = nil
}

// checkSections compares with a first sync, which tells of no room that was left.
func (f *Follower) checkSections() {
	tb := f.site.tb
	tb.Helper()
	fresh, err := f.syncFrom(tb.Context(), "", 0, url.Values{"filter": {`{"room":{"timeline":{"limit":1},"state":{"types":[]}}}`}})
	if err != nil {
		tb.Fatalf("%s: sync: %v", f.UserID, err)
	}
	want := map[matrix.RoomID]string{}
	for id := range fresh.Rooms.Join {
		want[id] = "join"
	}
	for id := range fresh.Rooms.Invite {
		want[id] = "invite"
	}
	for id := range fresh.Rooms.Knock {
		want[id] = "knock"
	}
	for id, r := range f.Rooms {
		if want[id] == "" {
			want[id] = "leave"
		}
		if r.Section != want[id] {
			f.fault("%s was told as %s, and is %s", id, r.Section, want[id])
		}
		delete(want, id)
	}
	for id, section := range want {
		f.fault("%s, which is %s, was never told", id, section)
	}
}

func (f *Follower) checkRoom(id matrix.RoomID, r *Followed) {
	tb := f.site.tb
	tb.Helper()
	from := r.checked
	for from > 0 && (r.Events[from-1].ID == "" || f.goes(r.Events[from-1])) {
		from--
	}
	var last matrix.EventID
	if from > 0 {
		last = r.Events[from-1].ID
	}
	told := slices.DeleteFunc(slices.Clone(r.Events[from:]), f.goes)
	if r.Section == "join" || f.mayPage(id) && slices.ContainsFunc(told, func(e RoomEvent) bool { return e.ID != "" }) {
		if bad := compare(told, slices.DeleteFunc(f.Page(id, last), f.goes)); bad != "" {
			f.fault("%s, told as %s: %s", id, r.Section, bad)
		}
	}
	r.checked = len(r.Events)
	if r.Section != "join" {
		return
	}
	var state []RoomEvent
	f.Must(http.MethodGet, RoomPath(id, "state"), nil).Decode(tb, &state)
	for _, e := range state {
		if got := r.State[StateKey{e.Type, *e.StateKey}].ID; got != e.ID {
			f.fault("%s: %s %q is %s, and was told as %q", id, e.Type, *e.StateKey, e.ID, got)
		}
	}
	if len(state) != len(r.State) {
		f.fault("%s: %d entries of state were told, and there are %d", id, len(r.State), len(state))
	}
}

// mayPage tells whether the user may read a room that was left: not if it was
// forgotten.
func (f *Follower) mayPage(id matrix.RoomID) bool {
	f.site.tb.Helper()
	a, err := f.Do(f.site.tb.Context(), http.MethodGet, RoomPath(id, "messages")+"?dir=b&limit=1", nil)
	if err != nil {
		f.site.tb.Fatal(err)
	}
	return a.Status == http.StatusOK
}

// goes tells whether an event has the user out of the room. Who rejects an
// invitation is told so beside the timeline, as it were: it is followed by what
// came before it, should the user join later, and is no part of what others see.
func (f *Follower) goes(e RoomEvent) bool {
	if e.Type != matrix.TypeMember || *e.StateKey != string(f.UserID) {
		return false
	}
	var content struct {
		Membership string `json:"membership"`
	}
	_ = json.Unmarshal(e.Content, &content)
	return content.Membership == matrix.MembershipLeave || content.Membership == matrix.MembershipBan
}

// compare holds a timeline against all there is from its beginning on: but for
// gaps nothing may be missing.
func compare(told, all []RoomEvent) string {
	at := 0
	for i, e := range told {
		if e.ID == "" {
			continue
		}
		where := slices.IndexFunc(all[at:], func(o RoomEvent) bool { return o.ID == e.ID })
		switch {
		case where < 0:
			return fmt.Sprintf("event %d, %s, stands elsewhere or nowhere in the room", i, e.ID)
		case where > 0 && (i == 0 || told[i-1].ID != ""):
			return fmt.Sprintf("%d events were lost before event %d, %s", where, i, e.ID)
		}
		at += where + 1
	}
	if at == len(all) || len(told) > 0 && told[len(told)-1].ID == "" {
		return ""
	}
	var lost []string
	for _, e := range all[at:] {
		lost = append(lost, fmt.Sprintf("%s %s", e.Type, e.ID))
	}
	return fmt.Sprintf("the last events were not told: %s", strings.Join(lost, ", "))
}

// Page lists the events of a room after one of them, as paging tells them;
// after "" those that the user may see from the beginning on.
func (c *Client) Page(room matrix.RoomID, after matrix.EventID) []RoomEvent {
	c.site.tb.Helper()
	var all []RoomEvent
	for from := ""; ; {
		var page struct {
			Chunk []RoomEvent `json:"chunk"`
			End   string      `json:"end"`
		}
		q := url.Values{"dir": {"b"}, "limit": {"100"}}
		if from != "" {
			q.Set("from", from)
		}
		c.Must(http.MethodGet, RoomPath(room, "messages")+"?"+q.Encode(), nil).Decode(c.site.tb, &page)
		for _, e := range page.Chunk {
			if e.ID == after {
				slices.Reverse(all)
				return all
			}
			all = append(all, e)
		}
		if from = page.End; from == "" {
			slices.Reverse(all)
			return all
		}
	}
}
