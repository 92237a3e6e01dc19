package view

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/room"
	"hearth/storage"
	"hearth/storage/matrix"
)

// shape is an event as a test reads it.
type shape struct {
	Content  map[string]any `json:"content"`
	ID       matrix.EventID `json:"event_id"`
	TS       int64          `json:"origin_server_ts"`
	Redacts  string         `json:"redacts"`
	Room     matrix.RoomID  `json:"room_id"`
	Sender   matrix.UserID  `json:"sender"`
	StateKey *string        `json:"state_key"`
	Type     string         `json:"type"`
	Unsigned struct {
		Age         *int64         `json:"age"`
		Membership  string         `json:"membership"`
		PrevContent map[string]any `json:"prev_content"`
		PrevSender  matrix.UserID  `json:"prev_sender"`
		Replaces    matrix.EventID `json:"replaces_state"`
		Because     *shape         `json:"redacted_because"`
		Txn         string         `json:"transaction_id"`
	} `json:"unsigned"`
	Hashes jsontext.Value `json:"hashes"`
	Rest   map[string]any `json:",embed"`
}

func (w *world) told(u User, e storage.Event, f Format) (s shape) {
	w.tb.Helper()
	w.as(u, func(v *Viewer) error {
		text, err := v.ClientEvent(e, f)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &s)
	})
	return s
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestClientEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.user("alice"), w.user("bob")
	r := w.create(alice, visibleJoined)
	first := w.set(r, alice, "m.room.topic", "", `{"topic":"one"}`)
	w.act((*room.Rooms).Invite, r, alice, bob)
	second := w.set(r, alice, "m.room.topic", "", `{"topic":"two"}`)
	joined := w.act((*room.Rooms).Join, r, bob, bob)
	said := w.send(r, room.Draft{Type: "m.room.message", Sender: alice.ID, Content: jsontext.Value(`{"body":"\"\\ü","n":1}`), Device: alice.Device, TxnID: "t\"1"})

	got := w.told(alice, said, Format{RoomID: true})
	same(t, "content", got.Content, map[string]any{"body": `"\ü`, "n": 1})
	same(t, "id", got.ID, said.ID())
	same(t, "room", got.Room, r.ID)
	same(t, "sender", got.Sender, alice.ID)
	same(t, "type", got.Type, "m.room.message")
	same(t, "time", got.TS, said.OriginServerTS())
	same(t, "transaction", got.Unsigned.Txn, `t"1`)
	same(t, "membership", got.Unsigned.Membership, "join")
	if got.StateKey != nil || got.Unsigned.Age == nil || len(got.Rest) > 0 || got.Hashes != nil {
		t.Errorf("got %+v", got)
	}
	other := alice
	other.Device++
	same(t, "transaction for another device", w.told(other, said, Format{}).Unsigned.Txn, "")
	same(t, "room in sync", w.told(alice, said, Format{}).Room, "")

	// What a state event replaced: its content for those who may see it.
	topic := w.told(alice, second, Format{})
	same(t, "state key", *topic.StateKey, "")
	same(t, "previous content", topic.Unsigned.PrevContent, map[string]any{"topic": "one"})
	same(t, "previous sender", topic.Unsigned.PrevSender, alice.ID)
	same(t, "replaced", topic.Unsigned.Replaces, first.ID())
	topic = w.told(bob, second, Format{})
	same(t, "hidden previous content", len(topic.Unsigned.PrevContent), 0)
	same(t, "replaced, hidden", topic.Unsigned.Replaces, first.ID())
	same(t, "membership of the invited", topic.Unsigned.Membership, "invite")
	same(t, "own change counts", w.told(bob, joined, Format{}).Unsigned.Membership, "join")
	same(t, "never heard of", w.told(bob, first, Format{}).Unsigned.Membership, "leave")

	// As state it is told without what would have to be looked up.
	topic = w.told(alice, second, Format{State: true})
	same(t, "replaced, as state", topic.Unsigned.Replaces, first.ID())
	same(t, "content, as state", topic.Content, map[string]any{"topic": "two"})
	if topic.Unsigned.PrevContent != nil || topic.Unsigned.Membership != "" || topic.Unsigned.Age == nil {
		t.Errorf("as state: got %+v", topic.Unsigned)
	}

	// The format of servers.
	raw := w.told(alice, said, Format{Federation: true})
	same(t, "federation id", raw.ID, said.ID())
	if raw.Hashes == nil || raw.Rest["prev_events"] == nil || raw.Unsigned.Age == nil {
		t.Errorf("got %+v", raw)
	}
	fields := w.told(alice, said, Format{Fields: NewFields([]string{"content.body", "event_id"})})
	same(t, "fields", fields.Content, map[string]any{"body": `"\ü`})
	same(t, "fields", fields.ID, said.ID())
	same(t, "no other fields", fields.Type, "")
}

func TestRedactedEvents(t *testing.T) {
	t.Parallel()
	for _, version := range []matrix.RoomVersion{"10", "12"} {
		w := newWorld(t)
		alice, bob := w.user("alice"), w.user("bob")
		var r storage.Room
		w.write(func(tx *storage.Tx) (err error) {
			r, err = w.rooms.Create(tx, room.Creation{Creator: alice.ID, Version: version, Preset: room.PresetPublic})
			return err
		})
		w.act((*room.Rooms).Join, r, bob, bob)
		said := w.say(r, alice, "secret")
		w.act((*room.Rooms).Leave, r, bob, bob)
		redaction := w.send(r, room.Draft{Type: matrix.TypeRedaction, Sender: alice.ID, Redacts: said.ID(), Content: jsontext.Value(`{"reason":"rude"}`)})

		got := w.told(alice, redaction, Format{})
		same(t, "redacts", got.Redacts, said.ID())
		same(t, "content", got.Content, map[string]any{"redacts": said.ID(), "reason": "rude"})
		got = w.told(alice, w.event(said.ID()), Format{RoomID: true})
		same(t, "redacted content", len(got.Content), 0)
		because := got.Unsigned.Because
		if because == nil || because.ID != redaction.ID() || because.Room != r.ID || because.Unsigned.Age == nil {
			t.Fatalf("version %s: got %+v", version, because)
		}
		same(t, "because", because.Content["reason"], "rude")
		// Bob left before, so he learns that, but not why.
		got = w.told(bob, w.event(said.ID()), Format{})
		if because = got.Unsigned.Because; because == nil || because.ID != redaction.ID() || because.Content["reason"] != nil {
			t.Errorf("version %s: bob got %+v", version, because)
		}
		// A redaction that is redacted tells nothing of itself.
		again := w.send(r, room.Draft{Type: matrix.TypeRedaction, Sender: alice.ID, Redacts: redaction.ID()})
		got = w.told(alice, w.event(said.ID()), Format{})
		if because = got.Unsigned.Because; because == nil || because.Content["reason"] != nil || because.Unsigned.Because != nil {
			t.Errorf("version %s: got %+v after %s", version, because, again.ID())
		}
	}
}

// Every event of a batch is as it is alone.
func TestClientEventsInBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.user("alice")
	r := w.create(alice, visibleShared)
	for i := range 10 {
		w.say(r, alice, strings.Repeat("x", i*50))
		w.set(r, alice, "m.room.topic", "", fmt.Sprintf(`{"topic":"%d"}`, i))
	}
	events := w.all(r)
	w.read(func(rx *storage.Rx) error {
		list, err := New(rx, alice).ClientEvents(events, withAll)
		if err != nil {
			return err
		}
		for i, e := range events {
			alone, err := New(rx, alice).ClientEvent(e, withAll)
			if err != nil || string(alone) != string(list[i]) {
				t.Errorf("event %d: %v\n%s\n%s", i, err, list[i], alone)
			}
		}
		return nil
	})
}

var withAll = Format{RoomID: true}

// The ratio of the two is what splicing saves: the second is the least that
// decoding and encoding an event costs.
func BenchmarkClientEvents(b *testing.B) {
	w := newWorld(b)
	alice := w.user("alice")
	r := w.create(alice, visibleShared)
	for i := range 100 {
		w.say(r, alice, fmt.Sprintf("message %d of a room, as long as people write", i))
	}
	events := w.all(r)[10:]
	b.Run("splice", func(b *testing.B) {
		w.as(alice, func(v *Viewer) error {
			for b.Loop() {
				if _, err := v.ClientEvents(events, withAll); err != nil {
					return err
				}
			}
			return nil
		})
	})
	b.Run("decode and encode", func(b *testing.B) {
		for b.Loop() {
			for _, e := range events {
				var m map[string]any
				if err := json.Unmarshal(e.JSON(), &m); err != nil {
					b.Fatal(err)
				}
				m["unsigned"] = map[string]any{"age": 1, "membership": "join"}
				if _, err := json.Marshal(m); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("see, cold", func(b *testing.B) {
		w.read(func(rx *storage.Rx) error {
			for b.Loop() {
				if _, err := New(rx, alice).CanSee(events); err != nil {
					return err
				}
			}
			return nil
		})
	})
	b.Run("see one, cold", func(b *testing.B) {
		w.read(func(rx *storage.Rx) error {
			for b.Loop() {
				if _, err := New(rx, alice).CanSee(events[:1]); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
