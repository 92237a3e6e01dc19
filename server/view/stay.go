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

// followStay finds the end of the user's last stay, as the room's current state
// had it then. What the events say that they replaced is another matter: that is
// what their own branch of the graph had.
func (v *Viewer) followStay(m storage.Membership) (stay, error) {
	s := stay{membership: m.Membership}
	if s.joined() {
		return s, nil
	}
	before, err := v.MemberAt(m, m.Since-1)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return s, nil
	case err != nil:
		return stay{}, err
	case before.Membership() != matrix.MembershipJoin:
		s.end, _, err = v.LastLeft(m, before)
		return s, err
	}
	if s.end, err = v.MemberAt(m, m.Since); errors.Is(err, storage.ErrNotFound) {
		s.end, err = storage.Event{Num: -1, Room: m.Room}, nil // no event: a state resolution took the entry away
	}
	s.end.Pos = m.Since
	return s, err
}

// LeftAt is the position at which the user stopped being a member of a room the
// last time; 0 if they never were one, are one, or forgot the room.
func (v *Viewer) LeftAt(room storage.RoomNum) (int64, error) {
	s, err := v.stayIn(room)
	return s.end.Pos, err
}

// LastLeft goes back from a membership of the user's that was in the room's
// current state once, and had them outside, to the one with which they stopped
// being a member; the zero event if there is none. out tells whether one of
// those it passed has them leave or banned.
func (v *Viewer) LastLeft(m storage.Membership, e storage.Event) (left storage.Event, out bool, err error) {
	for range maxChanges {
		out = out || e.Membership() == matrix.MembershipLeave || e.Membership() == matrix.MembershipBan
		if e.Pos <= 0 {
			break // from before this server was in the room
		}
		before, err := v.MemberAt(m, e.Pos-1)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return storage.Event{}, out, nil
		case err != nil:
			return storage.Event{}, false, err
		case before.Membership() == matrix.MembershipJoin:
			return e, true, nil
		case before.Pos >= e.Pos:
			return storage.Event{}, out, nil // resolution brought an older one back: no order to follow
		}
		e = before
	}
	return storage.Event{}, out, nil
}

// MemberAt is the user's membership event in the room's current state as it was
// at a position; [storage.ErrNotFound] where there was none.
func (v *Viewer) MemberAt(m storage.Membership, pos int64) (storage.Event, error) {
	state, err := v.rx.CurrentStateAt(m.Room, pos)
	if err != nil {
		return storage.Event{}, err
	}
	num, err := v.rx.StateEvent(state, matrix.TypeMember, string(m.User))
	if err != nil {
		return storage.Event{}, err
	}
	return v.rx.EventByNum(num)
}
