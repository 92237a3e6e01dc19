package matrix

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Identifier types. A value of one of these types that came through Parse… or
// UnmarshalText is valid; past the edge of the program nothing checks again.
// Appendices, "Identifier Grammar".
type (
	// UserID is a user's full identifier, "@localpart:server".
	UserID string
	// RoomID is a room's identifier, "!opaque:server" or, from room version 12, "!hash".
	RoomID string
	// EventID is an event's identifier, "$opaque:server" (room versions 1 and 2) or "$hash".
	EventID string
	// RoomAlias is a room's readable address, "#localpart:server".
	RoomAlias string
	// ServerName is a homeserver's name: host with optional port.
	ServerName string
	// DeviceID is a client-chosen or server-made device identifier, opaque.
	DeviceID string
)

// MaxIDLength is the limit in bytes of user, room and event IDs and aliases.
const MaxIDLength = 255

var errNoServer = errors.New("no ':' before a server name")

// ParseUserID checks s as a user ID, in the historical range that a server
// must accept from others: the localpart may be empty and hold any character
// but ':' and NUL. For names of new local users see [ValidLocalpart], for what
// may reach clients outside an event [UserID.Compliant]. Appendices, "User Identifiers".
func ParseUserID(s string) (UserID, error) {
	if err := checkDomainID('@', s); err != nil {
		return "", fmt.Errorf("user ID %q: %w", clip(s), err)
	}
	return UserID(s), nil
}

// Compliant tells whether the localpart keeps to U+0021 to U+007E and is not
// empty. Other user IDs must be accepted in events, and should reach clients
// nowhere else. Appendices, "Historical User IDs".
func (u UserID) Compliant() bool {
	local := u.Localpart()
	for i := range len(local) {
		if local[i] < 0x21 || local[i] > 0x7e {
			return false
		}
	}
	return local != ""
}

// NewUserID joins a localpart and a server name that are already valid.
func NewUserID(localpart string, server ServerName) UserID {
	return UserID("@" + localpart + ":" + string(server))
}

// ValidLocalpart tells whether s may be the localpart of a new user:
// a-z, 0-9 and ._=-/+ only, at least one character.
func ValidLocalpart(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case strings.IndexByte("._=-/+", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// EscapeLocalpart maps any text to a valid localpart: upper case to lower, or
// with keepCase to '_' and lower; other bytes to '=' and hexadecimal digits.
// Appendices, "Mapping from other character sets".
func EscapeLocalpart(s string, keepCase bool) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case 'A' <= c && c <= 'Z':
			if keepCase {
				b.WriteByte('_')
			}
			b.WriteByte(c | 0x20)
		case c == '_' && keepCase:
			b.WriteString("__")
		case c != '=' && ValidLocalpart(s[i:i+1]):
			b.WriteByte(c)
		default:
			b.Write([]byte{'=', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}

// Localpart is the part between '@' and the first ':'.
func (u UserID) Localpart() string {
	local, _, _ := strings.Cut(strings.TrimPrefix(string(u), "@"), ":")
	return local
}

// Server is the part after the first ':'.
func (u UserID) Server() ServerName { return serverOf(string(u)) }

// Server is the part after the first ':', empty for room version 12 IDs.
func (r RoomID) Server() ServerName { return serverOf(string(r)) }

// Server is the part after the first ':', empty from room version 3 on.
func (e EventID) Server() ServerName { return serverOf(string(e)) }

// Server is the part after the first ':'.
func (a RoomAlias) Server() ServerName { return serverOf(string(a)) }

// ParseRoomID checks s as a room ID of any room version: "!opaque:server", or
// without a server. Appendices, "Room IDs".
func ParseRoomID(s string) (RoomID, error) {
	check := checkOpaque
	if strings.IndexByte(s, ':') >= 0 {
		check = checkDomainID
	}
	if err := check('!', s); err != nil {
		return "", fmt.Errorf("room ID %q: %w", clip(s), err)
	}
	return RoomID(s), nil
}

// ParseEventID checks s as an event ID of any room version.
func ParseEventID(s string) (EventID, error) {
	if err := checkOpaque('$', s); err != nil {
		return "", fmt.Errorf("event ID %q: %w", clip(s), err)
	}
	return EventID(s), nil
}

// ParseRoomAlias checks s as a room alias: any characters but ':' and NUL, at
// least one, before the server name. Appendices, "Room Aliases".
func ParseRoomAlias(s string) (RoomAlias, error) {
	err := checkDomainID('#', s)
	if err == nil && s[1] == ':' {
		err = errors.New("no localpart")
	}
	if err != nil {
		return "", fmt.Errorf("room alias %q: %w", clip(s), err)
	}
	return RoomAlias(s), nil
}

// ParseDeviceID checks s as a device ID: 1 to 255 bytes of UTF-8 without NUL.
func ParseDeviceID(s string) (DeviceID, error) {
	if s == "" || len(s) > MaxIDLength || strings.ContainsRune(s, 0) || !utf8.ValidString(s) {
		return "", fmt.Errorf("device ID %q: want 1 to %d bytes of text", clip(s), MaxIDLength)
	}
	return DeviceID(s), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler], and so checks JSON map keys too.
func (u *UserID) UnmarshalText(b []byte) error { return unmarshalID(u, b, ParseUserID) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *RoomID) UnmarshalText(b []byte) error { return unmarshalID(r, b, ParseRoomID) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (e *EventID) UnmarshalText(b []byte) error { return unmarshalID(e, b, ParseEventID) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (a *RoomAlias) UnmarshalText(b []byte) error { return unmarshalID(a, b, ParseRoomAlias) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *DeviceID) UnmarshalText(b []byte) error { return unmarshalID(d, b, ParseDeviceID) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *ServerName) UnmarshalText(b []byte) error { return unmarshalID(s, b, ParseServerName) }

func unmarshalID[T ~string](to *T, b []byte, parse func(string) (T, error)) error {
	v, err := parse(string(b))
	if err != nil {
		return err
	}
	*to = v
	return nil
}

func serverOf(id string) ServerName {
	_, server, _ := strings.Cut(id, ":")
	return ServerName(server)
}

// checkRoomID checks a room ID by the form its room version gives it.
func checkRoomID(v *Version, r RoomID) error {
	if v.RoomIDFromCreate {
		return checkHashID('!', string(r))
	}
	return checkDomainID('!', string(r))
}

// checkDomainID checks "&localpart:server", in which localpart holds neither ':' nor NUL.
func checkDomainID(sigil byte, s string) error {
	if err := checkOpaque(sigil, s); err != nil {
		return err
	}
	_, server, ok := strings.Cut(s, ":")
	if !ok {
		return errNoServer
	}
	_, err := ParseServerName(server)
	return err
}

// checkHashID checks "&hash": 32 bytes in unpadded URL-safe base64.
func checkHashID(sigil byte, s string) error {
	if len(s) != 44 || s[0] != sigil {
		return fmt.Errorf("not %q and a hash", sigil)
	}
	for i := 1; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return fmt.Errorf("not %q and a hash", sigil)
		}
	}
	return nil
}

// checkOpaque checks the sigil, at least one character after it, and the
// length and characters of every identifier.
func checkOpaque(sigil byte, s string) error {
	switch {
	case len(s) > MaxIDLength:
		return fmt.Errorf("longer than %d bytes", MaxIDLength)
	case len(s) < 2 || s[0] != sigil:
		return fmt.Errorf("does not begin with %q and a name", sigil)
	case strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s):
		return errors.New("illegal character")
	}
	return nil
}

// clip bounds what an error message repeats of bad input.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
