package matrix

import (
	"github.com/go-json-experiment/json"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// The event types that authorization and redaction name.
const (
	TypeAliases           = "m.room.aliases"
	TypeCreate            = "m.room.create"
	TypeHistoryVisibility = "m.room.history_visibility"
	TypeJoinRules         = "m.room.join_rules"
	TypeMember            = "m.room.member"
	TypePowerLevels       = "m.room.power_levels"
	TypeRedaction         = "m.room.redaction"
	TypeThirdPartyInvite  = "m.room.third_party_invite"
)

// Event is one event of a room (a PDU), parsed and immutable. It may be shared
// between goroutines. Slices and JSON it returns must not be changed.
// Make one with [ParseEvent], [ParseStored] or [Build].
type Event struct {
	version *Version
	json    []byte // canonical, without unsigned

	id       EventID
	room     RoomID
	typ      string
	stateKey string
	sender   UserID
	redacts  EventID
	ts       int64
	depth    int64
	prev     []EventID
	auth     []EventID

	content    []byte // these lie in json
	signatures []byte
	unsigned   []byte

	isState bool
	hasRoom bool
	hashOK  bool

	once      sync.Once // guards parsed and parsedErr
	parsed    any
	parsedErr error
}

// ID is the event's ID: as sent in room versions 1 and 2, the reference hash from 3 on.
func (e *Event) ID() EventID { return e.id }

// RoomID is the room the event belongs to. From room version 12 on that of a
// create event is derived from its own ID.
func (e *Event) RoomID() RoomID { return e.room }

// HasRoomID tells whether the event itself names a room, which a create event
// of room version 12 must not.
func (e *Event) HasRoomID() bool { return e.hasRoom }

// Type is the event's type.
func (e *Event) Type() string { return e.typ }

// StateKey is the state key, and whether there is one: whether this is a state event.
func (e *Event) StateKey() (key string, ok bool) { return e.stateKey, e.isState }

// IsState tells whether the event is a state event with this type and state key.
func (e *Event) IsState(typ, stateKey string) bool {
	return e.isState && e.typ == typ && e.stateKey == stateKey
}

// Sender is the user who sent the event.
func (e *Event) Sender() UserID { return e.sender }

// OriginServerTS is the sending server's clock, in milliseconds since 1970.
func (e *Event) OriginServerTS() int64 { return e.ts }

// Depth is the depth the sender claims.
func (e *Event) Depth() int64 { return e.depth }

// PrevEvents are the event's parents, at most 20.
func (e *Event) PrevEvents() []EventID { return e.prev }

// AuthEvents are the events that the sender says allow this one, at most 10.
func (e *Event) AuthEvents() []EventID { return e.auth }

// Content is the content, a canonical JSON object.
func (e *Event) Content() jsontext.Value { return e.content }

// Redacts is the event that a redaction names, from where the room version
// keeps it; empty if there is none, or no valid one.
func (e *Event) Redacts() EventID { return e.redacts }

// JSON is the event in federation format as canonical JSON, with hashes and
// signatures, without unsigned.
func (e *Event) JSON() jsontext.Value { return e.json }

// Unsigned is what came beside the event, a canonical JSON object; nil if
// nothing did. Nothing vouches for it.
func (e *Event) Unsigned() jsontext.Value { return e.unsigned }

// Version is the room version the event was parsed by.
func (e *Event) Version() *Version { return e.version }

// HashOK tells whether the content hash matches the content. If not, the event
// must be processed as [Event.Redacted]. Server-Server API, "Checks performed on receipt of a PDU".
func (e *Event) HashOK() bool { return e.hashOK }

// DecodeContent decodes the content into to, for types that have no accessor of their own.
func (e *Event) DecodeContent(to any) error { return json.Unmarshal(e.content, to) }
