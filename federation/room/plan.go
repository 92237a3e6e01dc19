package room

import (
	"errors"
	"fmt"
	"slices"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// plan is what was found out about an event before the write that appends it,
// and what that took for granted.
type plan struct {
	ev         *matrix.Event
	outlier    storage.EventNum // it is here already, beside the graph; 0: it is not
	parents    []storage.Event
	passed     []storage.Event // what is no forward extremity once this is accepted
	auth       []storage.Event
	before     merged
	generation int64
	standing   rules.Standing
	softFailed bool
	reason     error // why it was rejected or soft-failed
	untold     bool
	received   bool // from another server
	device     int64
	txnID      string

	// leaf tells that it will be a forward extremity; moves, that its parents
	// are none any more. rest is the states after the others, next the state
	// after all.
	leaf, moves bool
	rest        []branch
	next        merged

	state storage.StateNum // the current state when this was planned
}

// judge is the fourth and fifth check on receipt: by the event's own auth
// events, and by the state before it.
func (p *plan) judge(rx *storage.Rx, room storage.Room) error {
	create, err := createEvent(rx, room)
	if err != nil {
		return err
	}
	p.generation = 1
	for _, a := range p.auth {
		p.generation = max(p.generation, a.Generation+1)
	}
	err = rules.AuthorizeByAuthEvents(p.ev, standings(p.auth), standing(create))
	if err != nil {
		return p.reject(rules.RejectedByAuth, err)
	}
	state := p.before.view(rx)
	err = rules.Authorize(p.ev, state)
	if state.err != nil {
		return state.err
	}
	return p.reject(rules.RejectedByState, err)
}

// reject notes a refusal; any other error is a failure.
func (p *plan) reject(s rules.Standing, err error) error {
	if r := (*rules.Refusal)(nil); errors.As(err, &r) {
		p.standing, p.reason = s, err
		return nil
	}
	return err
}

// createEvent finds the room's m.room.create where no event names it.
func createEvent(rx *storage.Rx, room storage.Room) (storage.Event, error) {
	if !room.Version.RoomIDFromCreate {
		return storage.Event{}, nil
	}
	ev, err := rx.Event(matrix.EventID("$" + string(room.ID[1:])))
	if errors.Is(err, storage.ErrNotFound) {
		return storage.Event{}, nil
	}
	return ev, err
}

// checkCurrent is the sixth check on receipt: by the current state of the room.
// Server-Server API, "Soft failure".
func (p *plan) checkCurrent(r *Rooms, rx *storage.Rx, room storage.Room) error {
	p.state = room.State
	if p.standing != rules.Accepted {
		return nil
	}
	state := r.current(rx, room.Num)
	err := rules.Authorize(p.ev, state)
	if state.err != nil {
		return state.err
	}
	if refusal := (*rules.Refusal)(nil); errors.As(err, &refusal) {
		p.softFailed, p.reason = true, err
		return nil
	}
	return err
}

// checkRedaction keeps a redaction from clients that has no effect, or whose
// event is not here: once that comes, clients see it redacted. Room Version 3,
// "Handling redactions".
func (p *plan) checkRedaction(rx *storage.Rx, room storage.Room) error {
	if p.ev.Type() != matrix.TypeRedaction || p.ev.Redacts() == "" || p.standing != rules.Accepted {
		return nil
	}
	target, err := rx.Event(p.ev.Redacts())
	if errors.Is(err, storage.ErrNotFound) || err == nil && target.Room != room.Num {
		p.untold = true
		return nil
	}
	if err != nil {
		return err
	}
	state := p.before.view(rx)
	p.untold = !rules.RedactionApplies(p.ev, target.Event, state)
	return state.err
}

// settle finds what the room's extremities and its current state will be.
func (p *plan) settle(rx *storage.Rx, room storage.Room, leaves []storage.Event) error {
	if p.standing != rules.Accepted || p.softFailed {
		return nil
	}
	awaited, err := rx.Awaited(room.Num, p.ev.ID())
	if err != nil {
		return err
	}
	p.moves, p.leaf = true, !awaited
	others := without(leaves, p.passed)
	p.rest = branches(others)
	switch {
	case !p.leaf:
		p.next, err = merge(rx, room, p.rest)
	case len(p.rest) > 0:
		p.next, err = mergeWith(rx, room, p.rest, &p.before, &pending{p.ev, p.generation, p.standing})
	}
	return err
}

// maxPassed bounds how many events [passed] lists. Extremities beyond it stay,
// until something is sent on them.
const maxPassed = 1000

// passed lists what an accepted event leaves behind it: its parents, and where
// one of those was refused, and so left its own parents standing, these as well.
func passed(rx *storage.Rx, parents []storage.Event) ([]storage.Event, error) {
	list, known := slices.Clone(parents), map[storage.EventNum]bool{}
	for i := 0; i < len(list) && len(list) < maxPassed; i++ {
		if e := list[i]; e.Standing == uint8(rules.Accepted) && !e.SoftFailed {
			continue
		}
		behind, err := rx.Events(list[i].PrevEvents())
		if err != nil {
			return nil, err
		}
		for _, e := range behind {
			if e.Event != nil && e.Room == list[i].Room && !known[e.Num] {
				known[e.Num] = true
				list = append(list, e)
			}
		}
	}
	return list, nil
}

// without lists the events that are not among others.
func without(events, others []storage.Event) []storage.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e storage.Event) bool {
		return slices.ContainsFunc(others, func(o storage.Event) bool { return o.Num == e.Num })
	})
}

// holds tells whether what the plan took for granted is still so. It is not
// the extremities themselves: messages that were sent meanwhile change nothing.
func (p *plan) holds(room storage.Room, leaves []storage.Event) bool {
	switch {
	case p.standing != rules.Accepted:
		return true
	case room.State != p.state:
		return false
	case !p.moves:
		return true
	}
	return slices.Equal(branches(without(leaves, p.passed)), p.rest)
}

// carryOut appends the event as planned.
func (r *Rooms) carryOut(tx *storage.Tx, room storage.Room, leaves []storage.Event, p *plan) (storage.Event, error) {
	before, err := p.before.store(tx, room.Num, 0)
	if err != nil {
		return storage.Event{}, fmt.Errorf("state before %s: %w", p.ev.ID(), err)
	}
	a := addition{
		ev: p.ev, outlier: p.outlier, before: before, depth: below(p.parents), generation: p.generation, standing: p.standing,
		softFailed: p.softFailed, untold: p.untold, device: p.device, txnID: p.txnID, leaf: p.leaf, moves: p.moves,
	}
	for _, o := range without(leaves, p.passed) {
		a.others = append(a.others, o.Num)
	}
	if len(p.rest) > 0 {
		a.next = &p.next
	}
	ev, err := r.append(tx, room, a)
	if err == nil && p.received {
		err = redactLate(tx, room, ev)
	}
	return ev, err
}

// redactLate applies redactions that came before the event they name.
func redactLate(tx *storage.Tx, room storage.Room, ev storage.Event) error {
	list, err := tx.RedactionsOf(room.Num, ev.ID())
	if err != nil {
		return err
	}
	for _, by := range list {
		state := snapshot(tx.Rx, by.StateBefore)
		applies := rules.RedactionApplies(by.Event, ev.Event, state)
		if state.err != nil {
			return state.err
		}
		if applies {
			return tx.Redact(ev.Num, by.Num)
		}
	}
	return nil
}
