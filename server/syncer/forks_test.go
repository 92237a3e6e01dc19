package syncer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/room"
	"hearth/federation/rules"
	"hearth/server/view"
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
	var recent []storage.Event
	err := f.store.Read(f.t.Context(), "test", func(rx *storage.Rx) (err error) {
		recent, _, err = rx.RoomNews(f.room.Num, 0, rx.Pos(), 5)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.receive(d, recent[f.rng.IntN(len(recent))])
}

// receive has an event received that was made on another.
func (f *forks) receive(d room.Draft, parent storage.Event) {
	f.t.Helper()
	var ev *matrix.Event
	err := f.store.Read(f.t.Context(), "test", func(rx *storage.Rx) (err error) {
		ev, err = f.build(rx, d, parent)
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
		PrevEvents: []matrix.EventID{parent.ID()}, Depth: parent.Event.Depth() + 1, OriginServerTS: d.TS,
	}
	if d.TS == 0 {
		t.OriginServerTS = rx.Now.UnixMilli() + int64(f.rng.IntN(1000))
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

// What a user saw of a room ends where they left it, as the room had it then,
// whatever another branch makes of their membership later.
func TestLeavingIsOfTheRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := &forks{world: w, alice: w.person("alice"), bob: w.person("bob")}
	alice, bob := f.alice, f.bob
	reads := func() (page string) {
		t.Helper()
		err := w.store.Read(t.Context(), "test", func(rx *storage.Rx) error {
			v := view.New(rx, view.User{ID: bob.id, Num: bob.num, Device: bob.device})
			r, err := v.Room(f.room.ID)
			if err != nil {
				return err
			}
			p, err := v.Page(r, view.Query{Backwards: true, Limit: 4})
			for _, e := range slices.Backward(p.Events) {
				page += fmt.Sprint(e.Type(), string(e.Content()), " ")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	key := string(bob.id)
	ban := room.Draft{
		Sender: alice.id, Type: matrix.TypeMember, StateKey: &key, Content: jsontext.Value(`{"membership":"ban"}`),
		TS: time.Now().Add(time.Hour).UnixMilli(), // the last word
	}

	// Banned by who had not seen that he was kicked already.
	f.room = alice.create(room.Creation{Preset: room.PresetPublic, Version: "11"})
	bob.act(f.room, "join", nil)
	said := alice.say(f.room, "0")
	alice.act(f.room, "kick", bob)
	alice.say(f.room, "secret")
	f.receive(ban, said)
	if page := reads(); strings.Contains(page, "secret") || !strings.Contains(page, `"0"`) {
		t.Errorf("bob, who was kicked and then banned, reads %s", page)
	}

	// Banned by who had not seen that he joined.
	f.room = alice.create(room.Creation{Preset: room.PresetPublic, Version: "11"})
	before := alice.say(f.room, "0")
	bob.act(f.room, "join", nil)
	alice.say(f.room, "1")
	bob.sync("")
	alice.say(f.room, "2")
	f.receive(ban, before)
	alice.say(f.room, "secret")
	got := bob.sync("").Rooms.Leave[f.room.ID]
	want(t, "the last of the room", got.timeline(), "message=2 member(@bob)=ban")
	if page := reads(); strings.Contains(page, "secret") || !strings.Contains(page, `"1"`) || !strings.Contains(page, `"2"`) {
		t.Errorf("bob, who was banned before he joined, reads %s", page)
	}
}

// A page up to what /sync told ends there, and leaves out nothing that came since.
func TestPageToWhatWasTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := &forks{world: w, alice: w.person("alice"), bob: w.person("bob")}
	f.room = f.alice.public()
	first := f.alice.say(f.room, "0")
	for i := range 5 {
		f.alice.say(f.room, fmt.Sprint(i+1))
	}
	f.alice.sync("")
	since, err := ParseToken(f.alice.since)
	if err != nil {
		t.Fatal(err)
	}
	f.receive(room.Draft{Sender: f.alice.id, Type: "m.room.message", Content: jsontext.Value(`{"body":"new"}`), TS: 1}, first)
	err = w.store.Read(t.Context(), "test", func(rx *storage.Rx) error {
		v := view.New(rx, view.User{ID: f.alice.id, Num: f.alice.num, Device: f.alice.device})
		r, err := v.Room(f.room.ID)
		if err != nil {
			return err
		}
		told := view.StreamToken(since.Pos)
		back, err := v.Page(r, view.Query{To: &told, Backwards: true, Limit: 100})
		if err != nil {
			return err
		}
		forth, err := v.Page(r, view.Query{To: &told, Limit: 100})
		if err != nil {
			return err
		}
		all, err := v.Page(r, view.Query{Limit: 100})
		if len(back.Events) != 1 || len(forth.Events) != len(all.Events)-1 {
			t.Errorf("%d events since what was told, and %d of %d before it", len(back.Events), len(forth.Events), len(all.Events))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
