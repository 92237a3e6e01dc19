package syncer

import (
	"errors"
	"slices"

	"hearth/storage"
	"hearth/storage/matrix"
)

// stateSection lists the events of the state or state_after section of a room,
// and may cut the timeline so that the two fit together; see state.go.
func (b *builder) stateSection(n *news, room storage.Room) (err error) {
	s := section{b: b, sp: n.span, timeline: &n.timeline, changes: n.changes, added: map[storage.StateKey]bool{}}
	if s.end, err = b.stateAt(room, n.upto); err != nil {
		return err
	}
	if !b.req.StateAfter {
		if err := s.fit(); err != nil {
			return err
		}
	}
	s.ends = endings(n.timeline.events)
	if b.filter.Room.State.LazyLoadMembers && !n.outside {
		if err := s.need(n.summary); err != nil {
			return err
		}
	}
	err = s.gather(room)
	n.state = s.out
	return err
}

// section is a state section in the making.
type section struct {
	b        *builder
	sp       span
	timeline *timeline
	end      storage.StateNum // at the end of the span
	changes  []storage.StateChange
	ends     map[storage.StateKey]storage.EventNum

	lazy  map[storage.StateKey]bool // members to tell all the same; nil: all are told
	out   []storage.EventNum
	added map[storage.StateKey]bool
}

// stateAt is the current state of a room as it was at a position.
func (b *builder) stateAt(room storage.Room, pos int64) (storage.StateNum, error) {
	if pos >= room.LatestPos {
		return room.State, nil
	}
	state, err := b.rx.CurrentStateAt(room.Num, pos)
	if errors.Is(err, storage.ErrNotFound) {
		return 0, nil // before the room had any
	}
	return state, err
}

// changes is what moved the state between the client's token and upto, which a
// client that knew nothing, or was outside, has no use for.
func (b *builder) changes(sp span, upto int64) ([]storage.StateChange, error) {
	if sp.outside || sp.whole && sp.fresh || upto <= sp.after {
		return nil, nil
	}
	return b.rx.StateChanges(sp.m.Room, sp.after, upto)
}

// own tells whether a key is the user's own membership in a room that is not
// theirs any more: whatever the state says at the end of the span, what is told
// of it is how things stand.
func (s *section) own(key storage.StateKey) bool {
	return s.sp.kind == kindLeave && key == memberKey(s.sp.m.User)
}

// fit cuts the timeline where it ends a key otherwise than the state does.
func (s *section) fit() error {
	ends := endings(s.timeline.events)
	keys := make([]storage.StateKey, 0, len(ends))
	for key := range ends {
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil
	}
	now, err := s.b.rx.StateEvents(s.end, keys...)
	if err != nil {
		return err
	}
	wrong := map[storage.EventNum]bool{}
	for i, key := range keys {
		if s.own(key) {
			now[i] = s.sp.m.Event
		}
		if now[i] == ends[key] {
			continue
		}
		filtered, err := s.filtered(now[i], ends[key])
		if err != nil {
			return err
		}
		wrong[ends[key]] = !filtered
	}
	s.timeline.cut(wrong)
	return nil
}

// filtered tells whether an event is not in the timeline after one that it
// replaced because the client does not want to see it.
func (s *section) filtered(now, was storage.EventNum) (bool, error) {
	if now == 0 {
		return false, nil
	}
	e, err := s.b.rx.EventsByNum([]storage.EventNum{now, was})
	if err != nil {
		return false, err
	}
	return e[0].Pos > e[1].Pos && !s.b.filter.Room.Timeline.AllowsEvent(e[0]), nil
}

// need collects the members that a lazily loading client is told: those who
// sent what is told, who give the room its name, the user, and everybody who
// moved, for the client may know all members from elsewhere or from before.
func (s *section) need(sum *summary) error {
	s.lazy = map[storage.StateKey]bool{}
	for _, e := range s.timeline.events {
		s.lazy[memberKey(e.Sender())] = true
	}
	if sum != nil {
		for _, hero := range sum.heroes {
			s.lazy[memberKey(hero)] = true
		}
	}
	if s.sp.whole {
		s.lazy[memberKey(s.sp.m.User)] = true
	}
	changes := s.changes
	if s.sp.back {
		var err error
		if changes, err = s.b.rx.StateChanges(s.sp.m.Room, s.sp.known, s.sp.upto); err != nil {
			return err
		}
	}
	for _, c := range changes {
		if c.Type == matrix.TypeMember {
			s.lazy[storage.StateKey{Type: c.Type, StateKey: c.StateKey}] = true
		}
	}
	return nil
}

// add puts an event into the section, once for each key.
func (s *section) add(key storage.StateKey, e storage.EventNum) {
	if e == 0 || s.added[key] || !s.b.filter.Room.State.AllowsType(key.Type) {
		return // what the filter asks of senders and content is known only by reading
	}
	if s.lazy != nil && key.Type == matrix.TypeMember && !s.lazy[key] {
		return
	}
	s.added[key] = true
	s.out = append(s.out, e)
}

// gather fills the section.
func (s *section) gather(room storage.Room) error {
	if !s.b.req.StateAfter && !s.sp.outside {
		if err := s.addStart(room); err != nil {
			return err
		}
	}
	if own := memberKey(s.sp.m.User); s.own(own) {
		s.addEnd(own, s.sp.m.Event)
		s.added[own] = true
	}
	if s.sp.outside {
		return nil
	}
	if s.sp.whole {
		whole, err := s.b.rx.State(s.end)
		if err != nil {
			return err
		}
		for _, e := range whole {
			s.addEnd(storage.StateKey{Type: e.Type, StateKey: e.StateKey}, e.Event)
		}
		return nil
	}
	for _, c := range s.changes {
		if c.Event != c.Was {
			s.addEnd(storage.StateKey{Type: c.Type, StateKey: c.StateKey}, c.Event)
		}
	}
	return s.addLazy(s.end, func(key storage.StateKey) bool { return s.b.req.StateAfter || s.ends[key] == 0 })
}

// addEnd adds what a key has at the end of the span, unless the timeline, which
// is applied after the section, says the same.
func (s *section) addEnd(key storage.StateKey, e storage.EventNum) {
	if s.b.req.StateAfter || s.ends[key] == 0 {
		s.add(key, e)
	}
}

// addStart adds what the keys that the timeline tells of had at its start.
func (s *section) addStart(room storage.Room) error {
	if len(s.ends) == 0 && s.lazy == nil {
		return nil
	}
	start, err := s.b.stateAt(room, s.timeline.begin()-1)
	if err != nil {
		return err
	}
	if s.sp.whole {
		keys := make([]storage.StateKey, 0, len(s.ends))
		for _, e := range s.timeline.events {
			if key, ok := keyOf(e); ok {
				keys = append(keys, key)
			}
		}
		return s.addValues(start, keys)
	}
	gap, err := s.b.changes(s.sp, s.timeline.begin()-1)
	if err != nil {
		return err
	}
	for _, c := range gap {
		key := storage.StateKey{Type: c.Type, StateKey: c.StateKey}
		if s.ends[key] != 0 && c.Event != c.Was {
			s.add(key, c.Event)
		}
	}
	return s.addLazy(start, func(key storage.StateKey) bool { return s.ends[key] != 0 })
}

// addLazy adds members a lazily loading client needs as they are in a state, but
// for those that it has.
func (s *section) addLazy(state storage.StateNum, which func(storage.StateKey) bool) error {
	var keys []storage.StateKey
	for key := range s.lazy {
		if which(key) && !s.added[key] {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b storage.StateKey) int {
		if a.StateKey < b.StateKey {
			return -1
		}
		return 1
	})
	nums, err := s.b.rx.StateEvents(state, keys...)
	if err != nil {
		return err
	}
	for i, key := range keys {
		if !s.b.members.has(nums[i]) {
			s.add(key, nums[i])
		}
	}
	return nil
}

func (s *section) addValues(state storage.StateNum, keys []storage.StateKey) error {
	if len(keys) == 0 {
		return nil
	}
	nums, err := s.b.rx.StateEvents(state, keys...)
	if err != nil {
		return err
	}
	for i, key := range keys {
		s.add(key, nums[i])
	}
	return nil
}
