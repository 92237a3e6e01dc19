package matrix

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// Limits of an event, in bytes of UTF-8 and in entries. Client-Server API,
// "Size limits"; room versions, "Event format".
const (
	MaxEventSize  = 65536
	MaxFieldSize  = 255
	MaxPrevEvents = 20
	MaxAuthEvents = 10

	// maxRawEvent bounds what is read at all: escapes and white space can
	// triple an event, and what comes beside it is dropped later.
	maxRawEvent = 4 * MaxEventSize
)

// ParseEvent reads an event another server sent: it checks the format of the
// room version, computes the ID and compares the content hash (see
// [Event.HashOK]). Signatures and authorization are the caller's to check.
// Its errors are M_TOO_LARGE and M_BAD_JSON.
//
// Spec deviation: the size limit counts the event without unsigned, which each
// server on the way replaces: what one server may store, another must be able to.
func ParseEvent(v *Version, raw []byte) (*Event, error) {
	if len(raw) > maxRawEvent {
		return nil, Errorf(TooLarge, "event is larger than %d bytes", MaxEventSize)
	}
	c := getCanon()
	defer c.release()
	c.src, c.strict = raw, v.StrictJSON
	members, err := c.topObject()
	if err != nil {
		return nil, Errorf(BadJSON, "event: %v", err)
	}
	e := &Event{version: v}
	members = e.takeUnsigned(c.dst, members)
	if len(e.json) > MaxEventSize {
		return nil, Errorf(TooLarge, "event is larger than %d bytes", MaxEventSize)
	}
	if err := e.readHeader(c.dst[:0], members); err != nil {
		return nil, err
	}
	if err := e.checkHash(c.dst[:0], members); err != nil {
		return nil, err
	}
	if err := checkSignatureShape(e.signatures); err != nil {
		return nil, err
	}
	e.identify(c.dst[:0], members)
	return e, nil
}

// ParseStored reads an event that [Event.JSON] gave and that storage kept,
// without checking it again. An empty id is computed.
func ParseStored(v *Version, id EventID, stored []byte) (*Event, error) {
	c := getCanon()
	defer c.release()
	c.members = appendMembers(c.members, stored)
	e := &Event{version: v, json: stored, hashOK: true}
	if err := e.readHeader(c.dst, c.members); err != nil {
		return nil, fmt.Errorf("stored event %s: %v", id, err) //nolint:errorlint // not the caller's bad JSON
	}
	if id == "" {
		e.identify(c.dst, c.members)
	} else {
		e.setID(id)
	}
	return e, nil
}

// takeUnsigned copies the event out of buf, where members lie, and parts it
// from unsigned. It returns where the members lie in e.json.
func (e *Event) takeUnsigned(buf []byte, members []member) []member {
	e.json = make([]byte, 0, len(buf))
	out := members[:0]
	for _, m := range members {
		if string(m.key(buf)) == "unsigned" {
			if v := m.value(buf); v[0] == '{' {
				e.unsigned = bytes.Clone(v)
			}
			continue
		}
		e.json = append(e.json, separator(len(out)))
		at := len(e.json)
		e.json = append(e.json, m.segment(buf)...)
		out = append(out, member{at, at + m.keyEnd - m.start, len(e.json)})
	}
	if len(out) == 0 {
		e.json = append(e.json, '{')
	}
	e.json = append(e.json, '}')
	return out
}

// separator is what stands before the n-th member of an object.
func separator(n int) byte {
	if n == 0 {
		return '{'
	}
	return ','
}

// checkHash compares the content hash. buf is scratch space.
func (e *Event) checkHash(buf []byte, members []member) error {
	var claimed []byte
	for _, m := range members {
		if string(m.key(e.json)) == "hashes" {
			claimed = field(m.value(e.json), "sha256")
		}
	}
	if len(claimed) < 2 || claimed[0] != '"' {
		return Errorf(BadJSON, "event: hashes.sha256 is missing or not a string")
	}
	want := sha256.Sum256(appendWithout(buf, e.json, members, "hashes", "signatures"))
	var got [sha256.Size]byte
	e.hashOK = decodeFixed(got[:], claimed[1:len(claimed)-1]) && got == want
	return nil
}

// identify sets the event's ID by its room version. buf is scratch space.
func (e *Event) identify(buf []byte, members []member) {
	if e.version.IDFormat == IDServer {
		return // the ID was read with the header
	}
	sum := sha256.Sum256(e.appendRedacted(buf, members, false))
	e.setID(hashID(e.version, sum))
}

// setID sets the ID, and the room ID that follows from it.
func (e *Event) setID(id EventID) {
	e.id = id
	if e.version.RoomIDFromCreate && e.isCreate() {
		e.room = RoomID("!" + id[1:])
	}
}

// isCreate tells whether the event is a create event, whatever its state key.
func (e *Event) isCreate() bool { return e.typ == TypeCreate }

// hashID makes an event ID of a reference hash.
func hashID(v *Version, sum [32]byte) EventID {
	var b [44]byte
	b[0] = '$'
	if v.IDFormat == IDBase64 {
		base64.RawStdEncoding.Encode(b[1:], sum[:])
	} else {
		base64.RawURLEncoding.Encode(b[1:], sum[:])
	}
	return EventID(b[:])
}
