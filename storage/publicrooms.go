package storage

import (
	"fmt"
	"math"
)

// PublicAfter is where a page of the directory begins: behind a room with so
// many members. Zero: at the top.
type PublicAfter struct {
	Joined int64
	Room   RoomNum
}

var publicRooms = stmt(`SELECT ` + roomColumns + ` FROM rooms WHERE public = 1 AND purging = 0
	AND (joined, num) < (?, ?) ORDER BY joined DESC, num DESC LIMIT ?`)

// PublicRooms lists the rooms of the directory, those with most members first.
func (rx *Rx) PublicRooms(after PublicAfter, limit int) ([]Room, error) {
	if after == (PublicAfter{}) {
		after.Joined = math.MaxInt64
	}
	rows, err := rx.query(publicRooms, after.Joined, int64(after.Room), limit)
	if err != nil {
		return nil, fmt.Errorf("public rooms: %w", err)
	}
	defer rows.Close()
	var list []Room
	for rows.Next() {
		r, err := scanRoom(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}
