package room

import (
	"errors"
	"fmt"
	"slices"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// is tells whether err says this code to a client.
func is(err error, code matrix.Code) bool {
	var e *matrix.Error
	return errors.As(err, &e) && e.Code == code
}

// all lists every event of a room that clients are told.
func all(rx *storage.Rx, room storage.Room) ([]storage.Event, error) {
	list, _, err := rx.RoomNews(room.Num, 0, rx.Pos(), 1<<30)
	return list, err
}

// parses tells whether every told event of a room is one that another server
// would take: well-formed, hashed and allowed by its own auth events.
func parses(rx *storage.Rx, room storage.Room) error {
	events, err := all(rx, room)
	if err != nil {
		return err
	}
	for _, e := range events {
		again, err := matrix.ParseEvent(room.Version, e.JSON())
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", e.ID(), err)
		case e.RedactedBy == 0 && !again.HashOK():
			return fmt.Errorf("%s: content hash does not match", e.ID())
		case again.ID() != e.ID():
			return fmt.Errorf("%s: parsed again it is %s", e.ID(), again.ID())
		}
		auth, err := rx.Events(e.AuthEvents())
		if err != nil {
			return err
		}
		create, err := createEvent(rx, room)
		if err != nil {
			return err
		}
		if err := rules.AuthorizeByAuthEvents(e.Event, standings(auth), standing(create)); err != nil {
			return fmt.Errorf("%s %s: %w", e.Type(), e.ID(), err)
		}
	}
	return nil
}

// sound checks the invariant: the current state of the room is the resolved
// state after its forward extremities, computed from whole states; and the
// extremities are the accepted events that no accepted event comes after.
func sound(rx *storage.Rx, id matrix.RoomID) error {
	room, err := rx.Room(id)
	if err != nil {
		return err
	}
	leaves, err := rx.Extremities(room.Num)
	if err != nil {
		return err
	}
	want, err := resolved(rx, room, leaves)
	if err != nil {
		return err
	}
	got, err := idsOf(rx, room.State)
	if err != nil {
		return err
	}
	if err := sameMaps(got, want); err != nil {
		return fmt.Errorf("room %s with %d extremities: snapshot: %w", id, len(leaves), err)
	}
	list, err := rx.CurrentStateOf(room.Num)
	if err != nil {
		return err
	}
	table := rules.StateMap{}
	for _, e := range list {
		key, _ := e.StateKey()
		table[rules.Key{Type: e.Type(), StateKey: key}] = e.ID()
	}
	if err := sameMaps(table, want); err != nil {
		return fmt.Errorf("room %s: current state: %w", id, err)
	}
	return leavesAreLeaves(rx, room, leaves)
}

// resolved is the state after some events, from whole states and the long way.
func resolved(rx *storage.Rx, room storage.Room, events []storage.Event) (rules.StateMap, error) {
	var states []rules.StateMap
	for _, e := range events {
		m, err := idsOf(rx, e.StateBefore)
		if err != nil {
			return nil, err
		}
		if key, ok := e.StateKey(); ok && e.Standing == uint8(rules.Accepted) {
			m[rules.Key{Type: e.Type(), StateKey: key}] = e.ID()
		}
		states = append(states, m)
	}
	if len(states) == 1 {
		return states[0], nil
	}
	return rules.Resolve(room.Version, states, plain{rx, room.Num})
}

// befores checks that the state before each told event is the resolved state
// after its parents.
func befores(rx *storage.Rx, room storage.Room) error {
	events, err := all(rx, room)
	if err != nil {
		return err
	}
	for _, e := range events {
		if len(e.PrevEvents()) == 0 {
			continue
		}
		parents, err := rx.Events(e.PrevEvents())
		if err != nil {
			return err
		}
		want, err := resolved(rx, room, parents)
		if err != nil {
			return err
		}
		got, err := idsOf(rx, e.StateBefore)
		if err == nil {
			err = sameMaps(got, want)
		}
		if err != nil {
			return fmt.Errorf("state before %s with %d parents: %w", e.ID(), len(parents), err)
		}
	}
	return nil
}

func leavesAreLeaves(rx *storage.Rx, room storage.Room, leaves []storage.Event) error {
	for _, l := range leaves {
		for behind := []storage.Event{l}; len(behind) > 0; behind = behind[1:] {
			children, err := rx.Children(behind[0].Num)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(children, func(c storage.Event) bool { return c.Standing == 0 && !c.SoftFailed }) {
				return fmt.Errorf("room %s: an accepted event comes after extremity %s", room.ID, l.ID())
			}
			behind = append(behind, children...) // refused, and what comes after them counts
		}
	}
	return nil
}

func sameMaps(got, want rules.StateMap) error {
	for k, id := range want {
		if got[k] != id {
			return fmt.Errorf("%v is %q, want %q", k, got[k], id)
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			return fmt.Errorf("%v should not be there", k)
		}
	}
	return nil
}

func idsOf(rx *storage.Rx, s storage.StateNum) (rules.StateMap, error) {
	list, err := rx.State(s)
	if err != nil {
		return nil, err
	}
	m := rules.StateMap{}
	for _, e := range list {
		ev, err := rx.EventByNum(e.Event)
		if err != nil {
			return nil, err
		}
		m[rules.Key{Type: e.Type, StateKey: e.StateKey}] = ev.ID()
	}
	return m, nil
}

// plain gives resolution the events one by one and no generations, so that it
// takes the long way.
type plain struct {
	rx   *storage.Rx
	room storage.RoomNum
}

func (p plain) Events(ids []matrix.EventID) ([]rules.Stored, error) {
	list := make([]rules.Stored, len(ids))
	for i, id := range ids {
		ev, err := p.rx.Event(id)
		if err == nil && ev.Room == p.room {
			list[i] = standing(ev)
		} else if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
	}
	return list, nil
}
