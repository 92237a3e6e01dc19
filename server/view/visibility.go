package view

import (
	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// Visible is those of the events that the user may see, in their order. Events
// of a sender who asked for erasure come redacted to who was not in the room
// then; messages of ignored senders are left out. Zero events are left out too.
// The events may be of any rooms. Client-Server API, "Room History Visibility".
func (v *Viewer) Visible(events []storage.Event) ([]storage.Event, error) {
	may, err := v.CanSee(events)
	if err != nil {
		return nil, err
	}
	seen := make([]storage.Event, 0, len(events))
	for i, e := range events {
		if !may[i] {
			continue
		}
		if _, isState := e.StateKey(); !isState {
			if ignored, err := v.Ignores(e.Sender()); err != nil {
				return nil, err
			} else if ignored {
				continue
			}
		}
		if e, err = v.unlessErased(e); err != nil {
			return nil, err
		}
		seen = append(seen, e)
	}
	return seen, nil
}

// unlessErased is the event, redacted if its sender was erased and the user was
// not in the room at it. Client-Server API, "POST /account/deactivate".
func (v *Viewer) unlessErased(e storage.Event) (storage.Event, error) {
	if erased, err := v.isErased(e.Sender()); err != nil || !erased {
		return e, err
	}
	if before := v.points[e.StateBefore]; placed(e) &&
		(v.membership(before) == matrix.MembershipJoin || v.membership(before.after(v, e)) == matrix.MembershipJoin) {
		return e, nil
	}
	e.Event = e.Redacted()
	return e, nil
}

// CanSee tells of each event whether history visibility lets the user see it.
// Events that were never told to clients are seen by nobody, except that a
// membership of the user's own may have come without the rest of the room.
func (v *Viewer) CanSee(events []storage.Event) ([]bool, error) {
	if err := v.locate(events); err != nil {
		return nil, err
	}
	may := make([]bool, len(events))
	for i, e := range events {
		if e.Num == 0 || e.Standing != uint8(rules.Accepted) || e.SoftFailed {
			continue
		}
		own := e.IsState(matrix.TypeMember, string(v.user.ID))
		if e.Pos == 0 || !placed(e) {
			may[i] = own
			continue
		}
		s, err := v.stayIn(e.Room)
		if err != nil {
			return nil, err
		}
		may[i] = v.allows(e, s, own && s.membership != "")
	}
	return may, nil
}

// allows applies the rules of the specification to a located event: those of the
// state before it, and where the event itself changes what they ask for, those
// of the state after it as well.
//
// A user who is not in the room any more sees nothing received after they left,
// also where it lies beside their leaving in the graph, so that the state at it
// still has them joined. Who was only ever invited sees no more than that.
func (v *Viewer) allows(e storage.Event, s stay, own bool) bool {
	before := v.points[e.StateBefore]
	after := before.after(v, e)
	within := s.within(e)
	for _, p := range [...]point{before, after} {
		switch visibility := v.visibility(p); {
		case visibility == visibleToWorld:
			return true
		case v.membership(p) == matrix.MembershipJoin:
			if within || own {
				return true
			}
		case visibility == visibleShared:
			if within {
				return true
			}
		case visibility == visibleInvited:
			if v.membership(p) == matrix.MembershipInvite && (within || own) {
				return true
			}
		}
	}
	return own && endsInvitation(v.membership(before), v.membership(after))
}

// endsInvitation tells whether a membership ends an invite or a knock, which the
// user learned of outside of the timeline and has to see go.
func endsInvitation(before, after string) bool {
	return (before == matrix.MembershipInvite || before == matrix.MembershipKnock) &&
		(after == matrix.MembershipLeave || after == matrix.MembershipBan)
}
