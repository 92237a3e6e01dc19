package storage

import (
	"fmt"

	"hearth/storage/matrix"
)

// Numbers inside this file, by which its tables refer to each other. 0 is none;
// a number is never used again.
type (
	// RoomNum is the number of a room.
	RoomNum int64
	// EventNum is the number of an event.
	EventNum int64
	// StateNum is the number of a snapshot of state.
	StateNum int64
)

// Room is a room this server knows.
type Room struct {
	Num       RoomNum
	ID        matrix.RoomID
	Version   *matrix.Version
	State     StateNum // the current state: resolved over all forward extremities; 0: the room has none yet
	LatestPos int64    // of the last told event or change of the current state
	Joined    int64    // members of the current state
	Invited   int64
	Public    bool // in the directory
}

const roomColumns = `num, room_id, version, state, latest_pos, joined, invited, public`

var (
	roomByID  = stmt(`SELECT ` + roomColumns + ` FROM rooms WHERE room_id = ? AND purging = 0`)
	roomByNum = stmt(`SELECT ` + roomColumns + ` FROM rooms WHERE num = ? AND purging = 0`)
)

// Room finds a room by its ID; [ErrNotFound] where it is not known.
func (rx *Rx) Room(id matrix.RoomID) (Room, error) { return rx.oneRoom(roomByID, string(id)) }

// RoomByNum finds a room by its number; [ErrNotFound] where it is gone.
func (rx *Rx) RoomByNum(n RoomNum) (Room, error) { return rx.oneRoom(roomByNum, int64(n)) }

func (rx *Rx) oneRoom(s *statement, key any) (r Room, err error) {
	rows, err := rx.query(s, key)
	if err != nil {
		return Room{}, fmt.Errorf("room: %w", err)
	}
	defer rows.Close()
	if !rows.Next() {
		if err = rows.Err(); err == nil {
			err = ErrNotFound
		}
		return Room{}, fmt.Errorf("room: %w", err)
	}
	return scanRoom(rows)
}

func scanRoom(rows *rows) (r Room, err error) {
	var version string
	err = rows.Scan((*int64)(&r.Num), (*string)(&r.ID), &version, (*int64)(&r.State), &r.LatestPos, &r.Joined, &r.Invited, &r.Public)
	if err == nil {
		r.Version, err = storedVersion(version)
	}
	if err != nil {
		return Room{}, fmt.Errorf("room: %w", err)
	}
	return r, nil
}

func storedVersion(id string) (*matrix.Version, error) {
	v, ok := matrix.VersionOf(matrix.RoomVersion(id))
	if !ok {
		return nil, fmt.Errorf("room version %q is not known", id)
	}
	return v, nil
}

var insertRoom = stmt(`INSERT INTO rooms (room_id, version) VALUES (?, ?)`)

// AddRoom makes a room without events. One that is there, or is still being
// purged, is [ErrConflict].
func (tx *Tx) AddRoom(id matrix.RoomID, v *matrix.Version) (Room, error) {
	num, err := tx.insert(insertRoom, string(id), string(v.ID))
	if err != nil {
		return Room{}, fmt.Errorf("add room: %w", err)
	}
	return Room{Num: RoomNum(num), ID: id, Version: v}, nil
}

var setPublic = stmt(`UPDATE rooms SET public = ? WHERE num = ? AND purging = 0`)

// SetPublic puts a room into the directory or takes it out.
func (tx *Tx) SetPublic(room RoomNum, public bool) error {
	return tx.mustChange("set public", setPublic, public, int64(room))
}

var touchRoom = stmt(`UPDATE rooms SET latest_pos = ?2 WHERE num = ?1 AND latest_pos < ?2`)

// touch notes that the room has something new at pos.
func (tx *Tx) touch(room RoomNum, pos int64) error {
	if _, err := tx.exec(touchRoom, int64(room), pos); err != nil {
		return fmt.Errorf("latest position: %w", err)
	}
	return nil
}

// version is the room's version. A transaction mostly asks for one room many
// times, so the last answer is kept.
func (rx *Rx) version(room RoomNum) (*matrix.Version, error) {
	if rx.lastRoom == room {
		return rx.lastVersion, nil
	}
	var name string
	if err := rx.row(roomVersion, []any{int64(room)}, &name); err != nil {
		return nil, fmt.Errorf("version of room %d: %w", room, err)
	}
	v, err := storedVersion(name)
	if err != nil {
		return nil, err
	}
	rx.lastRoom, rx.lastVersion = room, v
	return v, nil
}

var roomVersion = stmt(`SELECT version FROM rooms WHERE num = ?`)
