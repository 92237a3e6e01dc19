package room

import (
	"errors"
	"fmt"
	"slices"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// restricted tells whether the user can join only by fulfilling a condition.
// Whoever is joined or invited needs none, and no condition helps who is banned.
func restricted(v *matrix.Version, state *view, user matrix.UserID) bool {
	ev := state.Event(matrix.TypeJoinRules, "")
	if ev == nil || !v.Restricted {
		return false
	}
	switch ev.JoinRules().JoinRule {
	case matrix.JoinRuleRestricted:
	case matrix.JoinRuleKnockRestricted:
		if !v.KnockRestricted {
			return false
		}
	default:
		return false
	}
	switch state.membership(user) {
	case matrix.MembershipJoin, matrix.MembershipInvite, matrix.MembershipBan:
		return false
	}
	return true
}

// authoriser chooses the local user who vouches for a user's join to a
// restricted room, for join_authorised_via_users_server. M_FORBIDDEN says that
// the user fulfils no condition, or, with [ErrOtherServer] behind it, that
// nobody here can vouch. Server-Server API, "Restricted rooms".
func authoriser(rx *storage.Rx, room storage.Room, state *view, user matrix.UserID) (matrix.UserID, error) {
	ok, err := admitted(rx, state.Event(matrix.TypeJoinRules, "").JoinRules(), user)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", matrix.Errorf(matrix.Forbidden, "the room is restricted and none of its conditions is met")
	}
	inviter, err := localInviter(rx, room, state)
	if err == nil && inviter == "" {
		err = &wrapped{matrix.Errorf(matrix.Forbidden, "nobody on this server may let others into the room"), ErrOtherServer}
	}
	return inviter, err
}

// admitted tells whether the user is joined to one of the rooms that are
// conditions. Rooms that are not known here fulfil none.
func admitted(rx *storage.Rx, joinRules *matrix.JoinRulesContent, user matrix.UserID) (ok bool, err error) {
	ok = joinRules.Allows(func(id matrix.RoomID) bool {
		other, readErr := rx.Room(id)
		var m storage.Membership
		if readErr == nil {
			m, readErr = rx.Membership(other.Num, user)
		}
		if readErr != nil && !errors.Is(readErr, storage.ErrNotFound) {
			err = readErr
		}
		return readErr == nil && m.Membership == matrix.MembershipJoin
	})
	if err != nil {
		return false, fmt.Errorf("conditions of a restricted room: %w", err)
	}
	return ok, nil
}

// localInviter finds a joined user of this server who may invite; empty: none.
// Those that the power levels and the create event name are looked at first,
// the members only where everybody may invite.
func localInviter(rx *storage.Rx, room storage.Room, state *view) (matrix.UserID, error) {
	levels := state.levels()
	need := levels.InviteLevel()
	var named []matrix.UserID
	for u := range levels.Users {
		named = append(named, u)
	}
	if create := state.Event(matrix.TypeCreate, ""); create != nil {
		named = append(named, create.Create().Creators...)
	}
	slices.Sort(named)
	may := func(u matrix.UserID) bool {
		return u.Server() == rx.ServerName() && rules.Power(room.Version, state, u) >= need
	}
	for _, u := range named {
		if may(u) && state.membership(u) == matrix.MembershipJoin {
			return u, state.err
		}
	}
	if levels.UsersDefault.Or(0) < need {
		return "", state.err
	}
	members, err := rx.LocalMembers(room.Num)
	if err != nil {
		return "", err
	}
	for _, u := range members {
		if may(u) {
			return u, nil
		}
	}
	return "", nil
}
