package room

import (
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage"
	"hearth/storage/matrix"
)

// Act is what a user does to a membership.
type Act struct {
	Sender  matrix.UserID
	Target  matrix.UserID // whom it concerns; of a join, leave or knock it is the sender
	Reason  string
	Content jsontext.Value // further content, such as displayname
	Device  int64
	TxnID   string
}

// Join lets the sender join. To a restricted room it finds who vouches for it.
// Who is in the room already, joins again without an event; profiles change by
// [Rooms.Send]. Its error is M_FORBIDDEN, of a
// restricted room that another server may let the user into with [ErrOtherServer].
func (r *Rooms) Join(tx *storage.Tx, room storage.Room, a Act) error {
	a.Target = a.Sender
	if r.current(tx.Rx, room.Num).membership(a.Sender) == matrix.MembershipJoin {
		return nil
	}
	return r.move(tx, room, a, matrix.MembershipJoin)
}

// Leave lets the sender leave, reject an invitation or take back a knock. Who
// has left already, leaves again without an event. Its error is M_FORBIDDEN.
func (r *Rooms) Leave(tx *storage.Tx, room storage.Room, a Act) error {
	a.Target = a.Sender
	if r.current(tx.Rx, room.Num).membership(a.Sender) == matrix.MembershipLeave {
		return nil
	}
	return r.move(tx, room, a, matrix.MembershipLeave)
}

// Knock lets the sender ask to be invited. Its error is M_FORBIDDEN.
func (r *Rooms) Knock(tx *storage.Tx, room storage.Room, a Act) error {
	a.Target = a.Sender
	return r.move(tx, room, a, matrix.MembershipKnock)
}

// Invite invites the target. Its error is M_FORBIDDEN. Whether the target
// wants to be invited is the caller's to ask.
func (r *Rooms) Invite(tx *storage.Tx, room storage.Room, a Act) error {
	return r.move(tx, room, a, matrix.MembershipInvite)
}

// Kick has the target leave, who is joined, invited or knocks. Its error is
// M_FORBIDDEN.
func (r *Rooms) Kick(tx *storage.Tx, room storage.Room, a Act) error {
	state := r.current(tx.Rx, room.Num)
	if err := joined(state, a.Sender); err != nil {
		return err
	}
	switch state.membership(a.Target) {
	case matrix.MembershipJoin, matrix.MembershipInvite, matrix.MembershipKnock:
		return r.move(tx, room, a, matrix.MembershipLeave)
	}
	if state.err != nil {
		return state.err
	}
	return matrix.Errorf(matrix.Forbidden, "the user is not in the room")
}

// Ban bans the target, in the room or not. Its error is M_FORBIDDEN.
func (r *Rooms) Ban(tx *storage.Tx, room storage.Room, a Act) error {
	return r.move(tx, room, a, matrix.MembershipBan)
}

// Unban lifts the target's ban. Its errors are M_FORBIDDEN, and M_BAD_STATE
// where the target is not banned.
func (r *Rooms) Unban(tx *storage.Tx, room storage.Room, a Act) error {
	state := r.current(tx.Rx, room.Num)
	if err := joined(state, a.Sender); err != nil {
		return err
	}
	if was := state.membership(a.Target); state.err != nil {
		return state.err
	} else if was != matrix.MembershipBan {
		return matrix.Errorf(matrix.BadState, "the user is not banned")
	}
	return r.move(tx, room, a, matrix.MembershipLeave)
}

// joined refuses who is not in the room: what others are in it is nothing
// that strangers learn from an error.
func joined(state *view, user matrix.UserID) error {
	if state.membership(user) != matrix.MembershipJoin {
		return matrix.Errorf(matrix.Forbidden, "you are not in the room")
	}
	return state.err
}

// move sends the member event.
func (r *Rooms) move(tx *storage.Tx, room storage.Room, a Act, membership string) error {
	content, err := parseObject("content", a.Content)
	if err != nil {
		return err
	}
	if a.Reason != "" {
		content.set("reason", a.Reason)
	}
	content.set("membership", membership)
	key := string(a.Target)
	d := Draft{Type: matrix.TypeMember, StateKey: &key, Sender: a.Sender, Content: content.json(), Device: a.Device, TxnID: a.TxnID}
	_, err = r.Send(tx, room, d)
	return err
}
