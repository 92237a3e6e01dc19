package view

import (
	"errors"
	"fmt"

	"hearth/storage"
	"hearth/storage/matrix"
)

// stay is what a user is in a room, and until when they were in it.
type stay struct {
	membership string        // now; "" if there never was one, or the room was forgotten
	end        storage.Event // the event that ended their last stay; zero while it lasts, and if there was none
}

func (s stay) joined() bool { return s.membership == matrix.MembershipJoin }

// departed tells that the user was in the room once and is not any more.
func (s stay) departed() bool { return s.end.Num != 0 }

// within tells whether the user was in the room at some point after the event.
// Live events are ordered by the stream. One that was fetched later from other
// servers has no honest place in it: it counts by depth, the strict way.
func (s stay) within(e storage.Event) bool {
	switch {
	case s.joined():
		return true
	case !s.departed():
		return false
	case e.Num == s.end.Num:
		return true
	case e.Pos > 0:
		return e.Pos < s.end.Pos
	default:
		return e.Depth < s.end.Depth
	}
}

// maxChanges bounds how far back a stay is looked for, in changes of the user's
// membership. Who was invited and left more often since sees nothing.
const maxChanges = 1000

// stayIn finds the user's stay in a room. A forgotten room is one the user never
// was in. Client-Server API, "Leaving rooms".
func (v *Viewer) stayIn(room storage.RoomNum) (stay, error) {
	if s, ok := v.stays[room]; ok {
		return s, nil
	}
	var s stay
	m, err := v.rx.Membership(room, v.user.ID)
	switch {
	case errors.Is(err, storage.ErrNotFound):
	case err != nil:
		return stay{}, fmt.Errorf("stay: %w", err)
	case m.Forgotten:
	default:
		if s, err = v.followStay(m); err != nil {
			return stay{}, fmt.Errorf("stay: %w", err)
		}
	}
	v.stays[room] = s
	return s, nil
}

// followStay goes back through the user's memberships to the last join.
func (v *Viewer) followStay(m storage.Membership) (stay, error) {
	s := stay{membership: m.Membership}
	var e storage.Event
	var err error
	if m.Event != 0 {
		e, err = v.rx.EventByNum(m.Event)
	} else {
		e, err = v.vanished(m)
	}
	if err != nil {
		return stay{}, err
	}
	if s.joined() {
		return s, nil
	}
	for range maxChanges {
		if e.Replaces == 0 {
			return s, nil
		}
		was, err := v.rx.EventByNum(e.Replaces)
		if err != nil {
			return stay{}, err
		}
		if was.Membership() == matrix.MembershipJoin {
			s.end = e
			return s, nil
		}
		e = was
	}
	return s, nil
}

// vanished stands for the event that ended a membership where none did: a state
// resolution took the entry out of the state.
func (v *Viewer) vanished(m storage.Membership) (storage.Event, error) {
	e := storage.Event{Num: -1, Room: m.Room, Pos: m.Pos}
	changes, err := v.rx.StateChanges(m.Room, m.Pos-1, m.Pos)
	if err != nil {
		return storage.Event{}, err
	}
	for _, c := range changes {
		if c.Type == matrix.TypeMember && c.StateKey == string(m.User) {
			e.Replaces = c.Was
		}
	}
	return e, nil
}
