package syncer

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"hearth/federation/room"
	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
)

// world is a syncer over a real store, with rooms made the way the server makes
// them.
type world struct {
	t      testing.TB
	store  *storage.Store
	syncer *Syncer
	rooms  *room.Rooms
	signer matrix.Signer
	temp   string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	s, err := storage.Open(t.Context(), storage.Options{Dir: t.TempDir(), ServerName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	signer := matrix.Signer{Server: "test", KeyID: "ed25519:1", Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	w := &world{t: t, store: s, signer: signer, temp: t.TempDir()}
	w.syncer = New(s, inbox.New(s, inbox.Options{}, zap.NewNop()), zap.NewNop(), Options{TempDir: w.temp})
	w.rooms = room.New(s, func() matrix.Signer { return signer }, room.Options{}, zap.NewNop())
	return w
}

func (w *world) write(fn func(tx *storage.Tx) error) {
	w.t.Helper()
	if err := w.rooms.Write(w.t.Context(), "test", fn); err != nil {
		w.t.Fatal(err)
	}
}

// person is a user with one device.
type person struct {
	w      *world
	id     matrix.UserID
	num    int64
	device int64
	since  string
}

func (w *world) person(name string) *person {
	w.t.Helper()
	p := &person{w: w, id: matrix.UserID("@" + name + ":test")}
	w.write(func(tx *storage.Tx) (err error) {
		if p.num, err = tx.AddUser(storage.User{Localpart: name}); err != nil {
			return err
		}
		p.device, err = tx.AddDevice(p.num, "PHONE", "")
		return err
	})
	return p
}

// create makes a room; a preset decides who may join and see its history.
func (p *person) create(c room.Creation) storage.Room {
	p.w.t.Helper()
	var r storage.Room
	c.Creator = p.id
	p.w.write(func(tx *storage.Tx) (err error) {
		r, err = p.w.rooms.Create(tx, c)
		return err
	})
	return r
}

func (p *person) public() storage.Room {
	p.w.t.Helper()
	return p.create(room.Creation{Preset: room.PresetPublic})
}

// act does one of the things that change memberships.
func (p *person) act(r storage.Room, what string, whom *person) {
	p.w.t.Helper()
	a := room.Act{Sender: p.id, Target: p.id}
	if whom != nil {
		a.Target = whom.id
	}
	do := map[string]func(*storage.Tx, storage.Room, room.Act) error{
		"join": p.w.rooms.Join, "leave": p.w.rooms.Leave, "knock": p.w.rooms.Knock, "invite": p.w.rooms.Invite,
		"kick": p.w.rooms.Kick, "ban": p.w.rooms.Ban, "unban": p.w.rooms.Unban,
	}[what]
	p.w.write(func(tx *storage.Tx) error {
		if what == "forget" {
			return tx.Forget(r.Num, p.id)
		}
		return do(tx, r, a)
	})
}

func (p *person) say(r storage.Room, text string) storage.Event {
	p.w.t.Helper()
	return p.send(r, room.Draft{Type: "m.room.message", Content: jsontext.Value(fmt.Sprintf(`{"body":%q}`, text))})
}

func (p *person) set(r storage.Room, typ, key, content string) storage.Event {
	p.w.t.Helper()
	return p.send(r, room.Draft{Type: typ, StateKey: &key, Content: jsontext.Value(content)})
}

func (p *person) send(r storage.Room, d room.Draft) (e storage.Event) {
	p.w.t.Helper()
	d.Sender = p.id
	p.w.write(func(tx *storage.Tx) (err error) {
		e, err = p.w.rooms.Send(tx, r, d)
		return err
	})
	return e
}

// told is an answer as a client reads it.
type told struct {
	Next  string `json:"next_batch"`
	Rooms struct {
		Join   map[matrix.RoomID]toldRoom `json:"join"`
		Leave  map[matrix.RoomID]toldRoom `json:"leave"`
		Invite map[matrix.RoomID]struct {
			State toldEvents `json:"invite_state"`
		} `json:"invite"`
		Knock map[matrix.RoomID]struct {
			State toldEvents `json:"knock_state"`
		} `json:"knock"`
	} `json:"rooms"`
	Account toldEvents `json:"account_data"`
	raw     string
}

type toldEvents struct {
	Events []toldEvent `json:"events"`
}

type toldEvent struct {
	ID       matrix.EventID `json:"event_id"`
	Type     string         `json:"type"`
	Sender   matrix.UserID  `json:"sender"`
	StateKey *string        `json:"state_key"`
	Content  struct {
		Body       string `json:"body"`
		Name       string `json:"name"`
		Membership string `json:"membership"`
		N          int    `json:"n"`
	} `json:"content"`
}

type toldRoom struct {
	Summary *struct {
		Heroes  []matrix.UserID `json:"m.heroes"`
		Joined  int             `json:"m.joined_member_count"`
		Invited int             `json:"m.invited_member_count"`
	} `json:"summary"`
	State    *toldEvents `json:"state"`
	After    *toldEvents `json:"state_after"`
	Timeline struct {
		toldEvents
		Limited bool   `json:"limited"`
		Prev    string `json:"prev_batch"`
	} `json:"timeline"`
	Account toldEvents `json:"account_data"`
}

// String shows events by type, with what tells them apart.
func (e toldEvent) String() string {
	text := strings.TrimPrefix(e.Type, "m.room.")
	if e.StateKey != nil && *e.StateKey != "" {
		text += "(" + strings.TrimSuffix(*e.StateKey, ":test") + ")"
	}
	for _, detail := range []string{e.Content.Body, e.Content.Name, e.Content.Membership} {
		if detail != "" {
			text += "=" + detail
		}
	}
	if e.Content.N != 0 {
		text += fmt.Sprint("=", e.Content.N)
	}
	return text
}

func list(events []toldEvent) string {
	var parts []string
	for _, e := range events {
		parts = append(parts, e.String())
	}
	return strings.Join(parts, " ")
}

// sorted is list for the state, whose order means nothing.
func sorted(events []toldEvent) string {
	parts := strings.Fields(list(events))
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func (p *person) request(filter string) Request {
	r := Request{User: p.id, UserNum: p.num, DeviceNum: p.device, Since: p.since}
	if filter != "" {
		if err := json.Unmarshal([]byte(filter), &r.Filter); err != nil {
			p.w.t.Fatal(err)
		}
	}
	return r
}

// sync asks for what is new, without waiting.
func (p *person) sync(filter string, how ...func(*Request)) told {
	p.w.t.Helper()
	r := p.request(filter)
	for _, f := range how {
		f(&r)
	}
	resp, err := p.w.syncer.Sync(p.w.t.Context(), r)
	if err != nil {
		p.w.t.Fatal(err)
	}
	return p.read(resp)
}

func (p *person) read(resp Response) (t told) {
	p.w.t.Helper()
	var b bytes.Buffer
	if err := resp.WriteJSON(&b); err != nil {
		p.w.t.Fatal(err)
	}
	if err := resp.Close(); err != nil {
		p.w.t.Fatal(err)
	}
	if err := json.Unmarshal(b.Bytes(), &t); err != nil {
		p.w.t.Fatalf("%v in %s", err, b.Bytes())
	}
	t.raw, p.since = b.String(), t.Next
	return t
}

func stateAfter(r *Request) { r.StateAfter = true }
func fullState(r *Request)  { r.FullState = true }
func first(r *Request)      { r.Since = "" }
func waiting(r *Request)    { r.Timeout = time.Minute }
func (t told) rooms() (n int) {
	return len(t.Rooms.Join) + len(t.Rooms.Leave) + len(t.Rooms.Invite) + len(t.Rooms.Knock)
}
func (r toldRoom) timeline() string  { return list(r.Timeline.Events) }
func (r toldRoom) stateText() string { return sorted(r.State.Events) }
func (r toldRoom) afterText() string { return sorted(r.After.Events) }
func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}

// wantState is want for events in no order.
func wantState(t *testing.T, what, got, expected string) {
	t.Helper()
	parts := strings.Fields(expected)
	slices.Sort(parts)
	want(t, what, got, strings.Join(parts, " "))
}
