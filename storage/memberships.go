package storage

import (
	"fmt"

	"hearth/storage/matrix"
)

// Membership is a user's membership of a room by its current state.
type Membership struct {
	Room       RoomNum
	RoomID     matrix.RoomID
	User       matrix.UserID
	Membership string
	Event      EventNum      // 0: the state has no entry any more, which counts as having left
	Sender     matrix.UserID // who made it so: who invited, kicked, banned
	Pos        int64         // where the entry became this event
	Since      int64         // where it became this membership; a new profile does not move it
	Forgotten  bool
}

const membershipColumns = `SELECT m.room, r.room_id, m.user_id, m.membership, m.event, ifnull(m.sender, m.user_id),
	m.pos, m.since, m.forgotten FROM memberships m CROSS JOIN rooms r ON r.num = m.room `

func (m *Membership) fields() []any {
	return []any{
		(*int64)(&m.Room), (*string)(&m.RoomID), (*string)(&m.User), &m.Membership, (*int64)(&m.Event), (*string)(&m.Sender),
		&m.Pos, &m.Since, &m.Forgotten,
	}
}

// memberships runs a query of membershipColumns.
func (rx *Rx) memberships(what string, s *statement, args ...any) ([]Membership, error) {
	rows, err := rx.query(s, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer rows.Close()
	var list []Membership
	for rows.Next() {
		var m Membership
		if err := rows.Scan(m.fields()...); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		list = append(list, m)
	}
	return list, rows.Err()
}

var membership = stmt(membershipColumns + `WHERE m.room = ? AND m.user_id = ?`)

// Membership is a user's membership of a room; [ErrNotFound] where the user
// never was in the current state.
func (rx *Rx) Membership(room RoomNum, user matrix.UserID) (m Membership, err error) {
	if err := rx.row(membership, []any{int64(room), string(user)}, m.fields()...); err != nil {
		return Membership{}, fmt.Errorf("membership: %w", err)
	}
	return m, nil
}

var membershipsOf = stmt(membershipColumns + `WHERE m.user_id = ? AND r.purging = 0 ORDER BY m.room`)

// MembershipsOf lists a user's memberships of all rooms, those left and
// forgotten too, by room number.
func (rx *Rx) MembershipsOf(user matrix.UserID) ([]Membership, error) {
	return rx.memberships("memberships of user", membershipsOf, string(user))
}

var roomsIn = stmt(`SELECT r.room_id FROM memberships m CROSS JOIN rooms r ON r.num = m.room
	WHERE m.user_id = ? AND m.membership = ? AND r.purging = 0 ORDER BY m.room`)

// RoomsIn lists the rooms in which the user has this membership, by number.
func (rx *Rx) RoomsIn(user matrix.UserID, membership string) ([]matrix.RoomID, error) {
	list, err := textsOf[matrix.RoomID](rx, roomsIn, string(user), membership)
	if err != nil {
		return nil, fmt.Errorf("rooms of user: %w", err)
	}
	return list, nil
}

var membersIn = stmt(membershipColumns + `WHERE m.room = ? AND m.membership = ? AND m.user_id > ? ORDER BY m.user_id LIMIT ?`)

// Members lists those who have this membership of a room, by user ID, behind
// one. A limit below 0 is none.
func (rx *Rx) Members(room RoomNum, membership string, after matrix.UserID, limit int) ([]Membership, error) {
	return rx.memberships("members", membersIn, int64(room), membership, string(after), limit)
}

var (
	heroes = stmt(membershipColumns + `WHERE m.room = ? AND m.membership IN ('join', 'invite') AND m.user_id <> ?
		ORDER BY m.since, m.user_id LIMIT ?`)
	pastHeroes = stmt(membershipColumns + `WHERE m.room = ? AND m.membership IN ('leave', 'ban') AND m.event <> 0 AND m.user_id <> ?
		ORDER BY m.since, m.user_id LIMIT ?`)
)

// Heroes lists the first who are joined or invited, but for one user, in the
// order in which they came. Client-Server API, "Syncing", m.heroes.
func (rx *Rx) Heroes(room RoomNum, but matrix.UserID, limit int) ([]Membership, error) {
	return rx.memberships("heroes", heroes, int64(room), string(but), limit)
}

// PastHeroes is [Rx.Heroes] of those who left or were banned, for a room that
// has nobody else. It sorts all of them.
func (rx *Rx) PastHeroes(room RoomNum, but matrix.UserID, limit int) ([]Membership, error) {
	return rx.memberships("past heroes", pastHeroes, int64(room), string(but), limit)
}

var forget = stmt(`UPDATE memberships SET forgotten = 1, pos = ? WHERE room = ? AND user_id = ?
	AND membership IN ('leave', 'ban') AND forgotten = 0`)

// Forget hides a room from a user who has left it or was banned, until they
// are a member again. From one who is a member still it hides nothing. A room
// that nobody here remembers is deleted 30 days later.
// Client-Server API, "POST /rooms/{roomId}/forget".
func (tx *Tx) Forget(room RoomNum, user matrix.UserID) error {
	n, err := tx.exec(forget, tx.NextPos(), int64(room), string(user))
	if err == nil && n > 0 {
		err = tx.noteForgotten(room)
	}
	if err != nil {
		return fmt.Errorf("forget room: %w", err)
	}
	return nil
}

var localJoined = stmt(`SELECT user_id FROM memberships WHERE room = ? AND membership = 'join' AND local = 1 ORDER BY user_id`)

// LocalMembers lists the joined members of this server, by user ID.
func (rx *Rx) LocalMembers(room RoomNum) ([]matrix.UserID, error) {
	list, err := textsOf[matrix.UserID](rx, localJoined, int64(room))
	if err != nil {
		return nil, fmt.Errorf("local members: %w", err)
	}
	return list, nil
}

// textsOf runs a query of one column of text.
func textsOf[S ~string](rx *Rx, s *statement, args ...any) ([]S, error) {
	rows, err := rx.query(s, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []S
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		list = append(list, S(text))
	}
	return list, rows.Err()
}
