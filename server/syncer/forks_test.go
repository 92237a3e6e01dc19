package syncer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/room"
	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// TestForks has rooms fork at random, as federation makes them fork, while
// clients sync now and then. However resolution decides, what each has put
// together is the room's current state, in either form in which it is told.
//
// An entry that resolution removed is the exception: there is no event to tell.
func TestForks(t *testing.T) {
	t.Parallel()
	for seed := range storagetest.Scale(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			f := &forks{world: w, rng: rand.New(rand.NewPCG(uint64(seed), 0)), alice: w.person("alice"), bob: w.person("bob")}
			f.room = f.alice.create(room.Creation{
				Preset: room.PresetPublic, Version: []matrix.RoomVersion{"12", "11", "6"}[seed%3],
				PowerLevels: []byte(`{"users_default":50}`),
			})
			f.bob.act(f.room, "join", nil)
			ways := []func(*Request){func(*Request) {}, stateAfter, func(r *Request) { r.FullState = f.rng.IntN(3) == 0 }}
			for i, how := range ways {
				c := &forkClient{person: *f.alice, how: how, away: true}
				c.filter = []string{"", "", `{"room":{"timeline":{"limit":2}}}`}[i]
				f.clients = append(f.clients, c)
			}
			for _, how := range []func(*Request){func(*Request) {}, stateAfter} {
				f.clients = append(f.clients, &forkClient{person: *f.bob, how: how, away: true})
			}
			f.run()
		})
	}
}

// forks is one run. Clients are alice, to whom everything is told, and bob, who
// comes and goes, sometimes against what other branches say.
type forks struct {
	*world
	rng        *rand.Rand
	alice, bob *person
	room       storage.Room
	clients    []*forkClient
}

type forkClient struct {
	person
	how    func(*Request)
	filter string
	state  map[storage.StateKey]matrix.EventID
	seen   map[matrix.EventID]bool
	away   bool // out of the room, as far as it was told
}

func (f *forks) run() {
	for i := range 30 {
		who := []*person{f.alice, f.bob}[f.rng.IntN(2)]
		d := f.draft(who, i)
		if f.rng.IntN(3) == 0 {
			err := f.rooms.Write(f.t.Context(), "test", func(tx *storage.Tx) error {
				_, err := f.rooms.Send(tx, f.room, d)
				return err
			})
			if forbidden := (*matrix.Error)(nil); err != nil && !errors.As(err, &forbidden) {
				f.t.Fatal(err)
			}
		} else {
			f.fork(d)
		}
		for _, c := range f.clients {
			if f.rng.IntN(3) == 0 {
				f.sync(c)
			}
		}
	}
	for _, c := range f.clients {
		f.sync(c)
	}
}

// sync has a client take what is told, and looks whether it is right.
func (f *forks) sync(c *forkClient) {
	f.t.Helper()
	got := c.sync(c.filter, c.how)
	if left, ok := got.Rooms.Leave[f.room.ID]; ok {
		c.away = true
		c.apply(left)
	}
	if joined, ok := got.Rooms.Join[f.room.ID]; ok {
		if c.away { // what was told before is not continued
			c.state, c.seen, c.away = map[storage.StateKey]matrix.EventID{}, map[matrix.EventID]bool{}, false
		}
		c.apply(joined)
	}
	if !c.away {
		f.check(c)
	}
}

func (f *forks) draft(who *person, n int) room.Draft {
	key, content := "", jsontext.Value(fmt.Sprintf(`{"name":"%d","topic":"%d"}`, n, n))
	d := room.Draft{Sender: who.id, StateKey: &key, Content: content}
	switch f.rng.IntN(8) {
	case 0, 1, 2:
		d.Type = "m.room.name"
	case 3:
		d.Type = "m.room.topic"
	case 4:
		d.Type, key = matrix.TypeMember, string(who.id)
		d.Content = jsontext.Value(fmt.Sprintf(`{"membership":"join","displayname":"%d"}`, n))
	case 5:
		d.Type, key, d.Sender = matrix.TypeMember, string(f.bob.id), f.alice.id
		d.Content = jsontext.Value(`{"membership":"leave"}`)
	default:
		d.Type, d.StateKey = "m.room.message", nil
	}
	return d
}

// fork has an event received that was made on one of the last events.
func (f *forks) fork(d room.Draft) {
	f.t.Helper()
	var ev *matrix.Event
	err := f.store.Read(f.t.Context(), "test", func(rx *storage.Rx) error {
		recent, _, err := rx.RoomNews(f.room.Num, 0, rx.Pos(), 5)
		if err != nil {
			return err
		}
		ev, err = f.build(rx, d, recent[f.rng.IntN(len(recent))])
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.rooms.Receive(f.t.Context(), ev); err != nil {
		f.t.Fatal(err)
	}
}

// build makes the event, allowed or not.
func (f *forks) build(rx *storage.Rx, d room.Draft, parent storage.Event) (*matrix.Event, error) {
	t := matrix.Template{
		RoomID: f.room.ID, Type: d.Type, StateKey: d.StateKey, Sender: d.Sender, Content: d.Content,
		PrevEvents: []matrix.EventID{parent.ID()}, Depth: parent.Event.Depth() + 1, OriginServerTS: rx.Now.UnixMilli() + int64(f.rng.IntN(1000)),
	}
	for _, k := range rules.TemplateAuthKeys(f.room.Version, &t) {
		num, err := rx.StateEvent(parent.StateBefore, k.Type, k.StateKey)
		if key, ok := keyOf(parent); ok && key == (storage.StateKey{Type: k.Type, StateKey: k.StateKey}) {
			num, err = parent.Num, nil
		}
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		e, err := rx.EventByNum(num)
		if err != nil {
			return nil, err
		}
		t.AuthEvents = append(t.AuthEvents, e.ID())
	}
	return matrix.Build(f.room.Version, t, f.signer)
}

func (c *forkClient) apply(r toldRoom) {
	section := r.State
	if section == nil {
		section = r.After
	}
	if section == nil {
		return // nothing new
	}
	apply := func(e toldEvent) {
		if !c.away && e.StateKey != nil {
			c.state[storage.StateKey{Type: e.Type, StateKey: *e.StateKey}] = e.ID
		}
	}
	for _, e := range section.Events {
		apply(e)
	}
	once := map[matrix.EventID]bool{}
	for _, e := range r.Timeline.Events {
		if once[e.ID] || !c.away && c.seen[e.ID] {
			c.w.t.Fatalf("%s was told twice", e.ID)
		}
		if once[e.ID] = true; !c.away {
			c.seen[e.ID] = true
		}
		if r.State != nil {
			apply(e)
		}
	}
}

func (f *forks) check(c *forkClient) {
	f.t.Helper()
	err := f.store.Read(f.t.Context(), "test", func(rx *storage.Rx) error {
		now, err := rx.CurrentStateOf(f.room.Num)
		for _, e := range now {
			key, _ := keyOf(e)
			if c.state[key] != e.ID() {
				f.t.Errorf("%v is %s, want %s", key, c.state[key], e.ID())
			}
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	if f.t.Failed() {
		f.t.FailNow()
	}
}
