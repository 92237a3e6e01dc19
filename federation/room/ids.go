package room

import (
	"crypto/rand"

	"hearth/storage/matrix"
)

// newRoomID is a random ID of a room whose version does not derive it.
func newRoomID(server matrix.ServerName) matrix.RoomID {
	return matrix.RoomID("!" + rand.Text()[:18] + ":" + string(server))
}

// newEventID is a random ID of an event of a version that does not derive it,
// empty for others.
func newEventID(v *matrix.Version, server matrix.ServerName) matrix.EventID {
	if v.IDFormat != matrix.IDServer {
		return ""
	}
	return matrix.EventID("$" + rand.Text() + ":" + string(server))
}
