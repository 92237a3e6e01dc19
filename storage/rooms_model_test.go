package storage_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// roomModel is what a room must look like, kept the simple way.
type roomModel struct {
	*roomTest
	rnd    *rand.Rand
	told   []storage.Event
	states []stateAt // by position, the last is current
}

type stateAt struct {
	pos     int64
	entries map[storage.StateKey]storage.EventNum
}

func (m *roomModel) at(pos int64) map[storage.StateKey]storage.EventNum {
	var found map[storage.StateKey]storage.EventNum
	for _, s := range m.states {
		if s.pos <= pos {
			found = s.entries
		}
	}
	return found
}

// moved notes a change of the current state.
func (m *roomModel) moved(pos int64, key storage.StateKey, event storage.EventNum) {
	entries := maps.Clone(m.at(pos))
	if entries == nil {
		entries = map[storage.StateKey]storage.EventNum{}
	}
	if entries[key] = event; event == 0 {
		delete(entries, key)
	}
	m.states = append(m.states, stateAt{pos, entries})
}

func (m *roomModel) sent(e storage.Event) {
	m.told = append(m.told, e)
	if key, isState := e.StateKey(); isState {
		m.moved(e.Pos, storage.StateKey{Type: e.Type(), StateKey: key}, e.Num)
	}
}

// step does something at random.
func (m *roomModel) step(n int) {
	m.Helper()
	switch user := matrix.UserID(fmt.Sprintf("@u%d:test.example", m.rnd.IntN(5))); m.rnd.IntN(9) {
	case 0, 1:
		m.sent(m.message(alice, fmt.Sprint(n)))
	case 2:
		m.sent(m.state("m.room.topic", fmt.Sprint(m.rnd.IntN(2)), fmt.Sprintf(`{"topic":"%d"}`, n)))
	case 3, 4:
		m.sent(m.member(alice, user, []string{"join", "invite", "leave", "ban", "knock"}[m.rnd.IntN(5)]))
	case 5, 6:
		m.branch(n, storage.NewEvent{Place: storage.Live})
	case 7:
		m.branch(n, []storage.NewEvent{{Place: storage.Backfilled}, {SoftFailed: true}, {Standing: 1}, {Outlier: true}}[m.rnd.IntN(4)])
	case 8:
		m.vanish()
	}
}

// branch adds a message after one or two told events, wherever they are.
func (m *roomModel) branch(n int, e storage.NewEvent) {
	m.Helper()
	parents := []storage.Event{m.told[m.rnd.IntN(len(m.told))]}
	if other := m.told[m.rnd.IntN(len(m.told))]; other.Num != parents[0].Num {
		parents = append(parents, other)
	}
	ev := m.draft("m.room.message", nil, bob, fmt.Sprintf(`{"body":"%d"}`, n), parents)
	within(m.TB, m.s, func(tx *storage.Tx) error {
		stored, err := m.append(tx, ev, parents, must[storage.Room](m)(tx.RoomByNum(m.num)).State, e)
		if stored.Pos != 0 {
			m.told = append(m.told, stored)
		}
		return err
	})
}

// vanish takes an entry out of the state.
func (m *roomModel) vanish() {
	m.Helper()
	now := m.states[len(m.states)-1].entries
	keys := slices.SortedFunc(maps.Keys(now), func(a, b storage.StateKey) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.StateKey, b.StateKey))
	})
	key := keys[m.rnd.IntN(len(keys))]
	if key.Type == matrix.TypeCreate {
		return
	}
	within(m.TB, m.s, func(tx *storage.Tx) error {
		room := must[storage.Room](m)(tx.RoomByNum(m.num))
		next := must[storage.StateNum](m)(tx.ChildState(m.num, room.State, []storage.StateKeyed{{Type: key.Type, StateKey: key.StateKey}}))
		pos := tx.NextPos()
		m.moved(pos, key, 0)
		_, err := tx.SetCurrentState(room, next, pos)
		return err
	})
}

// compare looks at the room between two random positions.
func (m *roomModel) compare() {
	m.Helper()
	after := m.told[m.rnd.IntN(len(m.told))].Pos
	if after < 0 {
		after = 0
	}
	upto := after + m.rnd.Int64N(m.s.Pos()-after+1)
	m.comparePages(upto + 1)
	m.read(func(rx *storage.Rx) error {
		limit := m.rnd.IntN(8)
		m.compareNews(rx, after, upto, limit)
		m.compareChanges(rx, after, upto)
		m.compareState(rx, upto)
		return nil
	})
}

func (m *roomModel) comparePages(before int64) {
	m.Helper()
	var want []storage.Event
	for _, e := range m.told {
		if e.Pos < before {
			want = append(want, e)
		}
	}
	slices.SortFunc(want, func(a, b storage.Event) int { return cmp.Or(cmp.Compare(b.Depth, a.Depth), cmp.Compare(b.Pos, a.Pos)) })
	if got := m.pages(storage.Cursor{Before: before}, true, 1+m.rnd.IntN(9)); !slices.Equal(got, idsOf(want)) {
		m.Fatalf("pages before %d: %v, want %v", before, got, idsOf(want))
	}
}

func (m *roomModel) compareNews(rx *storage.Rx, after, upto int64, limit int) {
	m.Helper()
	var want []storage.Event
	for _, e := range m.told {
		if e.Pos > after && e.Pos <= upto {
			want = append(want, e)
		}
	}
	all := len(want)
	want = want[max(0, all-limit):]
	got, limited, err := rx.RoomNews(m.num, after, upto, limit)
	if err != nil || limited != (all > limit) || !slices.Equal(idsOf(got), idsOf(want)) {
		m.Errorf("news in (%d, %d]: %v, %v, %v; want %v of %d", after, upto, idsOf(got), limited, err, idsOf(want), all)
	}
}

func (m *roomModel) compareChanges(rx *storage.Rx, after, upto int64) {
	m.Helper()
	was, now := m.at(after), m.at(upto)
	applied := maps.Clone(was)
	if applied == nil {
		applied = map[storage.StateKey]storage.EventNum{}
	}
	for _, c := range must[[]storage.StateChange](m)(rx.StateChanges(m.num, after, upto)) {
		key := storage.StateKey{Type: c.Type, StateKey: c.StateKey}
		if c.Was != was[key] || c.Pos <= after || c.Pos > upto {
			m.Errorf("change in (%d, %d]: %+v, want it to have been %d", after, upto, c, was[key])
		}
		if applied[key] = c.Event; c.Event == 0 {
			delete(applied, key)
		}
	}
	if !maps.Equal(applied, now) {
		m.Errorf("changes in (%d, %d] lead to %v, want %v", after, upto, applied, now)
	}
}

func (m *roomModel) compareState(rx *storage.Rx, pos int64) {
	m.Helper()
	want := m.at(pos)
	snapshot, err := rx.CurrentStateAt(m.num, pos)
	if errors.Is(err, storage.ErrNotFound) && want == nil {
		return
	}
	got := map[storage.StateKey]storage.EventNum{}
	for _, s := range must[[]storage.StateKeyed](m)(rx.State(must[storage.StateNum](m)(snapshot, err))) {
		got[storage.StateKey{Type: s.Type, StateKey: s.StateKey}] = s.Event
	}
	if !maps.Equal(got, want) {
		m.Errorf("state at %d: %v, want %v", pos, got, want)
	}
}

// TestRoomsModel does random things in a room and holds what is read of it
// against the model; the store's own check follows at its end.
func TestRoomsModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(storagetest.Scale(3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := storagetest.Open(t)
			m := &roomModel{roomTest: newRoomTest(t, s, "11"), rnd: rand.New(rand.NewPCG(seed, 1))}
			m.read(func(rx *storage.Rx) error {
				events, _, err := rx.Timeline(m.num, storage.Cursor{}, false, 9)
				for _, e := range events {
					m.sent(e)
				}
				return err
			})
			for n := range 60 {
				m.step(n)
				if n%3 == 0 {
					m.compare()
				}
			}
			m.compare()
		})
	}
}
