package storage_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

type modelState map[storage.StateKey]storage.EventNum

// stateModel is what rooms, their states and the references to them should be.
type stateModel struct {
	t     *testing.T
	r     *rand.Rand
	s     *storage.Store
	dir   string
	rooms []storage.RoomNum
	ids   map[storage.RoomNum]matrix.RoomID
	state map[storage.StateNum]modelState // every state that something refers to
	room  map[storage.StateNum]storage.RoomNum
	event map[int]storage.StateNum // references by events
	now   map[storage.RoomNum][]storage.StateNum
	next  storage.EventNum
	used  map[storage.StateKey][]storage.EventNum // of each key, so that an event has one
	made  int
}

func newStateModel(t *testing.T, seed uint64) *stateModel {
	m := &stateModel{t: t, r: rand.New(rand.NewPCG(seed, 7)), dir: t.TempDir(), state: map[storage.StateNum]modelState{},
		room: map[storage.StateNum]storage.RoomNum{}, event: map[int]storage.StateNum{}, now: map[storage.RoomNum][]storage.StateNum{}, ids: map[storage.RoomNum]matrix.RoomID{}, next: 1,
		used: map[storage.StateKey][]storage.EventNum{}}
	m.s = storagetest.OpenDir(t, m.dir)
	for range 3 {
		m.addRoom()
	}
	return m
}

func (m *stateModel) addRoom() {
	m.made++
	room := newRoom(m.t, m.s, matrix.RoomID(fmt.Sprintf("!%d:test.example", m.made)))
	m.rooms, m.ids[room.Num] = append(m.rooms, room.Num), room.ID
}

// key draws from few keys, so that changes meet; type b is rarer.
func (m *stateModel) key() storage.StateKey {
	k := storage.StateKey{Type: "a", StateKey: fmt.Sprint(m.r.IntN(60))}
	if m.r.IntN(10) == 0 {
		k.Type = "b"
	}
	return k
}

// anyOf is a state of the room that something refers to; 0: the empty state.
func (m *stateModel) anyOf(room storage.RoomNum) storage.StateNum {
	var all []storage.StateNum
	for s, r := range m.room {
		if r == room {
			all = append(all, s)
		}
	}
	if len(all) == 0 || m.r.IntN(50) == 0 {
		return 0
	}
	slices.Sort(all)
	if m.r.IntN(3) > 0 { // mostly a new one, so that chains grow
		return all[len(all)-1-m.r.IntN(min(len(all), 3))]
	}
	return all[m.r.IntN(len(all))]
}

func (m *stateModel) anyRoom() storage.RoomNum { return m.rooms[m.r.IntN(len(m.rooms))] }

func (m *stateModel) changes() (list []storage.StateKeyed) {
	n := 1
	switch m.r.IntN(12) {
	case 0:
		n = 0
	case 1:
		n = 2 + m.r.IntN(30)
	}
	for range n {
		k := m.key()
		e := storage.StateKeyed{Type: k.Type, StateKey: k.StateKey, Event: m.next}
		switch m.r.IntN(6) {
		case 0:
			e.Event = 0
		case 1:
			if old := m.used[k]; len(old) > 0 {
				e.Event = old[m.r.IntN(len(old))] // one that other branches have, too
			}
		}
		if e.Event == m.next {
			m.used[k] = append(m.used[k], e.Event)
			m.next++
		}
		list = append(list, e)
	}
	return list
}

// child makes a child of a state, mostly has something refer to it, and tells
// whether its number is as it should be.
func (m *stateModel) child() {
	room := m.anyRoom()
	parent, changes := m.anyOf(room), m.changes()
	want := maps.Clone(m.state[parent])
	if want == nil {
		want = modelState{}
	}
	for _, c := range changes {
		if k := (storage.StateKey{Type: c.Type, StateKey: c.StateKey}); c.Event == 0 {
			delete(want, k)
		} else {
			want[k] = c.Event
		}
	}
	m.store(room, want, func(tx *storage.Tx) (storage.StateNum, error) { return tx.ChildState(room, parent, changes) })
}

// resolve stores a whole state that lies between others.
func (m *stateModel) resolve() {
	room := m.anyRoom()
	near := []storage.StateNum{m.anyOf(room), m.anyOf(room), m.anyOf(room)}
	want, pick := modelState{}, m.r.Uint32()
	for _, n := range near {
		for k, e := range m.state[n] {
			if _, has := want[k]; !has || uint32(e)*pick>>16&1 == 0 {
				want[k] = e
			}
		}
	}
	var full []storage.StateKeyed
	for k, e := range want {
		full = append(full, storage.StateKeyed{Type: k.Type, StateKey: k.StateKey, Event: e})
	}
	m.store(room, want, func(tx *storage.Tx) (storage.StateNum, error) { return tx.StoreState(room, near, full) })
}

func (m *stateModel) store(room storage.RoomNum, want modelState, fn func(*storage.Tx) (storage.StateNum, error)) {
	refer, current := m.r.IntN(8) > 0, m.r.IntN(4) == 0 && len(want) > 0
	var got storage.StateNum
	within(m.t, m.s, func(tx *storage.Tx) (err error) {
		if got, err = fn(tx); err != nil {
			return err
		}
		if current {
			pos := tx.NextPos()
			m.now[room] = append(m.now[room], got)
			_, err = tx.SetCurrentState(storage.Room{Num: room, ID: m.ids[room]}, got, pos)
			return err
		}
		if refer {
			m.event[int(m.next)] = got
			err = tx.Refer(room, int(m.next), got)
			m.next++
		}
		return err
	})
	for s, have := range m.state {
		if same := m.room[s] == room && maps.Equal(have, want); same != (s == got) {
			m.t.Fatalf("state %d and the new %d: same content %v", s, got, same)
		}
	}
	if current || refer {
		m.state[got], m.room[got] = want, room
	}
	if m.read(got, want); m.t.Failed() {
		m.t.FailNow()
	}
}

// drop takes references away.
func (m *stateModel) drop() {
	events := slices.Sorted(maps.Keys(m.event))
	for range min(len(events), 1+m.r.IntN(20)) {
		e := events[m.r.IntN(len(events))]
		within(m.t, m.s, func(tx *storage.Tx) error {
			if to := m.anyOf(m.room[m.event[e]]); m.r.IntN(10) == 0 && m.event[e] != 0 && m.room[to] == m.room[m.event[e]] {
				m.event[e] = to
				return tx.ReferElsewhere(e, to)
			}
			delete(m.event, e)
			return tx.Unrefer(e)
		})
	}
	if m.r.IntN(3) == 0 {
		room := m.anyRoom()
		within(m.t, m.s, func(tx *storage.Tx) error { return tx.DropHistory(room) })
		m.now[room] = m.now[room][max(0, len(m.now[room])-1):]
	}
	m.forget()
}

// forget drops from the model what nothing refers to.
func (m *stateModel) forget() {
	live := map[storage.StateNum]bool{}
	for _, s := range m.event {
		live[s] = true
	}
	for _, list := range m.now {
		for _, s := range list {
			live[s] = true
		}
	}
	for s := range m.state {
		if !live[s] {
			delete(m.state, s)
			delete(m.room, s)
		}
	}
}

func (m *stateModel) collect() {
	sweep(m.t, func(limit int) (n int, err error) {
		return n, m.s.Write(context.Background(), "collect", func(tx *storage.Tx) error {
			n, err = tx.CollectState(math.MaxInt64, limit)
			return err
		})
	})
	all, _, _, _ := m.sizes()
	if live := int64(len(m.state)); all > 2*live {
		m.t.Errorf("%d snapshots are left for %d states", all, live)
	}
}

func sweep(t testing.TB, step func(limit int) (int, error)) {
	t.Helper()
	for {
		n, err := step(7)
		if err != nil {
			t.Fatal(err)
		}
		if n < 7 {
			return
		}
	}
}

// purge deletes a room with everything.
func (m *stateModel) purge() {
	i := m.r.IntN(len(m.rooms))
	room := m.rooms[i]
	within(m.t, m.s, func(tx *storage.Tx) error { return tx.PurgeRoom(room) })
	maps.DeleteFunc(m.event, func(_ int, s storage.StateNum) bool { return m.room[s] == room })
	delete(m.now, room)
	m.forget()
	if m.r.IntN(2) == 0 {
		m.restart()
	}
	if err := m.s.SweepNow(context.Background()); err != nil {
		m.t.Fatal(err)
	}
	m.rooms = slices.Delete(m.rooms, i, i+1)
}

func (m *stateModel) sizes() (snapshots, bytes, largest, depth int64) {
	within(m.t, m.s, func(tx *storage.Tx) (err error) {
		snapshots, bytes, largest, depth, err = tx.StateSizes()
		return err
	})
	return snapshots, bytes, largest, depth
}

func (m *stateModel) keys() (n int64) {
	within(m.t, m.s, func(tx *storage.Tx) (err error) {
		n, err = tx.CountStateKeys()
		return err
	})
	return n
}

func (m *stateModel) restart() { m.s = reopen(m.t, m.s, m.dir) }

// read compares a state as a whole and by some keys.
func (m *stateModel) read(s storage.StateNum, want modelState) {
	err := m.s.Read(context.Background(), "compare", func(rx *storage.Rx) error {
		list, err := rx.State(s)
		if err != nil {
			return err
		}
		got := modelState{}
		for _, e := range list {
			got[storage.StateKey{Type: e.Type, StateKey: e.StateKey}] = e.Event
		}
		if len(got) != len(list) || !maps.Equal(got, want) {
			m.t.Errorf("state %d is %v, want %v", s, list, want)
		}
		keys := []storage.StateKey{m.key(), m.key(), {Type: "c"}, m.key()}
		several, err := rx.StateEvents(s, keys...)
		for i, k := range keys {
			one, e := rx.StateEvent(s, k.Type, k.StateKey)
			if err = errors.Join(err, e); errors.Is(e, storage.ErrNotFound) && one == 0 {
				err = nil
			}
			if one != want[k] || several[i] != want[k] {
				m.t.Errorf("state %d has %d and %d for %v, want %d", s, one, several[i], k, want[k])
			}
		}
		hops, e := rx.StateHops(s)
		if hops > 20 {
			m.t.Errorf("state %d is %d hops away", s, hops)
		}
		return errors.Join(err, e)
	})
	if err != nil {
		m.t.Error(err)
	}
}

// diff compares the difference of two states of a room.
func (m *stateModel) diff() {
	room := m.anyRoom()
	a, b := m.anyOf(room), m.anyOf(room)
	err := m.s.Read(context.Background(), "compare", func(rx *storage.Rx) error {
		diff, err := rx.StateDiff(a, b)
		got := maps.Clone(m.state[a])
		if got == nil {
			got = modelState{}
		}
		for _, e := range diff {
			k := storage.StateKey{Type: e.Type, StateKey: e.StateKey}
			if m.state[a][k] == e.Event {
				m.t.Errorf("from %d to %d: %v has not changed", a, b, e)
			}
			if got[k] = e.Event; e.Event == 0 {
				delete(got, k)
			}
		}
		if !maps.Equal(got, m.state[b]) {
			m.t.Errorf("state %d with the difference to %d is %v, want %v", a, b, got, m.state[b])
		}
		return err
	})
	if err != nil {
		m.t.Error(err)
	}
}

// TestStateModel holds random states, branches, resolutions, references,
// collections, purges and restarts against maps.
func TestStateModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(storagetest.Scale(4)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			m := newStateModel(t, seed)
			for range 400 {
				switch n := m.r.IntN(100); {
				case n < 70:
					m.child()
				case n < 80:
					m.resolve()
				case n < 88:
					m.diff()
				case n < 93:
					m.drop()
				case n < 97:
					m.collect()
				case n < 98:
					m.purge()
					m.addRoom()
				case n < 99:
					m.restart()
				default:
					storagetest.Check(t, m.s)
				}
				if t.Failed() {
					return
				}
			}
			m.collect()
			for s, want := range m.state {
				m.read(s, want)
			}
			for len(m.rooms) > 0 {
				m.purge()
			}
			if err := m.s.SweepNow(context.Background()); err != nil { // keys go after what names them
				t.Error(err)
			}
			snapshots, _, _, _ := m.sizes()
			if keys := m.keys(); snapshots != 0 || keys != 0 {
				t.Errorf("without rooms there are %d snapshots and %d keys", snapshots, keys)
			}
		})
	}
}
