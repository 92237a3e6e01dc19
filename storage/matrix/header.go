package matrix

import "bytes"

// header collects the strings of an event, so that one allocation holds them all.
type header struct {
	buf   []byte
	spans [8 + MaxPrevEvents + MaxAuthEvents]span
	n     int // how many spans the lists have
	prev  int // how many of them are prev_events
	seen  fieldSet
}

type span struct{ from, to int }

// The spans before those of prev_events and auth_events.
const (
	spanRoom = iota
	spanType
	spanStateKey
	spanSender
	spanRedacts
	spanID
	spanLists
)

// text adds a string field. It reports absence, another kind, and excess length.
func (h *header) text(at int, name string, v []byte) error {
	if len(v) < 2 || v[0] != '"' {
		return Errorf(BadJSON, "event: %s is not a string", name)
	}
	from := len(h.buf)
	v = v[1 : len(v)-1]
	if bytes.IndexByte(v, '\\') < 0 {
		h.buf = append(h.buf, v...)
	} else {
		h.buf = appendUnescaped(h.buf, v)
	}
	if len(h.buf)-from > MaxFieldSize {
		return Errorf(TooLarge, "event: %s is longer than %d bytes", name, MaxFieldSize)
	}
	h.spans[at] = span{from, len(h.buf)}
	if at < spanLists {
		h.seen |= 1 << at
	}
	return nil
}

// readHeader reads the fields of the event other than hashes, and checks their
// shape and limits. buf is scratch space.
func (e *Event) readHeader(buf []byte, members []member) error {
	h := header{buf: buf}
	var prev, auth []byte
	for _, m := range members {
		v := m.value(e.json)
		switch string(m.key(e.json)) {
		case "prev_events":
			prev = v
		case "auth_events":
			auth = v
		default:
			if err := e.readField(&h, m.key(e.json), v); err != nil {
				return err
			}
		}
	}
	if e.version.RedactsInContent && h.is(spanType, TypeRedaction) {
		h.redacts(field(e.content, "redacts"))
	}
	if err := h.seen.check(e.version, h.is(spanType, TypeCreate)); err != nil {
		return err
	}
	var err error
	if h.prev, err = h.references(e.version, "prev_events", prev, MaxPrevEvents); err != nil {
		return err
	}
	if _, err = h.references(e.version, "auth_events", auth, MaxAuthEvents); err != nil {
		return err
	}
	e.hasRoom = h.seen&hasRoomID != 0
	return e.setHeader(&h)
}

// readField reads one field; one that is of no interest passes.
func (e *Event) readField(h *header, key, v []byte) (err error) {
	switch string(key) {
	case "type":
		return h.text(spanType, "type", v)
	case "room_id":
		return h.text(spanRoom, "room_id", v)
	case "sender":
		return h.text(spanSender, "sender", v)
	case "state_key":
		e.isState = true
		return h.text(spanStateKey, "state_key", v)
	case "event_id":
		if e.version.IDFormat == IDServer {
			return h.text(spanID, "event_id", v)
		}
	case "redacts":
		if !e.version.RedactsInContent {
			h.redacts(v)
		}
	case "origin_server_ts":
		e.ts, err = h.int(hasTS, "origin_server_ts", v)
	case "depth":
		if e.depth, err = h.int(hasDepth, "depth", v); err == nil && (e.depth < 0 || e.depth > e.version.MaxDepth) {
			err = Errorf(BadJSON, "event: depth is out of range")
		}
	case "content":
		e.content = v
		return h.object(hasContent, "content", v)
	case "signatures":
		e.signatures = v
		return h.object(hasSignatures, "signatures", v)
	}
	return err
}

// is compares a collected string.
func (h *header) is(at int, s string) bool {
	return string(h.buf[h.spans[at].from:h.spans[at].to]) == s
}

// redacts adds the ID of the redacted event. One that is malformed counts as none.
func (h *header) redacts(v []byte) {
	if h.text(spanRedacts, "redacts", v) != nil {
		h.spans[spanRedacts] = span{}
	}
}

func (h *header) int(field fieldSet, name string, v []byte) (int64, error) {
	h.seen |= field
	n, ok := intOf(v)
	if !ok {
		return 0, Errorf(BadJSON, "event: %s is not an integer", name)
	}
	return n, nil
}

func (h *header) object(field fieldSet, name string, v []byte) error {
	if h.seen |= field; v[0] != '{' {
		return Errorf(BadJSON, "event: %s is not an object", name)
	}
	return nil
}

// references adds the event IDs of prev_events or auth_events and counts them.
func (h *header) references(v *Version, name string, list []byte, limit int) (n int, err error) {
	if len(list) == 0 || list[0] != '[' {
		return 0, Errorf(BadJSON, "event: %s is missing or not an array", name)
	}
	for id := range elementsOf(list) {
		if v.PairReferences {
			if id, err = pairID(name, id); err != nil {
				return 0, err
			}
		}
		if n++; n > limit {
			return 0, Errorf(BadJSON, "event: more than %d %s", limit, name)
		}
		if err := h.text(spanLists+h.n, name, id); err != nil {
			return 0, err
		}
		h.n++
	}
	return n, nil
}

// pairID takes the event ID of an [id, {"sha256": …}] pair of room versions 1 and 2.
func pairID(name string, pair []byte) (id []byte, err error) {
	n := 0
	for v := range elementsOf(pair) {
		switch n++; {
		case n == 1:
			id = v
		case n > 2 || v[0] != '{':
			id = nil
		}
	}
	if n != 2 || id == nil {
		return nil, Errorf(BadJSON, "event: %s holds something else than pairs of ID and hashes", name)
	}
	return id, nil
}

// setHeader gives the event its strings, and checks those with a grammar.
func (e *Event) setHeader(h *header) error {
	all := string(h.buf)
	get := func(at int) string { return all[h.spans[at].from:h.spans[at].to] }
	e.typ, e.stateKey = get(spanType), get(spanStateKey)
	e.room, e.sender = RoomID(get(spanRoom)), UserID(get(spanSender))
	e.redacts, e.id = EventID(get(spanRedacts)), EventID(get(spanID))
	ids := make([]EventID, h.n)
	for i := range ids {
		ids[i] = EventID(get(spanLists + i))
		if err := checkOpaque('$', string(ids[i])); err != nil {
			return Errorf(BadJSON, "event: reference to %q: %v", clip(string(ids[i])), err)
		}
	}
	e.prev, e.auth = ids[:h.prev:h.prev], ids[h.prev:]
	return e.checkIDs()
}

// checkIDs checks sender, room and event ID by their grammar in the room version.
func (e *Event) checkIDs() error {
	if _, err := ParseUserID(string(e.sender)); err != nil {
		return Errorf(BadJSON, "event: sender: %v", err)
	}
	if e.hasRoom {
		if err := checkRoomID(e.version, e.room); err != nil {
			return Errorf(BadJSON, "event: %v", err)
		}
	}
	if e.version.IDFormat == IDServer {
		if err := checkDomainID('$', string(e.id)); err != nil {
			return Errorf(BadJSON, "event: %v", err)
		}
	}
	if e.redacts != "" && checkOpaque('$', string(e.redacts)) != nil {
		e.redacts = ""
	}
	return nil
}

// fieldSet is the set of fields that an event has: a bit for each span before
// the lists, and these.
type fieldSet uint16

const (
	hasRoomID     fieldSet = 1 << spanRoom
	hasID         fieldSet = 1 << spanID
	hasTS         fieldSet = 1 << spanLists
	hasDepth      fieldSet = 2 << spanLists
	hasContent    fieldSet = 4 << spanLists
	hasSignatures fieldSet = 8 << spanLists
)

var requiredFields = [...]struct {
	bit  fieldSet
	name string
}{
	{1 << spanType, "type"}, {1 << spanSender, "sender"}, {hasRoomID, "room_id"}, {hasID, "event_id"},
	{hasTS, "origin_server_ts"}, {hasDepth, "depth"}, {hasContent, "content"}, {hasSignatures, "signatures"},
}

// check reports the first required field that is missing.
func (s fieldSet) check(v *Version, create bool) error {
	if v.RoomIDFromCreate && create {
		s |= hasRoomID
	}
	if v.IDFormat != IDServer {
		s |= hasID
	}
	for _, f := range requiredFields {
		if s&f.bit == 0 {
			return Errorf(BadJSON, "event: no %s", f.name)
		}
	}
	return nil
}
