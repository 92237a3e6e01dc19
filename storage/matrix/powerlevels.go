package matrix

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// PowerLevels is the content of m.room.power_levels. Levels beyond 64 bits,
// which room versions 1 to 5 admit, are cut to the nearest that fits.
type PowerLevels struct {
	UsersDefault  Level
	EventsDefault Level
	StateDefault  Level
	Ban           Level
	Kick          Level
	Redact        Level
	Invite        Level

	Users  map[UserID]int64
	Events map[string]int64
	// Notifications is read only where the room version has rules about it.
	Notifications map[string]int64
}

// Level is a power level that may be missing.
type Level struct {
	Value int64
	Set   bool
}

// Or is the level, or a default where there is none.
func (l Level) Or(def int64) int64 {
	if l.Set {
		return l.Value
	}
	return def
}

// User is the level of a user, from users or users_default.
func (p *PowerLevels) User(u UserID) int64 {
	if n, ok := p.Users[u]; ok {
		return n
	}
	return p.UsersDefault.Or(0)
}

// Event is the level needed to send an event of a type. Server-Server API,
// "Required Power Level".
func (p *PowerLevels) Event(typ string, state bool) int64 {
	if n, ok := p.Events[typ]; ok {
		return n
	}
	if state {
		return p.StateDefault.Or(50)
	}
	return p.EventsDefault.Or(0)
}

// BanLevel is the level needed to ban, 50 if unset.
func (p *PowerLevels) BanLevel() int64 { return p.Ban.Or(50) }

// KickLevel is the level needed to kick, 50 if unset.
func (p *PowerLevels) KickLevel() int64 { return p.Kick.Or(50) }

// RedactLevel is the level needed to redact the events of others, 50 if unset.
func (p *PowerLevels) RedactLevel() int64 { return p.Redact.Or(50) }

// InviteLevel is the level needed to invite, 0 if unset.
func (p *PowerLevels) InviteLevel() int64 { return p.Invite.Or(0) }

// Clone is a copy that shares no map, for changing.
func (p *PowerLevels) Clone() *PowerLevels {
	c := *p
	c.Users, c.Events, c.Notifications = maps.Clone(p.Users), maps.Clone(p.Events), maps.Clone(p.Notifications)
	return &c
}

var noPowerLevels = &PowerLevels{}

// PowerLevels is the content of an m.room.power_levels event, and the reason
// why it breaks the form the room version demands. A value that is no level in
// any form is one everywhere: before room version 10 the rules name only users,
// but what cannot be compared cannot be allowed. It is never nil: of a
// malformed event it is empty, as of an event of another type.
func (e *Event) PowerLevels() (*PowerLevels, error) {
	if p, ok := e.parseContent().(*PowerLevels); ok && p != nil {
		return p, e.parsedErr
	}
	return noPowerLevels, e.parsedErr
}

func parsePowerLevels(v *Version, content []byte) (*PowerLevels, error) {
	p := new(PowerLevels)
	for key, value := range membersOf(content) {
		var err error
		switch string(key) {
		case "users_default":
			err = p.UsersDefault.parse(v, value)
		case "events_default":
			err = p.EventsDefault.parse(v, value)
		case "state_default":
			err = p.StateDefault.parse(v, value)
		case "ban":
			err = p.Ban.parse(v, value)
		case "kick":
			err = p.Kick.parse(v, value)
		case "redact":
			err = p.Redact.parse(v, value)
		case "invite":
			err = p.Invite.parse(v, value)
		case "users":
			p.Users, err = parseLevelMap[UserID](v, value, true)
		case "events":
			p.Events, err = parseLevelMap[string](v, value, false)
		case "notifications":
			if v.NotificationsLevels {
				p.Notifications, err = parseLevelMap[string](v, value, false)
			}
		}
		if err != nil {
			return nil, &LevelError{string(key), err}
		}
	}
	return p, nil
}

// parseLevelMap reads an object of levels. Its keys share the memory of one string.
func parseLevelMap[K ~string](v *Version, object []byte, users bool) (map[K]int64, error) {
	if object[0] != '{' {
		return nil, errors.New("not an object")
	}
	text := string(object)
	levels := make(map[K]int64, strings.Count(text, `":`))
	for pos := 1; ; {
		m, ok := nextMember(object, pos)
		if !ok {
			return levels, nil
		}
		pos = m.end + 1
		name := text[m.start+1 : m.keyEnd-1]
		if strings.IndexByte(name, '\\') >= 0 {
			name = keyText([]byte(name))
		}
		if users {
			if err := checkDomainID('@', name); err != nil {
				return nil, fmt.Errorf("user ID %q: %w", clip(name), err)
			}
		}
		level, err := parseLevel(v, m.value(object))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", clip(name), err)
		}
		levels[K(name)] = level
	}
}

func (l *Level) parse(v *Version, value []byte) (err error) {
	l.Set = true
	l.Value, err = parseLevel(v, value)
	return err
}

var errLevel = errors.New("not an integer")

// parseLevel reads a power level: an integer, before room version 10 also a
// string that holds one, before room version 6 also a float. Room Versions,
// "m.room.power_levels events accept values as strings" and "… as floats".
func parseLevel(v *Version, value []byte) (int64, error) {
	if value[0] == '"' {
		if v.IntegerLevels {
			return 0, errLevel
		}
		text, _ := textOf(value)
		return parseStringLevel(text)
	}
	if value[0] != '-' && (value[0] < '0' || value[0] > '9') {
		return 0, errLevel
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err == nil {
		return n, nil
	}
	if errors.Is(err, strconv.ErrRange) {
		return n, nil // the nearest that fits
	}
	if !v.FloatLevels {
		return 0, errLevel
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		return 0, errLevel
	}
	return truncate(f), nil
}

// truncate cuts a float at the decimal point, and to what 64 bits hold.
func truncate(f float64) int64 {
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}

// parseStringLevel reads white space, an optional sign, decimal digits with
// any number of leading zeroes, white space.
func parseStringLevel(s string) (int64, error) {
	s = strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f })
	digits := strings.TrimLeft(s, "0123456789")
	if s == "" {
		return 0, errLevel
	}
	if s[0] == '+' || s[0] == '-' {
		digits = strings.TrimLeft(s[1:], "0123456789")
		if len(s) == 1 {
			return 0, errLevel
		}
	}
	if digits != "" {
		return 0, errLevel
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, errLevel
	}
	return n, nil
}
