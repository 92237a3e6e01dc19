package testserver

import (
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage/matrix"
)

// SyncRooms is what a /sync answer tells of rooms.
type SyncRooms struct {
	Join   map[matrix.RoomID]SyncRoom     `json:"join"`
	Leave  map[matrix.RoomID]SyncRoom     `json:"leave"`
	Invite map[matrix.RoomID]StrippedRoom `json:"invite"`
	Knock  map[matrix.RoomID]StrippedRoom `json:"knock"`
}

// SyncRoom is what it tells of a joined room or one that was left.
type SyncRoom struct {
	Summary struct {
		Heroes  []matrix.UserID `json:"m.heroes"`
		Joined  *int            `json:"m.joined_member_count"` // nil: as before
		Invited *int            `json:"m.invited_member_count"`
	} `json:"summary"`
	State      *RoomEvents `json:"state"`       // at the timeline's start, or
	StateAfter *RoomEvents `json:"state_after"` // at its end
	Timeline   struct {
		RoomEvents
		Limited bool   `json:"limited"`
		Prev    string `json:"prev_batch"`
	} `json:"timeline"`
	AccountData RoomEvents `json:"account_data"`
}

// StrippedRoom is what it tells of a room the user may enter, or asked to.
type StrippedRoom struct {
	Invite RoomEvents `json:"invite_state"`
	Knock  RoomEvents `json:"knock_state"`
}

// RoomEvents is a list of events.
type RoomEvents struct {
	Events []RoomEvent `json:"events"`
}

// RoomEvent is an event of a room, or account data, as a client receives it.
type RoomEvent struct {
	ID       matrix.EventID `json:"event_id"`
	Room     matrix.RoomID  `json:"room_id"` // /sync leaves it out
	Type     string         `json:"type"`
	StateKey *string        `json:"state_key"` // nil: not a state event
	Sender   matrix.UserID  `json:"sender"`
	TS       int64          `json:"origin_server_ts"` // milliseconds since 1970
	Redacts  matrix.EventID `json:"redacts"`
	Content  jsontext.Value `json:"content"`
	Unsigned struct {
		Age        int64          `json:"age"`
		TxnID      string         `json:"transaction_id"`
		Membership string         `json:"membership"`
		Replaces   matrix.EventID `json:"replaces_state"`
		Previous   jsontext.Value `json:"prev_content"`
		RedactedBy *RoomEvent     `json:"redacted_because"`
	} `json:"unsigned"`
}

// IDs are the events' IDs, in their order.
func (l RoomEvents) IDs() []matrix.EventID {
	ids := make([]matrix.EventID, 0, len(l.Events))
	for _, e := range l.Events {
		ids = append(ids, e.ID)
	}
	return ids
}
