package syncer

import (
	"errors"

	"hearth/storage"
	"hearth/storage/matrix"
)

// The kinds of rooms, as the response names them.
const (
	kindJoin   = "join"
	kindInvite = "invite"
	kindKnock  = "knock"
	kindLeave  = "leave"
)

// span is what one response tells of one room: the part (after, upto] of its
// stream, and the state at its end.
type span struct {
	kind string
	m    storage.Membership // the user's own, as it is now

	after, upto int64
	// whole: the client knows nothing of the state, or asked for all of it.
	whole bool
	// fresh: the client does not have the room in this section yet, so it is
	// told even where nothing in it passes the filter.
	fresh bool
	// gap: what came before after was not told either, or not for sure.
	gap bool
	// back: the client was told of the room's state before, for sure of nothing
	// that moved after known, and is told of it anew.
	back  bool
	known int64
	// outside: the user never was inside in this span, and is told of nothing
	// but the own membership.
	outside bool
}

// errNothing is returned for a room that there is nothing to tell of.
var errNothing = errors.New("nothing to tell of this room")

// spanOf decides what to tell of a room.
func (b *builder) spanOf(m storage.Membership) (span, error) {
	sp := span{m: m, after: b.since, upto: b.pos, whole: b.whole}
	switch m.Membership {
	case matrix.MembershipJoin:
		sp.kind = kindJoin
		if b.since > 0 && m.Since > b.since {
			return b.joinedAnew(sp)
		}
		sp.fresh = b.since == 0
		return sp, nil
	case matrix.MembershipInvite:
		sp.kind = kindInvite
	case matrix.MembershipKnock:
		sp.kind = kindKnock
	default:
		sp.kind = kindLeave
		return b.left(sp)
	}
	if m.Pos <= b.since && !b.whole {
		return sp, errNothing
	}
	return sp, nil
}

// joinedAnew is the span of a room that the user joined since the last
// response. Unless it was only left in between, the whole state is told, and of
// the timeline also what came before, as far as it may be seen and was not told:
// nothing of what was before the user left the last time. A room that is new to
// the client counts as limited: clients expect to ask for its history.
func (b *builder) joinedAnew(sp span) (span, error) {
	e, err := b.viewer.MemberAt(sp.m, b.since)
	if errors.Is(err, storage.ErrNotFound) {
		sp.after, sp.whole, sp.fresh, sp.gap = 0, true, true, true
		return sp, nil
	}
	if err != nil || e.Membership() == matrix.MembershipJoin {
		return sp, err
	}
	sp.fresh, sp.gap = true, true
	_, err = b.comeBack(&sp, e)
	return sp, err
}

// comeBack has a span begin where the user left before, given the membership at
// the client's token, and tells whether there was a time before.
func (b *builder) comeBack(sp *span, e storage.Event) (gap bool, err error) {
	left, gap, err := b.viewer.LastLeft(sp.m, e)
	sp.after = left.Pos
	sp.whole, sp.back = true, sp.after > 0
	if !invited(e) {
		sp.known = sp.after
	}
	return gap, err
}

// invited tells whether a membership has the client know the room by its
// stripped state alone: it may have been told so instead of how things stood
// when the user left before.
func invited(e storage.Event) bool {
	return e.Membership() == matrix.MembershipInvite || e.Membership() == matrix.MembershipKnock
}

// left is the span of a room the user has left, or never entered. It is told
// once, up to the event with which the user left; later only on request. A
// client whose history is lost may have missed it, and have been a member the
// last it heard: it is told of every room that the user is out of.
//
// Spec deviation: forgotten rooms should never appear, but one that was left
// and forgotten since the last response is told, with nothing but the user's
// membership. The user's other devices would keep it for ever.
func (b *builder) left(sp span) (span, error) {
	moved := b.since > 0 && sp.m.Since > b.since
	archived := b.whole && b.filter.Room.IncludeLeave && !sp.m.Forgotten
	if !archived && !moved && !b.lost {
		return sp, errNothing
	}
	sp.fresh = true
	if sp.m.Forgotten || b.lost && !archived {
		sp.outside = true
		return sp, nil
	}
	at, err := b.viewer.LeftAt(sp.m.Room)
	if err != nil {
		return sp, err
	}
	switch {
	case at == 0, at <= b.since && !archived:
		sp.outside = true // invites refused, bans of people outside
		sp.gap, err = b.mayHaveMissed(sp.m, at)
		return sp, err
	case at <= b.since, b.since == 0:
		sp.upto = at
		return sp, nil
	}
	sp.upto = at
	e, err := b.viewer.MemberAt(sp.m, b.since)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		sp.after, sp.whole = 0, true
		return sp, nil
	case err != nil, e.Membership() == matrix.MembershipJoin:
		return sp, err
	}
	sp.gap, err = b.comeBack(&sp, e) // in and out between two responses
	return sp, err
}

// mayHaveMissed tells whether the client may lack the end of what the user saw
// of the room before leaving it, given the position of that: who was told of an
// invitation or a knock instead of the leaving before it was not told what came
// before that either.
func (b *builder) mayHaveMissed(m storage.Membership, leftAt int64) (bool, error) {
	if leftAt == 0 {
		return false, nil
	}
	e, err := b.viewer.MemberAt(m, b.since)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return err == nil && invited(e), err
}
