package view

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/room"
	"hearth/storage"
	"hearth/storage/matrix"
)

func TestRoomEventFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.user("alice")
	r := w.create(alice, visibleShared)
	e := w.send(r, room.Draft{Type: "m.room.message", Sender: alice.ID, Content: jsontext.Value(`{"url":"mxc://a/b"}`)})
	plain := w.say(r, alice, "x")
	id := string(alice.ID)
	for _, test := range []struct {
		filter string
		event  storage.Event
		want   bool
	}{
		{`{}`, e, true},
		{`{"types":["m.room.message"]}`, e, true}, {`{"types":[]}`, e, false}, {`{"types":null}`, e, true}, {`{"types":["m.room.*"]}`, e, true},
		{`{"types":["*"]}`, e, true}, {`{"types":["*.message"]}`, e, true}, {`{"types":["m.*.mess*"]}`, e, true}, {`{"types":["m.room.messag?"]}`, e, false},
		{`{"types":["m.room"]}`, e, false}, {`{"types":["m.room.message.*"]}`, e, false}, {`{"types":["*room*room*"]}`, e, false},
		{`{"not_types":["m.room.message"]}`, e, false}, {`{"not_types":["m.room.name"]}`, e, true}, {`{"not_types":["*"],"types":["*"]}`, e, false},
		{`{"senders":["` + id + `"]}`, e, true}, {`{"senders":["@x:y"]}`, e, false}, {`{"senders":[]}`, e, false},
		{`{"not_senders":["` + id + `"]}`, e, false}, {`{"not_senders":["` + id + `"],"senders":["` + id + `"]}`, e, false},
		{`{"rooms":["` + string(r.ID) + `"]}`, e, true}, {`{"rooms":["!x:y"]}`, e, false}, {`{"not_rooms":["` + string(r.ID) + `"]}`, e, false},
		{`{"contains_url":true}`, e, true}, {`{"contains_url":false}`, e, false}, {`{"contains_url":true}`, plain, false}, {`{"contains_url":false}`, plain, true},
	} {
		var f RoomEventFilter
		if err := json.Unmarshal([]byte(test.filter), &f); err != nil {
			t.Fatal(err)
		}
		if got := f.AllowsEvent(test.event); got != test.want {
			t.Errorf("%s: got %v", test.filter, got)
		}
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	var f Filter
	err := json.Unmarshal([]byte(`{"event_fields":["type"],"event_format":"federation","presence":{"types":[]},
		"room":{"rooms":["!a:b"],"not_rooms":["!c:d"],"include_leave":true,"timeline":{"limit":7,"lazy_load_members":true,
		"include_redundant_members":true,"unread_thread_notifications":true},"state":{"limit":0}}}`), &f)
	if err != nil {
		t.Fatal(err)
	}
	if f.Fields == nil || !f.Federation || f.Presence.Allows("m.presence", "@a:b") || !f.AccountData.Allows("x", "") || !f.Room.IncludeLeave {
		t.Errorf("got %+v", f)
	}
	line := f.Room.Timeline
	if !line.LazyLoadMembers || !line.IncludeRedundantMembers || !line.UnreadThreadNotifications || f.Room.State.LazyLoadMembers {
		t.Errorf("got %+v", line)
	}
	if line.Limit(10, 100) != 7 || line.Limit(10, 5) != 5 || f.Room.State.Limit(10, 5) != 0 || f.Room.Ephemeral.Limit(10, 100) != 10 {
		t.Error("limits are wrong")
	}
	if !f.Room.AllowsRoom("!a:b") || f.Room.AllowsRoom("!c:d") || f.Room.AllowsRoom("!e:f") {
		t.Error("rooms are wrong")
	}
	none := Filter{}
	if !none.Room.AllowsRoom("!a:b") || !none.Room.Timeline.AllowsEvent(storage.Event{Event: mustEvent(t)}) || none.Fields != nil {
		t.Error("the zero filter holds something back")
	}
}

func mustEvent(t *testing.T) *matrix.Event {
	t.Helper()
	v, _ := matrix.VersionOf("10")
	e, err := matrix.ParseStored(v, "$x", []byte(`{"auth_events":[],"content":{},"depth":1,"hashes":{},"origin_server_ts":1,"prev_events":[],"room_id":"!a:b","sender":"@a:b","signatures":{},"type":"m.x"}`))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestFields(t *testing.T) {
	t.Parallel()
	const event = `{"content":{"body":"b","a.b":{"c":1,"d":2},"x\\y":3,"deep":{"e":{"f":4}},"s":"text"},"type":"t","sender":"s"}`
	for _, test := range []struct {
		paths []string
		want  string
	}{
		{nil, `{}`},
		{[]string{"type"}, `{"type":"t"}`},
		{[]string{"content.body", "sender"}, `{"content":{"body":"b"},"sender":"s"}`},
		{[]string{"content"}, `{"content":{"body":"b","a.b":{"c":1,"d":2},"x\\y":3,"deep":{"e":{"f":4}},"s":"text"}}`},
		{[]string{"content.body", "content"}, `{"content":{"body":"b","a.b":{"c":1,"d":2},"x\\y":3,"deep":{"e":{"f":4}},"s":"text"}}`},
		{[]string{"content", "content.body"}, `{"content":{"body":"b","a.b":{"c":1,"d":2},"x\\y":3,"deep":{"e":{"f":4}},"s":"text"}}`},
		{[]string{`content.a\.b.c`}, `{"content":{"a.b":{"c":1}}}`},
		{[]string{`content.x\\y`}, `{"content":{"x\\y":3}}`},
		{[]string{`content.x\y`}, `{"content":{"x\\y":3}}`},
		{[]string{"content.deep.e"}, `{"content":{"deep":{"e":{"f":4}}}}`},
		{[]string{"content.s.x", "content.none", "none", ""}, `{}`},
	} {
		got, err := NewFields(test.paths).Project(jsontext.Value(event))
		if err != nil || string(got) != test.want {
			t.Errorf("%q: got %s, %v, want %s", test.paths, got, err, test.want)
		}
	}
}

// A filter is asked about every event of every room: however it is written, it
// must not cost what its writer likes.
func TestFilterIsBounded(t *testing.T) {
	t.Parallel()
	list := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, ","+format, i)
		}
		return "[" + strings.TrimPrefix(b.String(), ",") + "]"
	}
	for _, key := range []string{"types", "not_types"} {
		var f RoomEventFilter
		if err := json.Unmarshal([]byte(`{"`+key+`":`+list(maxWild, `"x%d*"`)+`}`), &f); err != nil {
			t.Error(err)
		}
		err := json.Unmarshal([]byte(`{"`+key+`":`+list(maxWild+1, `"x%d*"`)+`}`), &f)
		if told := (*matrix.Error)(nil); !errors.As(err, &told) || told.Code != matrix.BadJSON {
			t.Errorf("%s: got %v", key, err)
		}
		if err := json.Unmarshal([]byte(`{"`+key+`":`+list(5000, `"x%d"`)+`}`), &f); err != nil {
			t.Error(err)
		}
	}
	if got := fewerStars("a**b***c*"); got != "a*b*c*" {
		t.Errorf("got %q", got)
	}
}

// FuzzFilter decodes any JSON, and holds what matches against regular expressions.
func FuzzFilter(f *testing.F) {
	f.Add(`{"types":["m.*"],"not_types":["**a*"],"senders":[],"rooms":null}`, "m.room.message")
	f.Add(`{"types":["*a*b","*"],"not_senders":["@a:b"],"contains_url":true,"limit":0}`, "ab")
	f.Add(`{"event_fields":["a.b\\.c","","."],"room":{"timeline":{"types":["x"]}}}`, "x")
	f.Fuzz(func(t *testing.T, text, typ string) {
		var whole Filter
		_ = json.Unmarshal([]byte(text), &whole)
		if whole.Fields != nil {
			out, err := whole.Fields.Project(jsontext.Value(`{"a":{"b.c":1,"b":{"c":[{}]}},"type":"x"}`))
			if err != nil || !out.IsValid() {
				t.Fatalf("%s: %s, %v", text, out, err)
			}
		}
		var filter EventFilter
		var shape eventFilterShape
		if json.Unmarshal([]byte(text), &filter) != nil || json.Unmarshal([]byte(text), &shape) != nil || !utf8.ValidString(typ) {
			return
		}
		matches := func(p string) bool {
			return regexp.MustCompile(`(?s)\A` + strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, `.*`) + `\z`).MatchString(typ)
		}
		want := (shape.Types == nil || slices.ContainsFunc(*shape.Types, matches)) && !slices.ContainsFunc(shape.NotTypes, matches)
		if got := filter.AllowsType(typ); got != want {
			t.Fatalf("%s lets %q through: %v", text, typ, got)
		}
	})
}
