package matrix

import "fmt"

// Redact strips an event, given as JSON, by the redaction algorithm of the
// room version. The result is canonical and keeps hashes and signatures.
// Room Versions, "Redactions".
func Redact(v *Version, raw []byte) ([]byte, error) {
	c := getCanon()
	defer c.release()
	c.src, c.strict = raw, v.StrictJSON
	members, err := c.topObject()
	if err != nil {
		return nil, fmt.Errorf("redact: %w", err)
	}
	return appendRedacted(nil, v, c.dst, members, true), nil
}

// Redacted is the event with everything gone that the redaction algorithm
// does not keep. It has the same ID and no unsigned.
func (e *Event) Redacted() *Event {
	var array [24]member
	b := e.appendRedacted(nil, appendMembers(array[:0], e.json), true)
	r, err := ParseStored(e.version, e.id, b)
	if err != nil {
		// Redaction keeps every field an event must have.
		panic("matrix: redacted event does not parse: " + err.Error())
	}
	return r
}

// appendRedacted appends the redacted event, whose members lie in e.json. For
// hashing and signing it leaves the signatures out.
func (e *Event) appendRedacted(dst []byte, members []member, signatures bool) []byte {
	return appendRedacted(dst, e.version, e.json, members, signatures)
}

func appendRedacted(dst []byte, v *Version, b []byte, members []member, signatures bool) []byte {
	var typ string
	for _, m := range members {
		if string(m.key(b)) == "type" {
			typ, _ = textOf(m.value(b))
		}
	}
	n := 0
	for _, m := range members {
		key := m.key(b)
		if !keepsTop(v.Redaction, key) || !signatures && string(key) == "signatures" {
			continue
		}
		dst = append(dst, separator(n))
		n++
		if string(key) == "content" {
			dst = append(dst, `"content":`...)
			dst = appendRedactedContent(dst, v.Redaction, typ, m.value(b))
		} else {
			dst = append(dst, m.segment(b)...)
		}
	}
	if n == 0 {
		dst = append(dst, '{')
	}
	return append(dst, '}')
}

// keepsTop tells whether redaction keeps a top-level key.
func keepsTop(rules RedactionRules, key []byte) bool {
	switch string(key) {
	case "auth_events", "content", "depth", "event_id", "hashes", "origin_server_ts", "prev_events",
		"room_id", "sender", "signatures", "state_key", "type":
		return true
	case "membership", "origin", "prev_state":
		return rules < RedactionV11
	}
	return false
}

func appendRedactedContent(dst []byte, rules RedactionRules, typ string, content []byte) []byte {
	if typ == TypeCreate && rules >= RedactionV11 {
		return append(dst, content...)
	}
	n := 0
	if keepsAnyContent(typ) {
		for key, v := range membersOf(content) {
			signed := false
			if !keepsContent(rules, typ, key) {
				if signed = keepsSigned(rules, typ, key, v); !signed {
					continue
				}
			}
			dst = append(dst, separator(n))
			n++
			dst = append(dst, '"')
			dst = append(dst, key...)
			dst = append(dst, '"', ':')
			if signed {
				v = appendSigned(nil, v)
			}
			dst = append(dst, v...)
		}
	}
	if n == 0 {
		dst = append(dst, '{')
	}
	return append(dst, '}')
}

// keepsAnyContent saves most events the walk through their content.
func keepsAnyContent(typ string) bool {
	switch typ {
	case TypeMember, TypeCreate, TypeJoinRules, TypePowerLevels, TypeAliases, TypeHistoryVisibility, TypeRedaction:
		return true
	}
	return false
}

// keepsContent tells whether redaction keeps a key of content.
func keepsContent(rules RedactionRules, typ string, key []byte) bool {
	switch typ {
	case TypeMember:
		return string(key) == "membership" ||
			rules >= RedactionV9 && string(key) == "join_authorised_via_users_server"
	case TypeCreate:
		return string(key) == "creator"
	case TypeJoinRules:
		return string(key) == "join_rule" || rules >= RedactionV8 && string(key) == "allow"
	case TypeAliases:
		return rules < RedactionV6 && string(key) == "aliases"
	case TypeHistoryVisibility:
		return string(key) == "history_visibility"
	case TypeRedaction:
		return rules >= RedactionV11 && string(key) == "redacts"
	case TypePowerLevels:
		switch string(key) {
		case "ban", "events", "events_default", "kick", "redact", "state_default", "users", "users_default":
			return true
		case "invite":
			return rules >= RedactionV11
		}
	}
	return false
}

// keepsSigned tells whether v is a third_party_invite of which redaction keeps the signed key.
func keepsSigned(rules RedactionRules, typ string, key, v []byte) bool {
	return rules >= RedactionV11 && typ == TypeMember && string(key) == "third_party_invite" && v[0] == '{'
}

func appendSigned(dst, invite []byte) []byte {
	dst = append(dst, '{')
	if signed := field(invite, "signed"); signed != nil {
		dst = append(dst, `"signed":`...)
		dst = append(dst, signed...)
	}
	return append(dst, '}')
}
