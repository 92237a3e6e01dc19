package rules_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// refEvent is one event as decoded JSON, with what the reference derived from it.
type refEvent struct {
	version  int
	json     map[string]any
	id       string
	roomID   string
	rejected bool
}

// refKey is a key of the room state.
type refKey struct{ typ, stateKey string }

// refState is a room state.
type refState map[refKey]*refEvent

// refRoom holds all events by ID, of more than one room if need be, and the
// signing keys of the servers.
type refRoom struct {
	version int
	events  map[string]*refEvent
	keys    map[string]map[string]ed25519.PublicKey // server, key ID
	chains  map[string]refSet                       // auth chains by event ID
}

func newRefRoom(version int, keys map[string]map[string]ed25519.PublicKey) *refRoom {
	return &refRoom{version: version, events: map[string]*refEvent{}, keys: keys, chains: map[string]refSet{}}
}

// refParse decodes an event and names it.
func refParse(version int, raw []byte) *refEvent {
	e := &refEvent{version: version, json: refDecode(raw)}
	e.id = refEventID(version, e.json)
	e.roomID = e.str("room_id")
	if version >= 12 && e.typ() == "m.room.create" {
		// Version 12, rule 1.2, note: the event ID with sigil "!" instead of "$".
		e.roomID = "!" + strings.TrimPrefix(e.id, "$")
	}
	return e
}

func (e *refEvent) str(key string) string {
	s, _ := e.json[key].(string)
	return s
}

func (e *refEvent) num(key string) int64 {
	n, _ := e.json[key].(json.Number)
	i, _ := n.Int64()
	return i
}

func (e *refEvent) typ() string    { return e.str("type") }
func (e *refEvent) sender() string { return e.str("sender") }

func (e *refEvent) stateKey() (string, bool) {
	s, ok := e.json["state_key"].(string)
	return s, ok
}

func (e *refEvent) key() refKey {
	s, _ := e.stateKey()
	return refKey{e.typ(), s}
}

func (e *refEvent) content() map[string]any {
	c, _ := e.json["content"].(map[string]any)
	return c
}

func (e *refEvent) text(key string) string {
	s, _ := e.content()[key].(string)
	return s
}

// refs reads prev_events or auth_events: pairs of ID and hash in room versions 1
// and 2, plain IDs from 3 on.
func (e *refEvent) refs(key string) []string {
	var ids []string
	list, _ := e.json[key].([]any)
	for _, entry := range list {
		if e.version <= 2 {
			pair, _ := entry.([]any)
			entry = pair[0]
		}
		ids = append(ids, entry.(string))
	}
	return ids
}

// refDomain is what follows the first colon of an identifier.
func refDomain(id string) string {
	_, domain, _ := strings.Cut(id, ":")
	return domain
}

// refRedact is the redaction algorithm of each room version.
func refRedact(version int, event map[string]any) map[string]any {
	top := []string{"event_id", "type", "room_id", "sender", "state_key", "content",
		"hashes", "signatures", "depth", "prev_events", "auth_events", "origin_server_ts"}
	if version <= 10 { // v11: origin, membership and prev_state are no longer protected
		top = append(top, "prev_state", "origin", "membership")
	}
	out := refOnly(event, top...)
	content, _ := event["content"].(map[string]any)
	typ, _ := event["type"].(string)
	out["content"] = refRedactContent(version, typ, content)
	return out
}

func refRedactContent(version int, typ string, content map[string]any) map[string]any {
	switch typ {
	case "m.room.member":
		keep := []string{"membership"}
		if version >= 9 {
			keep = append(keep, "join_authorised_via_users_server")
		}
		out := refOnly(content, keep...)
		// v11: "no longer redacted, but will only contain the signed key after redaction".
		if third, ok := content["third_party_invite"].(map[string]any); ok && version >= 11 {
			out["third_party_invite"] = refOnly(third, "signed")
		}
		return out
	case "m.room.create":
		if version >= 11 {
			return refOnly(content, refKeysOf(content)...)
		}
		return refOnly(content, "creator")
	case "m.room.join_rules":
		if version >= 8 {
			return refOnly(content, "join_rule", "allow")
		}
		return refOnly(content, "join_rule")
	case "m.room.power_levels":
		keep := []string{"ban", "events", "events_default", "kick", "redact",
			"state_default", "users", "users_default"}
		if version >= 11 {
			keep = append(keep, "invite")
		}
		return refOnly(content, keep...)
	case "m.room.aliases":
		if version <= 5 {
			return refOnly(content, "aliases")
		}
	case "m.room.history_visibility":
		return refOnly(content, "history_visibility")
	case "m.room.redaction":
		if version >= 11 {
			return refOnly(content, "redacts")
		}
	}
	return map[string]any{}
}

func refKeysOf(obj map[string]any) []string {
	var keys []string
	for k := range obj {
		keys = append(keys, k)
	}
	return keys
}

// refContentHash follows Server-Server API, "Calculating the content hash for an event".
func refContentHash(event map[string]any) string {
	sum := sha256.Sum256(refCanonical(refWithout(event, "unsigned", "signatures", "hashes")))
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// refReferenceHash follows "Calculating the reference hash for an event".
func refReferenceHash(version int, event map[string]any) []byte {
	redacted := refRedact(version, event)
	sum := sha256.Sum256(refCanonical(refWithout(redacted, "signatures", "unsigned")))
	return sum[:]
}

// refEventID follows "Event IDs" of each room version.
func refEventID(version int, event map[string]any) string {
	switch {
	case version <= 2:
		id, _ := event["event_id"].(string)
		return id
	case version == 3:
		return "$" + base64.RawStdEncoding.EncodeToString(refReferenceHash(version, event))
	default:
		return "$" + base64.RawURLEncoding.EncodeToString(refReferenceHash(version, event))
	}
}

// refHashAndSign adds hashes and signatures to an outgoing event: the redacted
// event is signed and the signature copied back.
func refHashAndSign(version int, event map[string]any, server, keyID string, key ed25519.PrivateKey) {
	event["hashes"] = map[string]any{"sha256": refContentHash(event)}
	refAddSignature(version, event, server, keyID, key)
}

func refAddSignature(version int, event map[string]any, server, keyID string, key ed25519.PrivateKey) {
	if _, ok := event["signatures"]; !ok {
		event["signatures"] = map[string]any{}
	}
	redacted := refRedact(version, event)
	refSign(redacted, server, keyID, key)
	event["signatures"] = redacted["signatures"]
}
