package storage

import (
	"fmt"

	"hearth/storage/matrix"
)

// fewRooms is how many rooms with news are looked at one by one; beyond it the
// user's own rooms are.
const fewRooms = 100

var (
	someNews = stmt(`SELECT count(*) FROM (SELECT 1 FROM rooms WHERE latest_pos > ? LIMIT ?)`)
	// Both count a member for whom the room moved, and others whose own membership did.
	newsByRoom = stmt(newsColumns + `FROM rooms r CROSS JOIN memberships m ON m.room = r.num AND m.user_id = ?1
		WHERE r.latest_pos > ?2 AND ` + hasNews)
	newsByUser = stmt(newsColumns + `FROM memberships m CROSS JOIN rooms r ON r.num = m.room
		WHERE m.user_id = ?1 AND r.latest_pos > ?2 AND ` + hasNews)
)

const (
	newsColumns = `SELECT m.room, r.room_id, m.user_id, m.membership, m.event, ifnull(m.sender, m.user_id),
		m.pos, m.since, m.forgotten `
	hasNews = `r.purging = 0 AND (m.membership = 'join' OR m.pos > ?2) ORDER BY m.room`
)

// RoomsWithNews lists the user's rooms in which something was told, or the
// current state moved, after a position: those the user is joined to, and
// others if the user's own membership moved. It costs as much as there are
// rooms that moved, or rooms of the user, whichever is less; never anything
// for what is in a room.
func (rx *Rx) RoomsWithNews(user matrix.UserID, after int64) ([]Membership, error) {
	var n int64
	if err := rx.row(someNews, []any{after, fewRooms + 1}, &n); err != nil {
		return nil, fmt.Errorf("rooms with news: %w", err)
	}
	s := newsByRoom
	if n > fewRooms {
		s = newsByUser
	}
	return rx.memberships("rooms with news", s, string(user), after)
}
