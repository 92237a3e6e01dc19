package matrix

import "math"

// RoomVersion names the rules a room lives by ("1" to "12"). A value may name
// a version Hearth does not know; see [VersionOf].
type RoomVersion string

// DefaultRoomVersion is the version of new rooms. Room Versions, "Complete list of room versions".
const DefaultRoomVersion RoomVersion = "12"

// MaxSafeInt is the largest integer of canonical JSON, 2^53-1; the smallest is -MaxSafeInt.
const MaxSafeInt = 1<<53 - 1

// EventIDFormat tells where an event's ID comes from.
type EventIDFormat uint8

const (
	// IDServer is "$opaque:server", chosen by the sending server and part of the event.
	IDServer EventIDFormat = iota
	// IDBase64 is the reference hash in unpadded standard base64.
	IDBase64
	// IDBase64URL is the reference hash in unpadded URL-safe base64.
	IDBase64URL
)

// RedactionRules names a redaction algorithm by the room version that brought it.
// They are ordered: a later one compares greater.
type RedactionRules uint8

// The redaction algorithms. Room Versions, "Redactions".
const (
	RedactionV1  RedactionRules = 1
	RedactionV6  RedactionRules = 6
	RedactionV8  RedactionRules = 8
	RedactionV9  RedactionRules = 9
	RedactionV11 RedactionRules = 11
)

// StateRes names a state resolution algorithm.
type StateRes uint8

// The state resolution algorithms: of room version 1, of 2 to 11, and of 12.
const (
	StateResV1 StateRes = iota + 1
	StateResV2
	StateResV2_1
)

// Version is what sets a room version apart, as data. Rules ask these fields
// and never compare version names.
type Version struct {
	ID RoomVersion

	// Event format.
	PairReferences   bool          // prev_events and auth_events hold [id, hashes] pairs
	IDFormat         EventIDFormat // where the event ID comes from
	StrictJSON       bool          // canonical JSON is enforced: no floats, integers within ±MaxSafeInt
	MaxDepth         int64         // limit of depth
	RedactsInContent bool          // content.redacts instead of a top-level redacts
	RoomIDFromCreate bool          // the room ID is the create event's ID, which has no room_id and is in no auth_events

	Redaction          RedactionRules
	StateRes           StateRes
	EnforceKeyValidity bool // signing keys must be valid at origin_server_ts

	// Authorization rules.
	AliasesRule         bool // m.room.aliases has a rule of its own
	RedactionRule       bool // m.room.redaction has a rule of its own; no separate redaction check later
	NotificationsLevels bool // "notifications" is checked in m.room.power_levels
	Knock               bool // membership and join rule "knock"
	Restricted          bool // join rule "restricted"
	KnockRestricted     bool // join rule "knock_restricted"
	IntegerLevels       bool // power levels are integers only, never strings
	FloatLevels         bool // power levels may be floats, cut at the decimal point
	CreatorIsSender     bool // the creator is the create event's sender, not content.creator
	PrivilegedCreators  bool // creators (and additional_creators) rank above every power level
}

// versions is the table of all room versions. Each begins as a copy of the one before.
var versions = makeVersions()

func makeVersions() []Version {
	v := Version{
		PairReferences: true,
		MaxDepth:       math.MaxInt64,
		Redaction:      RedactionV1,
		StateRes:       StateResV1,
		AliasesRule:    true,
		RedactionRule:  true,
		FloatLevels:    true,
	}
	changes := []struct {
		id     RoomVersion
		change func()
	}{
		{"1", func() {}},
		{"2", func() { v.StateRes = StateResV2 }},
		{"3", func() { v.PairReferences, v.IDFormat, v.RedactionRule = false, IDBase64, false }},
		{"4", func() { v.IDFormat = IDBase64URL }},
		{"5", func() { v.EnforceKeyValidity = true }},
		{"6", func() {
			v.StrictJSON, v.MaxDepth, v.FloatLevels = true, MaxSafeInt, false
			v.Redaction, v.AliasesRule, v.NotificationsLevels = RedactionV6, false, true
		}},
		{"7", func() { v.Knock = true }},
		{"8", func() { v.Restricted, v.Redaction = true, RedactionV8 }},
		{"9", func() { v.Redaction = RedactionV9 }},
		{"10", func() { v.KnockRestricted, v.IntegerLevels = true, true }},
		{"11", func() { v.Redaction, v.RedactsInContent, v.CreatorIsSender = RedactionV11, true, true }},
		{"12", func() { v.StateRes, v.RoomIDFromCreate, v.PrivilegedCreators = StateResV2_1, true, true }},
	}
	list := make([]Version, 0, len(changes))
	for _, c := range changes {
		c.change()
		v.ID = c.id
		list = append(list, v)
	}
	return list
}

// VersionOf finds the rules of a room version; false if Hearth does not know
// it. The result is shared and must not be changed.
func VersionOf(id RoomVersion) (*Version, bool) {
	for i := range versions {
		if versions[i].ID == id {
			return &versions[i], true
		}
	}
	return nil, false
}

// RoomVersions lists the room versions Hearth knows, oldest first.
func RoomVersions() []RoomVersion {
	list := make([]RoomVersion, len(versions))
	for i := range versions {
		list[i] = versions[i].ID
	}
	return list
}

// ValidRoomVersion tells whether s follows the grammar of room version names:
// 1 to 32 characters of a-z, 0-9, '.' and '-'. Room Versions, "Room version grammar".
func ValidRoomVersion(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 32
}
