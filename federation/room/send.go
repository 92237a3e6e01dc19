package room

import (
	"fmt"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// Send appends an event of a local user to a room: built, authorized, signed
// and stored, with its effect on the current state. A state event that says
// what the state says already is not sent again, as when a client repeats a
// request: it answers with the one that is there. Its errors for clients are
// M_FORBIDDEN where the rules refuse it (errors.As finds the *[rules.Refusal]),
// M_TOO_LARGE, M_BAD_JSON, and those of redactions and members. Units in which
// it is called should run by [Rooms.Write].
func (r *Rooms) Send(tx *storage.Tx, room storage.Room, d Draft) (storage.Event, error) {
	room, err := tx.RoomByNum(room.Num) // the caller's copy may be older than the unit's last event
	if err != nil {
		return storage.Event{}, err
	}
	state := r.current(tx.Rx, room.Num)
	if err := r.prepare(tx.Rx, room, state, &d); err != nil {
		return storage.Event{}, err
	}
	if was, err := repeated(state, d); err != nil || was.Num != 0 {
		return was, err
	}
	leaves, err := tx.Extremities(room.Num)
	switch {
	case err != nil:
		return storage.Event{}, err
	case len(leaves) == 0:
		return storage.Event{}, fmt.Errorf("send to %s: the room has no forward extremity", room.ID)
	case len(leaves) > matrix.MaxPrevEvents:
		return r.sendPrepared(tx, room, leaves, d)
	}
	ev, generation, err := r.build(tx.Rx, room, state, leaves, d)
	if err != nil {
		return storage.Event{}, err
	}
	return r.append(tx, room, addition{
		ev: ev, before: room.State, depth: below(leaves), generation: generation,
		device: d.Device, txnID: d.TxnID, leaf: true,
	})
}

// build makes the event that a draft becomes after the given parents, and asks
// the rules whether it is allowed in the state before it.
func (r *Rooms) build(rx *storage.Rx, room storage.Room, state *view, parents []storage.Event, d Draft) (ev *matrix.Event, generation int64, err error) {
	signer := r.signer()
	t := matrix.Template{
		RoomID: room.ID, Type: d.Type, StateKey: d.StateKey, Sender: d.Sender, Content: d.Content,
		Redacts: d.Redacts, OriginServerTS: d.TS, EventID: newEventID(room.Version, signer.Server),
	}
	if t.OriginServerTS == 0 {
		t.OriginServerTS = rx.Now.UnixMilli()
	}
	for _, p := range parents {
		t.PrevEvents = append(t.PrevEvents, p.ID())
		t.Depth = max(t.Depth, p.Event.Depth()+1)
	}
	auth, rejected := authEvents(state, rules.TemplateAuthKeys(room.Version, &t))
	for _, a := range auth {
		t.AuthEvents = append(t.AuthEvents, a.ID())
		generation = max(generation, a.Generation)
	}
	if room.Version.PairReferences {
		t.Hashes = map[matrix.EventID][32]byte{}
		for _, e := range append(parents[:len(parents):len(parents)], auth...) {
			t.Hashes[e.ID()] = e.ReferenceHash()
		}
	}
	if ev, err = matrix.Build(room.Version, t, signer); err != nil {
		return nil, 0, err
	}
	err = rules.Authorize(ev, state)
	if err == nil && rejected {
		err = rules.AuthorizeByAuthEvents(ev, standings(auth), standing(state.get(matrix.TypeCreate, "")))
	}
	if state.err != nil {
		return nil, 0, fmt.Errorf("state of %s: %w", room.ID, state.err)
	}
	return ev, generation + 1, refused(err)
}

// authEvents finds the auth events of a new event. A resolved state may hold
// events that this server rejected; none of them may be named, or the new one
// would be rejected for it. rejected tells that there were such.
func authEvents(state *view, keys []rules.Key) (auth []storage.Event, rejected bool) {
	for _, k := range keys {
		switch ev := state.get(k.Type, k.StateKey); {
		case ev.Event == nil:
		case ev.Standing != uint8(rules.Accepted):
			rejected = true
		default:
			auth = append(auth, ev)
		}
	}
	return auth, rejected
}

func standing(ev storage.Event) rules.Stored {
	return rules.Stored{Event: ev.Event, Standing: rules.Standing(ev.Standing)}
}

func standings(events []storage.Event) []rules.Stored {
	list := make([]rules.Stored, len(events))
	for i, ev := range events {
		list[i] = standing(ev)
	}
	return list
}

// below is the depth of an event after the given parents. It is ours: the one
// that an event claims is its sender's choice.
func below(parents []storage.Event) int64 {
	var depth int64
	for _, p := range parents {
		depth = max(depth, p.Depth)
	}
	return depth + 1
}
