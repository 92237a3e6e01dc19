package storage

import (
	"errors"
	"fmt"

	"hearth/storage/matrix"
)

var serversOf = stmt(`SELECT server FROM joined_servers WHERE room = ? ORDER BY server`)

// JoinedServers lists the servers with a joined member, this one included.
func (rx *Rx) JoinedServers(room RoomNum) ([]matrix.ServerName, error) {
	list, err := textsOf[matrix.ServerName](rx, serversOf, int64(room))
	if err != nil {
		return nil, fmt.Errorf("joined servers: %w", err)
	}
	return list, nil
}

var serverIn = stmt(`SELECT members FROM joined_servers WHERE room = ? AND server = ?`)

// ServerJoined tells whether a server has a joined member in a room.
func (rx *Rx) ServerJoined(room RoomNum, server matrix.ServerName) (bool, error) {
	var n int64
	err := rx.row(serverIn, []any{int64(room), string(server)}, &n)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("server in room: %w", err)
	}
	return true, nil
}

var countServer = stmt(`INSERT INTO joined_servers (room, server, members) VALUES (?, ?, ?)
	ON CONFLICT DO UPDATE SET members = members + excluded.members`)

var emptyServers = stmt(`DELETE FROM joined_servers WHERE room = ? AND server = ? AND members <= 0`)

// countJoined adds to the number of joined members from a server.
func (tx *Tx) countJoined(room RoomNum, server matrix.ServerName, n int64) error {
	_, err := tx.exec(countServer, int64(room), string(server), n)
	if err == nil && n < 0 {
		_, err = tx.exec(emptyServers, int64(room), string(server))
	}
	if err != nil {
		return fmt.Errorf("joined servers: %w", err)
	}
	return nil
}
