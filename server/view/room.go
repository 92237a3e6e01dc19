package view

import (
	"errors"
	"fmt"
	"slices"

	"hearth/storage"
	"hearth/storage/matrix"
)

// Room is a room as the user may read it.
type Room struct {
	storage.Room
	Membership string // the user's, now; "" if there never was one, or the room was forgotten
	// Upto is the position up to which the room's stream may hold what the user
	// may see: the snapshot's, or that of their leaving. What of it they do see,
	// [Viewer.Visible] tells.
	Upto int64

	state   storage.StateNum // the state as of their leaving
	current bool             // the state is the current one
}

// Joined tells whether the user is in the room.
func (r *Room) Joined() bool { return r.Membership == matrix.MembershipJoin }

// Room opens a room to the user: as it is if they are in it; as it was when they
// left if they ever were, or were banned; as it is again if its history is
// readable by everyone now. Any other room, known or not, is [ErrHidden].
// Client-Server API, "Room History Visibility" and "Room Previews".
func (v *Viewer) Room(id matrix.RoomID) (*Room, error) {
	room, err := v.rx.Room(id)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, ErrHidden
	} else if err != nil {
		return nil, fmt.Errorf("view of a room: %w", err)
	}
	r, err := v.open(room)
	if err != nil && !errors.Is(err, ErrHidden) {
		err = fmt.Errorf("view of room %s: %w", id, err)
	}
	return r, err
}

func (v *Viewer) open(room storage.Room) (*Room, error) {
	s, err := v.stayIn(room.Num)
	if err != nil {
		return nil, err
	}
	r := &Room{Room: room, Membership: s.membership, Upto: v.rx.Pos(), state: room.State, current: true}
	if s.joined() {
		return r, nil
	}
	world, err := v.worldReadable(room)
	if err != nil {
		return nil, err
	}
	switch {
	case s.departed():
		r.current = false
		r.state, err = v.rx.CurrentStateAt(room.Num, s.end.Pos)
		if errors.Is(err, storage.ErrNotFound) { // of a stay that this server saw nothing of
			return nil, ErrHidden
		} else if err != nil {
			return nil, err
		}
		if !world {
			r.Upto = s.end.Pos
		}
		return r, nil
	case world:
		return r, nil
	default:
		return nil, ErrHidden
	}
}

// worldReadable tells whether everyone may read what is sent to the room now.
func (v *Viewer) worldReadable(room storage.Room) (bool, error) {
	e, err := v.rx.CurrentState(room.Num, matrix.TypeHistoryVisibility, "")
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return err == nil && visibilityOf(e) == visibleToWorld, err
}

// State lists which events are the state of the room as the user may read it, of
// these types, or all if none are named: numbers, for the events may be many.
func (v *Viewer) State(r *Room, types ...string) ([]storage.EventNum, error) {
	if !r.current {
		return v.stateIn(r.state, types)
	}
	entries, err := v.rx.CurrentStateKeys(r.Num)
	if len(types) > 0 {
		entries = slices.DeleteFunc(entries, func(e storage.StateKeyed) bool { return !slices.Contains(types, e.Type) })
	}
	return eventsOf(entries), err
}

// stateIn is State of a snapshot.
func (v *Viewer) stateIn(s storage.StateNum, types []string) ([]storage.EventNum, error) {
	if len(types) == 0 {
		return v.rx.StateNums(s)
	}
	var nums []storage.EventNum
	for _, typ := range types {
		entries, err := v.rx.StateOfType(s, typ)
		if err != nil {
			return nil, err
		}
		nums = append(nums, eventsOf(entries)...)
	}
	return nums, nil
}

func eventsOf(entries []storage.StateKeyed) []storage.EventNum {
	nums := make([]storage.EventNum, len(entries))
	for i, e := range entries {
		nums[i] = e.Event
	}
	return nums
}

// StateEvent is one event of the state of the room as the user may read it;
// [storage.ErrNotFound] if there is none.
func (v *Viewer) StateEvent(r *Room, typ, key string) (storage.Event, error) {
	if r.current {
		return v.rx.CurrentState(r.Num, typ, key)
	}
	num, err := v.rx.StateEvent(r.state, typ, key)
	if err != nil {
		return storage.Event{}, err
	}
	return v.rx.EventByNum(num)
}

// StateAfter is State after a told event that the user sees, the event's own
// change included; of one that shows nothing of the room, the state as the user
// may read it.
func (v *Viewer) StateAfter(e storage.Event, types ...string) ([]storage.EventNum, error) {
	if r, err := v.insteadOf(e); err != nil {
		return nil, err
	} else if r != nil {
		return v.State(r, types...)
	}
	state, err := v.stateIn(e.StateBefore, types)
	key, isState := e.StateKey()
	if err != nil || !isState || len(types) > 0 && !slices.Contains(types, e.Type()) {
		return state, err
	}
	was, err := v.rx.StateEvent(e.StateBefore, e.Type(), key)
	if i := slices.Index(state, was); err == nil && i >= 0 {
		state[i] = e.Num
		return state, nil
	}
	if errors.Is(err, storage.ErrNotFound) {
		return append(state, e.Num), nil
	}
	return nil, err
}

// insteadOf is the room as the user may read it, where an event that they see
// does not come with the state of the room; otherwise it is nil. A membership of
// their own that was made while they were outside, as when they refuse an invite
// after they left, is told to them, but not what the room was then.
func (v *Viewer) insteadOf(e storage.Event) (*Room, error) {
	s, err := v.stayIn(e.Room)
	if err != nil {
		return nil, err
	}
	if placed(e) {
		if s.within(e) {
			return nil, nil
		}
		if err := v.locate([]storage.Event{e}); err != nil {
			return nil, err
		}
		before := v.points[e.StateBefore]
		if v.visibility(before) == visibleToWorld || v.visibility(before.after(v, e)) == visibleToWorld {
			return nil, nil
		}
	}
	room, err := v.rx.RoomByNum(e.Room)
	if err != nil {
		return nil, err
	}
	return v.open(room)
}

// MembersAt lists the memberships of these users before an event that the user
// sees, as far as they have any, in the order of users. It serves lazy loading.
// Of an event that shows nothing of the room they are those that the user may read.
func (v *Viewer) MembersAt(e storage.Event, users []matrix.UserID) ([]storage.Event, error) {
	keys := make([]storage.StateKey, len(users))
	for i, u := range users {
		keys[i] = storage.StateKey{Type: matrix.TypeMember, StateKey: string(u)}
	}
	at := e.StateBefore
	if r, err := v.insteadOf(e); err != nil {
		return nil, err
	} else if r != nil {
		at = r.state
	}
	nums, err := v.rx.StateEvents(at, keys...)
	if err != nil {
		return nil, err
	}
	found := nums[:0]
	for _, n := range nums {
		if n != 0 {
			found = append(found, n)
		}
	}
	events, err := v.rx.EventsByNum(found)
	return slices.DeleteFunc(events, func(e storage.Event) bool { return e.Num == 0 }), err
}

// StateAt is State at a place that the user paged to. It is [ErrHidden] where they
// may not see the event before that place. A place after their leaving means
// their leaving.
func (v *Viewer) StateAt(r *Room, at Token, types ...string) ([]storage.EventNum, error) {
	if at.InStream() && at.Before > r.Upto {
		return v.State(r, types...)
	}
	last, err := v.lastBefore(r, at)
	if err != nil {
		return nil, err
	}
	if may, err := v.CanSee([]storage.Event{last}); err != nil {
		return nil, err
	} else if !may[0] {
		return nil, ErrHidden
	}
	if !at.InStream() {
		return v.StateAfter(last, types...)
	}
	state, err := v.rx.CurrentStateAt(r.Num, at.Before-1)
	if err != nil {
		return nil, fmt.Errorf("state at a place: %w", err)
	}
	return v.stateIn(state, types)
}

// lastBefore is the last event before a place; [ErrHidden] if there is none.
func (v *Viewer) lastBefore(r *Room, at Token) (storage.Event, error) {
	var events []storage.Event
	var err error
	if at.InStream() {
		events, _, err = v.rx.RoomNews(r.Num, 0, at.Before-1, 1)
	} else {
		events, _, err = v.rx.Timeline(r.Num, storage.Cursor(at), true, 1)
	}
	switch {
	case err != nil:
		return storage.Event{}, err
	case len(events) == 0:
		return storage.Event{}, ErrHidden
	}
	return events[0], nil
}
