package room

import (
	"errors"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// view is a state of a room as the rules see it. An entry is read when it is
// first asked for. After use, err tells whether all reads succeeded.
type view struct {
	find func(typ, stateKey string) (storage.Event, error)
	seen map[rules.Key]storage.Event
	err  error
}

// current is the current state of a room, of events that are kept parsed.
func (r *Rooms) current(rx *storage.Rx, room storage.RoomNum) *view {
	return &view{seen: map[rules.Key]storage.Event{}, find: func(typ, stateKey string) (storage.Event, error) {
		hit := false
		ev, err := rx.CurrentStateVia(room, typ, stateKey, func(id matrix.EventID, redacted bool) *matrix.Event {
			kept := r.cache.get(id, redacted)
			hit = kept != nil
			return kept
		})
		if err == nil && !hit {
			r.cache.put(ev.Event, ev.RedactedBy != 0)
		}
		return ev, err
	}}
}

// snapshot is a stored state.
func snapshot(rx *storage.Rx, s storage.StateNum) *view {
	return &view{seen: map[rules.Key]storage.Event{}, find: func(typ, stateKey string) (storage.Event, error) {
		num, err := rx.StateEvent(s, typ, stateKey)
		if err != nil {
			return storage.Event{}, err
		}
		return rx.EventByNum(num)
	}}
}

// get is the event at a key; Num is 0 where there is none.
func (v *view) get(typ, stateKey string) storage.Event {
	key := rules.Key{Type: typ, StateKey: stateKey}
	if ev, ok := v.seen[key]; ok {
		return ev
	}
	ev, err := v.find(typ, stateKey)
	if err != nil {
		ev = storage.Event{}
		if !errors.Is(err, storage.ErrNotFound) && v.err == nil {
			v.err = err
		}
	}
	v.seen[key] = ev
	return ev
}

// Event implements [rules.AuthState].
func (v *view) Event(typ, stateKey string) *matrix.Event { return v.get(typ, stateKey).Event }

// membership is a user's membership, empty where there is none.
func (v *view) membership(user matrix.UserID) string {
	if ev := v.Event(matrix.TypeMember, string(user)); ev != nil {
		return ev.Membership()
	}
	return ""
}

// levels is the room's power levels; all defaults where it has none.
func (v *view) levels() *matrix.PowerLevels {
	ev := v.Event(matrix.TypePowerLevels, "")
	if ev == nil {
		return &matrix.PowerLevels{}
	}
	levels, _ := ev.PowerLevels()
	return levels
}
