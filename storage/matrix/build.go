package matrix

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Template is an event to be: what its author decides. [Build] adds what follows.
type Template struct {
	RoomID         RoomID // left out for a create event whose ID is the room's
	Type           string
	StateKey       *string // nil: not a state event
	Sender         UserID
	Content        jsontext.Value // a JSON object
	Redacts        EventID        // put where the room version keeps it
	OriginServerTS int64          // milliseconds since 1970
	Depth          int64          // cut to the limit of the room version
	PrevEvents     []EventID
	AuthEvents     []EventID

	// EventID is the ID to use, needed in room versions 1 and 2 only.
	EventID EventID
	// Hashes are the reference hashes of PrevEvents and AuthEvents, needed in
	// room versions 1 and 2 only.
	Hashes map[EventID][32]byte
}

// Build makes an event of a template: hashed, signed, with its ID. Its errors
// are M_TOO_LARGE, and M_BAD_JSON for content the room version refuses.
func Build(v *Version, t Template, s Signer) (*Event, error) {
	b, err := t.json(v)
	if err != nil {
		return nil, err
	}
	return HashAndSign(v, b, s)
}

// HashAndSign makes an event of its federation format as another server
// proposed it (a make_join, say): content hash and one signature replace
// hashes and signatures it has, and an event_id goes where the room version
// has none. Errors are those of [Build]. Server-Server API, "Adding hashes and
// signatures to outgoing events".
func HashAndSign(v *Version, proto []byte, s Signer) (*Event, error) {
	drop := ""
	if v.IDFormat != IDServer {
		drop = "event_id" // redaction would keep it, and the hash cover it
	}
	b, err := hashAndSign(v, proto, s, drop)
	if err != nil {
		return nil, Errorf(BadJSON, "event: %v", err)
	}
	return ParseEvent(v, b)
}

// hashAndSign is HashAndSign without a look at the event's form, less one more key.
func hashAndSign(v *Version, proto []byte, s Signer, drop string) ([]byte, error) {
	c := getCanon()
	defer c.release()
	c.src, c.strict = proto, v.StrictJSON
	members, err := c.topObject()
	if err != nil {
		return nil, err
	}
	b := appendWithout(make([]byte, 0, len(c.dst)+256), c.dst, members, "hashes", "signatures", "unsigned", drop)
	sum := sha256.Sum256(b)
	b = b[:len(b)-1]
	if len(b) > 1 {
		b = append(b, ',')
	}
	b = fmt.Appendf(b, `"hashes":{"sha256":"%s"},"signatures":{}}`, EncodeBase64(sum[:]))
	if b, err = AppendCanonicalJSON(nil, b, v.StrictJSON); err != nil {
		return nil, err
	}
	members = appendMembers(nil, b)
	sig := ed25519.Sign(s.Key, appendRedacted(nil, v, b, members, false))
	return withSignature(b, members, s.Server, s.KeyID, sig)
}

// json is the event's federation format without hashes and signatures.
func (t *Template) json(v *Version) ([]byte, error) {
	content, err := t.content(v)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(content)+1024)
	b = append(b, `{"content":`...)
	b = append(b, content...)
	b = append(b, `,"depth":`...)
	b = strconv.AppendInt(b, min(max(t.Depth, 0), v.MaxDepth), 10)
	b = append(b, `,"origin_server_ts":`...)
	b = strconv.AppendInt(b, t.OriginServerTS, 10)
	text := func(key, value string) {
		b = append(b, ',')
		b = appendQuoted(b, key)
		b = append(b, ':')
		b = appendQuoted(b, value)
	}
	text("type", t.Type)
	text("sender", string(t.Sender))
	if t.StateKey != nil {
		text("state_key", *t.StateKey)
	}
	if !v.RoomIDFromCreate || t.Type != TypeCreate {
		text("room_id", string(t.RoomID))
	}
	if t.Redacts != "" && !v.RedactsInContent {
		text("redacts", string(t.Redacts))
	}
	if v.IDFormat == IDServer {
		text("event_id", string(t.EventID))
	}
	if b, err = t.appendReferences(b, v, `,"prev_events":[`, t.PrevEvents); err != nil {
		return nil, err
	}
	if b, err = t.appendReferences(b, v, `,"auth_events":[`, t.AuthEvents); err != nil {
		return nil, err
	}
	return append(b, '}'), nil
}

// content is the canonical content, with redacts where it belongs there.
func (t *Template) content(v *Version) ([]byte, error) {
	if len(t.Content) == 0 {
		t.Content = jsontext.Value("{}")
	}
	content, err := AppendCanonicalJSON(nil, t.Content, v.StrictJSON)
	if err != nil {
		return nil, Errorf(BadJSON, "content: %v", err)
	}
	if content[0] != '{' {
		return nil, Errorf(BadJSON, "content is not an object")
	}
	if t.Redacts == "" || !v.RedactsInContent {
		return content, nil
	}
	b := appendWithout(nil, content, appendMembers(nil, content), "redacts")
	b = b[:len(b)-1]
	if len(b) > 1 {
		b = append(b, ',')
	}
	b = append(b, `"redacts":`...)
	b = appendQuoted(b, t.Redacts)
	return append(b, '}'), nil
}

func (t *Template) appendReferences(b []byte, v *Version, head string, ids []EventID) ([]byte, error) {
	b = append(b, head...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		if !v.PairReferences {
			b = appendQuoted(b, id)
			continue
		}
		sum, ok := t.Hashes[id]
		if !ok {
			return nil, fmt.Errorf("build event: no reference hash of %s", id)
		}
		b = append(b, '[')
		b = appendQuoted(b, id)
		b = fmt.Appendf(b, `,{"sha256":"%s"}]`, EncodeBase64(sum[:]))
	}
	return append(b, ']'), nil
}
