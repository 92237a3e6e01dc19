package matrix

import (
	"errors"
	"maps"
	"math"
	"strings"
	"testing"
)

// TestParseEventFields breaks one field of a valid event at a time, in every
// room version. A nil value leaves the field out.
func TestParseEventFields(t *testing.T) {
	long := strings.Repeat("x", 256)
	ids := func(n int) []any {
		var list []any
		for range n {
			list = append(list, "$x")
		}
		return list
	}
	for _, c := range []struct {
		key   string
		value any
		code  Code                // empty: accepted
		in    func(*Version) bool // nil: every version
	}{
		{key: "type"}, {key: "sender"}, {key: "room_id"}, {key: "origin_server_ts"}, {key: "depth"}, {key: "content"},
		{key: "hashes"}, {key: "signatures"}, {key: "prev_events"}, {key: "auth_events"},
		{"event_id", nil, BadJSON, isPair}, {"event_id", "$x", BadJSON, isPair}, {"event_id", "$x:b c", BadJSON, isPair},
		{"event_id", "$" + long + ":b.org", TooLarge, isPair}, {"event_id", 5, "", not(isPair)},

		{"type", 5, BadJSON, nil}, {"type", long, TooLarge, nil}, {"type", "", "", nil}, {"type", strings.Repeat("é", 128), TooLarge, nil},
		{"state_key", 5, BadJSON, nil}, {"state_key", nil, "", nil}, {"state_key", long, TooLarge, nil}, {"state_key", long[:255], "", nil},
		{"sender", 5, BadJSON, nil}, {"sender", "a:b.org", BadJSON, nil}, {"sender", "@a", BadJSON, nil}, {"sender", "@a:b c", BadJSON, nil},
		{"sender", "@A b\né:b.org", "", nil}, {"sender", "@:b.org", "", nil}, {"sender", "@a\x00:b.org", BadJSON, nil}, {"sender", "@" + long + ":b.org", TooLarge, nil},
		{"room_id", 5, BadJSON, nil}, {"room_id", "!x", BadJSON, nil}, {"room_id", "!x:b.org", BadJSON, isV12}, {"room_id", "!x:b.org", "", not(isV12)},
		{"room_id", string(roomFor(&Version{RoomIDFromCreate: true})), BadJSON, not(isV12)}, {"room_id", "!" + long + ":b.org", TooLarge, nil},
		{"origin_server_ts", "1", BadJSON, nil}, {"origin_server_ts", 1.5, BadJSON, nil}, {"origin_server_ts", -1, "", nil},
		{"depth", "1", BadJSON, nil}, {"depth", -1, BadJSON, nil}, {"depth", 0, "", nil}, {"depth", 1.5, BadJSON, nil}, {"depth", true, BadJSON, nil},
		{"depth", int64(1) << 53, BadJSON, isStrict}, {"depth", int64(1)<<53 - 1, "", nil}, {"depth", int64(math.MaxInt64), "", not(isStrict)}, {"depth", uint64(1) << 63, BadJSON, nil},
		{"content", []any{}, BadJSON, nil}, {"content", "x", BadJSON, nil}, {"content", map[string]any{"n": 1.5}, BadJSON, isStrict},
		{"content", map[string]any{"n": 1.5}, "", not(isStrict)}, {"content", map[string]any{"n": int64(1) << 60}, BadJSON, isStrict},
		{"hashes", map[string]any{}, BadJSON, nil}, {"hashes", map[string]any{"sha256": 5}, BadJSON, nil}, {"hashes", "x", BadJSON, nil},
		{"hashes", map[string]any{"sha256": "!"}, "", nil},
		{"signatures", []any{}, BadJSON, nil}, {"signatures", map[string]any{"b": 1}, BadJSON, nil}, {"signatures", map[string]any{"b": map[string]any{"k": 1}}, BadJSON, nil}, {"signatures", map[string]any{}, "", nil},
		{"prev_events", "x", BadJSON, nil}, {"prev_events", []any{}, "", nil}, {"prev_events", []any{5}, BadJSON, nil}, {"prev_events", []any{"x"}, BadJSON, nil},
		{"prev_events", []any{"$" + long}, TooLarge, not(isPair)}, {"prev_events", ids(20), "", not(isPair)}, {"prev_events", ids(21), BadJSON, nil},
		{"auth_events", ids(10), "", not(isPair)}, {"auth_events", ids(11), BadJSON, nil}, {"auth_events", ids(1), BadJSON, isPair},
		{"prev_events", []any{[]any{"$x:b", map[string]any{}}}, "", isPair}, {"prev_events", []any{[]any{"$x:b", map[string]any{}}}, BadJSON, not(isPair)},
		{"prev_events", []any{[]any{"$x:b"}}, BadJSON, nil}, {"prev_events", []any{[]any{"$x:b", "y"}}, BadJSON, nil}, {"prev_events", []any{[]any{"$x:b", map[string]any{}, 1}}, BadJSON, nil},
		{"unsigned", 5, "", nil}, {"redacts", 5, "", nil}, {"extra", map[string]any{"a": []any{}}, "", nil},
	} {
		for _, v := range versionsOf(t, "all") {
			if c.in != nil && !c.in(v) {
				continue
			}
			want := c.code
			if c.value == nil && c.in == nil && c.key != "state_key" {
				want = BadJSON
			}
			event := maps.Clone(sample(v))
			if event[c.key] = c.value; c.value == nil {
				delete(event, c.key)
			}
			_, err := ParseEvent(v, marshal(t, event))
			if got := codeOf(err); got != want {
				t.Errorf("version %s, %s = %v: got %v, want %q", v.ID, c.key, c.value, err, want)
			}
		}
	}
}

func isPair(v *Version) bool   { return v.PairReferences }
func isStrict(v *Version) bool { return v.StrictJSON }
func isV12(v *Version) bool    { return v.RoomIDFromCreate }

func not(f func(*Version) bool) func(*Version) bool {
	return func(v *Version) bool { return !f(v) }
}

func codeOf(err error) Code {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	} else if err != nil {
		return Code(err.Error())
	}
	return ""
}

func TestParseEventJSON(t *testing.T) {
	v := version(t, "11")
	good := string(marshal(t, sample(v)))
	for name, raw := range map[string]string{
		"empty":          "",
		"array":          "[]",
		"null":           "null",
		"empty object":   "{}",
		"cut":            good[:len(good)-1],
		"text after":     good + "{}",
		"duplicate key":  good[:len(good)-1] + `,"type":"y"}`,
		"duplicate deep": strings.Replace(good, `{"body"`, `{"body":1,"body"`, 1),
		"invalid UTF-8":  strings.Replace(good, "text", "\xff", 1),
		"negative zero":  strings.Replace(good, `"text"`, "-0", 1),
	} {
		if _, err := ParseEvent(v, []byte(raw)); codeOf(err) != BadJSON {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := ParseEvent(v, []byte(good+strings.Repeat(" ", maxRawEvent))); codeOf(err) != TooLarge {
		t.Errorf("white space: got %v", err)
	}
}

// TestParseEventSize: what stands in unsigned does not count, escapes and
// white space neither.
func TestParseEventSize(t *testing.T) {
	v := version(t, "11")
	event := sample(v)
	event["unsigned"] = map[string]any{"x": strings.Repeat("x", MaxEventSize)}
	raw := string(marshal(t, event))
	raw = strings.Replace(raw, `"text"`, `"`+strings.Repeat(`\u00e9`, 20000)+`"`, 1)
	e, err := ParseEvent(v, []byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if len(e.JSON()) > MaxEventSize || strings.Contains(string(e.JSON()), "unsigned") {
		t.Errorf("got %d bytes", len(e.JSON()))
	}
	equal(t, len(e.Unsigned()), MaxEventSize+len(`{"x":""}`))
}

// The limit is in bytes of canonical JSON: 65,536 pass, one more does not,
// and characters count by their UTF-8.
func TestParseEventSizeBoundary(t *testing.T) {
	v := version(t, "12")
	for _, char := range []string{"x", "é", "😀"} {
		event := sample(v)
		event["content"] = map[string]any{"body": ""}
		room := MaxEventSize - len(marshal(t, event))
		body := strings.Repeat(char, room/len(char)) + strings.Repeat("x", room%len(char))
		event["content"] = map[string]any{"body": body}
		if _, err := ParseEvent(v, marshal(t, event)); err != nil {
			t.Errorf("%s: %d bytes: %v", char, len(marshal(t, event)), err)
		}
		event["content"] = map[string]any{"body": body + "x"}
		if _, err := ParseEvent(v, marshal(t, event)); err == nil {
			t.Errorf("%s: %d bytes pass", char, len(marshal(t, event)))
		}
	}
}

func TestEventAccessors(t *testing.T) {
	for _, v := range versionsOf(t, "all") {
		event := sample(v)
		event["sender"], event["state_key"] = "@\"é\\:b.org", "a\nb"
		event["type"], event["redacts"] = TypeRedaction, "$top:b.org"
		event["content"] = map[string]any{"redacts": "$inside"}
		event["unsigned"] = map[string]any{"age": 1}
		e, err := ParseEvent(v, marshal(t, event))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, e.Type(), TypeRedaction)
		equal(t, e.Sender(), "@\"é\\:b.org")
		key, ok := e.StateKey()
		equal(t, key, "a\nb")
		equal(t, ok, true)
		equal(t, e.IsState(TypeRedaction, key), true)
		equal(t, e.RoomID(), roomFor(v))
		equal(t, e.Depth(), 2)
		equal(t, e.OriginServerTS(), 1)
		equal(t, len(e.PrevEvents()), 1)
		equal(t, e.PrevEvents()[0], "$p:b.org")
		equal(t, e.AuthEvents()[0], "$a:b.org")
		equal(t, string(e.Content()), `{"redacts":"$inside"}`)
		equal(t, string(e.Unsigned()), `{"age":1}`)
		equal(t, e.HashOK(), false)
		want := EventID("$top:b.org")
		if v.RedactsInContent {
			want = "$inside"
		}
		equal(t, e.Redacts(), want)
	}
}

// TestCreateEventRoomID: from version 12 on a create event's room is named by
// its own ID, and other versions still need a room_id.
func TestCreateEventRoomID(t *testing.T) {
	for _, v := range versionsOf(t, "all") {
		event := sample(v)
		event["type"] = TypeCreate
		delete(event, "room_id")
		e, err := ParseEvent(v, marshal(t, event))
		if !v.RoomIDFromCreate {
			equal(t, codeOf(err), BadJSON)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		equal(t, e.RoomID(), RoomID("!"+e.ID()[1:]))
		equal(t, e.HasRoomID(), false)

		event["room_id"] = "!anything"
		if _, err = ParseEvent(v, marshal(t, event)); err == nil {
			t.Error("a malformed room ID was taken")
		}
		event["room_id"] = string(roomFor(v))
		if e, err = ParseEvent(v, marshal(t, event)); err != nil {
			t.Fatal(err)
		}
		equal(t, e.HasRoomID(), true) // for authorization to refuse
		equal(t, e.RoomID(), RoomID("!"+e.ID()[1:]))
	}
}
