package room

import (
	"cmp"
	"fmt"
	"slices"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// merged is the outcome of merging branches: one of them, or a state that may
// not be stored yet.
type merged struct {
	branch
	resolved bool
	full     []storage.StateKeyed // where resolved
	near     []storage.StateNum   // states that full may be stored as a change of
}

// own stands for the number of an event that is not stored yet.
const own storage.EventNum = -1

// pending is an event that is not stored yet, as resolution must see it.
type pending struct {
	ev         *matrix.Event
	generation int64
	standing   rules.Standing
}

// merge is the resolved state of several branches. It costs reading whole
// states where they differ, and nothing where they do not.
func merge(rx *storage.Rx, room storage.Room, list []branch) (merged, error) {
	list, err := distinct(rx, list)
	if err != nil {
		return merged{}, err
	}
	if len(list) == 1 {
		return merged{branch: list[0]}, nil
	}
	res := resolution{rx: rx, room: room}
	for _, b := range list {
		if err := res.add(&merged{branch: b}); err != nil {
			return merged{}, err
		}
	}
	return res.resolve()
}

// mergeWith is merge of branches and the state after an event that is not
// stored yet: the one before it, and what it changes.
func mergeWith(rx *storage.Rx, room storage.Room, list []branch, before *merged, new *pending) (merged, error) {
	_, changes := new.ev.StateKey()
	if !changes && !before.resolved {
		return merge(rx, room, append(list[:len(list):len(list)], before.branch))
	}
	list, err := distinct(rx, list)
	if err != nil {
		return merged{}, err
	}
	res := resolution{rx: rx, room: room, new: new}
	for _, b := range list {
		if err := res.add(&merged{branch: b}); err != nil {
			return merged{}, err
		}
	}
	if err := res.add(before); err != nil {
		return merged{}, err
	}
	if key, ok := new.ev.StateKey(); ok {
		res.states[len(res.states)-1][rules.Key{Type: new.ev.Type(), StateKey: key}] = new.ev.ID()
		res.nums[new.ev.ID()] = own
	}
	return res.resolve()
}

// resolution collects states to be resolved.
type resolution struct {
	rx     *storage.Rx
	room   storage.Room
	new    *pending // nil: none
	states []rules.StateMap
	near   []storage.StateNum
	nums   map[matrix.EventID]storage.EventNum // of all events in states
}

func (r *resolution) add(m *merged) error {
	list := m.full
	if !m.resolved {
		var err error
		if list, err = r.rx.State(m.base); err != nil {
			return err
		}
		if m.change.Event != 0 {
			list = append(list, m.change)
		}
		r.near = append(r.near, m.base)
	} else {
		r.near = append(r.near, m.near...)
	}
	nums := make([]storage.EventNum, len(list))
	for i, e := range list {
		nums[i] = e.Event
	}
	ids, err := r.rx.EventIDs(nums)
	if err != nil {
		return err
	}
	if r.nums == nil {
		r.nums = make(map[matrix.EventID]storage.EventNum, len(list)+1)
	}
	state := make(rules.StateMap, len(list)+1)
	for i, e := range list {
		state[rules.Key{Type: e.Type, StateKey: e.StateKey}] = ids[i]
		r.nums[ids[i]] = e.Event
	}
	r.states = append(r.states, state)
	return nil
}

func (r *resolution) resolve() (merged, error) {
	outcome, err := rules.Resolve(r.room.Version, r.states, &source{rx: r.rx, room: r.room.Num, new: r.new})
	if err != nil {
		return merged{}, fmt.Errorf("resolve the state of %s: %w", r.room.ID, err)
	}
	m := merged{resolved: true, near: r.near, full: make([]storage.StateKeyed, 0, len(outcome))}
	if err := r.number(outcome); err != nil {
		return merged{}, fmt.Errorf("resolve the state of %s: %w", r.room.ID, err)
	}
	for k, id := range outcome {
		m.full = append(m.full, storage.StateKeyed{Type: k.Type, StateKey: k.StateKey, Event: r.nums[id]})
	}
	slices.SortFunc(m.full, compareKeys)
	return m, nil
}

// number finds the numbers of events that come from none of the states, but
// from their auth chains.
func (r *resolution) number(outcome rules.StateMap) error {
	var unknown []matrix.EventID
	for _, id := range outcome {
		if _, ok := r.nums[id]; !ok {
			unknown = append(unknown, id)
		}
	}
	events, err := r.rx.Events(unknown)
	if err != nil {
		return err
	}
	for i, ev := range events {
		if ev.Room != r.room.Num {
			return fmt.Errorf("%s is not in the room", unknown[i])
		}
		r.nums[unknown[i]] = ev.Num
	}
	return nil
}

func compareKeys(a, b storage.StateKeyed) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.StateKey, b.StateKey))
}

// store stores the state. num is the number of the event that had none.
func (m *merged) store(tx *storage.Tx, room storage.RoomNum, num storage.EventNum) (storage.StateNum, error) {
	number := func(s storage.StateKeyed) storage.StateKeyed {
		if s.Event == own {
			s.Event = num
		}
		return s
	}
	switch {
	case m.resolved:
		full := make([]storage.StateKeyed, len(m.full))
		for i, s := range m.full {
			full[i] = number(s)
		}
		return tx.StoreState(room, m.near, full)
	case m.change.Event != 0:
		return tx.ChildState(room, m.base, []storage.StateKeyed{m.change})
	}
	return m.base, nil
}

// view is the state as the rules see it. All its events are stored.
func (m *merged) view(rx *storage.Rx) *view {
	return &view{seen: map[rules.Key]storage.Event{}, find: func(typ, stateKey string) (storage.Event, error) {
		num, err := m.find(rx, typ, stateKey)
		switch {
		case err != nil:
			return storage.Event{}, err
		case num == 0:
			return storage.Event{}, storage.ErrNotFound
		}
		return rx.EventByNum(num)
	}}
}

// find is the event at a key; 0: none.
func (m *merged) find(rx *storage.Rx, typ, stateKey string) (storage.EventNum, error) {
	if !m.resolved {
		return m.branch.find(rx, typ, stateKey)
	}
	at, ok := slices.BinarySearchFunc(m.full, storage.StateKeyed{Type: typ, StateKey: stateKey}, compareKeys)
	if !ok {
		return 0, nil
	}
	return m.full[at].Event, nil
}

// source gives state resolution the stored events of a room, and one that is
// not stored yet. Events of other rooms are not there.
type source struct {
	rx   *storage.Rx
	room storage.RoomNum
	new  *pending
}

// Events implements [rules.Source].
func (s *source) Events(ids []matrix.EventID) ([]rules.Stored, error) {
	events, err := s.rx.Events(ids)
	if err != nil {
		return nil, err
	}
	list := make([]rules.Stored, len(ids))
	for i, ev := range events {
		switch {
		case s.new != nil && ids[i] == s.new.ev.ID():
			list[i] = rules.Stored{Event: s.new.ev, Standing: s.new.standing}
		case ev.Room == s.room:
			list[i] = standing(ev)
		}
	}
	return list, nil
}

// Generations implements [rules.Generations].
func (s *source) Generations(ids []matrix.EventID) ([]int64, error) {
	list, err := s.rx.GenerationsIn(s.room, ids)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		if s.new != nil && id == s.new.ev.ID() {
			list[i] = s.new.generation
		}
	}
	return list, nil
}
