package room

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// Outcome is what became of a received event.
type Outcome struct {
	Event storage.Event
	New   bool // it was not in the graph before
	// Reason is why it was rejected or soft-failed; nil: it was neither, or
	// was here already.
	Reason error
}

// MissingError says that a received event cannot be judged before others are
// here: parents with the state before them, and auth events.
type MissingError struct {
	Event   matrix.EventID
	Parents []matrix.EventID
	Auth    []matrix.EventID
}

// Error implements error.
func (e *MissingError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "event %s: missing", e.Event)
	for _, id := range append(e.Parents[:len(e.Parents):len(e.Parents)], e.Auth...) {
		b.WriteString(" " + string(id))
	}
	return b.String()
}

// Receive appends an event that another server made to a room that is here. Its
// parents and auth events must be here: a [*MissingError] names those that are
// not. The signatures that [matrix.RequiredSignatures] names were verified.
//
// An event that the rules refuse is stored as rejected or soft-failed, and is
// no error; nor is one that is here already. Errors are [storage.ErrNotFound]
// for a room that is not here, M_BAD_JSON for what can be no event of the room,
// and failures. Server-Server API, "Checks performed on receipt of a PDU".
func (r *Rooms) Receive(ctx context.Context, ev *matrix.Event) (Outcome, error) {
	if !ev.HashOK() {
		ev = ev.Redacted()
	}
	unlock, err := r.planning.lock(ctx, ev.RoomID())
	if err != nil {
		return Outcome{}, fmt.Errorf("receive %s: %w", ev.ID(), err)
	}
	defer unlock()
	for range maxPlans {
		out, done, err := r.receive(ctx, ev)
		if err != nil {
			return Outcome{}, fmt.Errorf("receive %s: %w", ev.ID(), err)
		}
		if done {
			r.logReceived(out)
			return out, nil
		}
	}
	return Outcome{}, fmt.Errorf("receive %s: %w", ev.ID(), errMoved)
}

// receive plans once and writes; done is false where the room moved in between.
func (r *Rooms) receive(ctx context.Context, ev *matrix.Event) (out Outcome, done bool, err error) {
	var p *plan
	err = r.store.Read(ctx, "plan a received event", func(rx *storage.Rx) error {
		p, out, err = r.planReceived(rx, ev)
		return err
	})
	if p == nil || err != nil {
		return out, true, err
	}
	err = r.store.Write(ctx, "receive an event", func(tx *storage.Tx) error {
		room, err := tx.Room(ev.RoomID())
		if err != nil {
			return err
		}
		leaves, err := tx.Extremities(room.Num)
		if err != nil {
			return err
		}
		if done = p.holds(room, leaves); !done {
			return nil
		}
		out = Outcome{New: true, Reason: p.reason}
		out.Event, err = r.carryOut(tx, room, leaves, p)
		return err
	})
	if errors.Is(err, storage.ErrConflict) {
		return Outcome{}, false, nil // it came by another way meanwhile
	}
	return out, done, err
}

// planReceived plans an event; without a plan there is an outcome already.
func (r *Rooms) planReceived(rx *storage.Rx, ev *matrix.Event) (*plan, Outcome, error) {
	room, err := rx.Room(ev.RoomID())
	if err != nil {
		return nil, Outcome{}, err
	}
	p := &plan{ev: ev, received: true}
	known, err := rx.Event(ev.ID())
	switch {
	case errors.Is(err, storage.ErrNotFound):
	case err != nil:
		return nil, Outcome{}, err
	case known.Room != room.Num:
		return nil, Outcome{}, matrix.Errorf(matrix.BadJSON, "an event of another room has this ID")
	case !known.Outlier:
		return nil, Outcome{Event: known}, nil
	default:
		p.ev, p.outlier = known.Event, known.Num // of two with one ID the stored one stays
	}
	if err := p.gather(rx, room); err != nil {
		return nil, Outcome{}, err
	}
	if p.before, err = merge(rx, room, branches(p.parents)); err != nil {
		return nil, Outcome{}, err
	}
	leaves, err := rx.Extremities(room.Num)
	if err != nil {
		return nil, Outcome{}, err
	}
	for _, step := range []func() error{
		func() error { return p.judge(rx, room) },
		func() error { return p.checkCurrent(r, rx, room) },
		func() error { return p.checkRedaction(rx, room) },
		func() error { return p.settle(rx, room, leaves) },
	} {
		if err := step(); err != nil {
			return nil, Outcome{}, err
		}
	}
	return p, Outcome{}, nil
}

// gather finds the event's parents and auth events.
func (p *plan) gather(rx *storage.Rx, room storage.Room) error {
	if len(p.ev.PrevEvents()) == 0 {
		return matrix.Errorf(matrix.BadJSON, "an event without parents is none of a room that is here")
	}
	missing := &MissingError{Event: p.ev.ID()}
	parents, err := rx.Events(p.ev.PrevEvents())
	if err != nil {
		return err
	}
	for i, e := range parents {
		switch {
		case e.Event != nil && e.Room != room.Num:
			return matrix.Errorf(matrix.BadJSON, "a parent is an event of another room")
		case e.Event == nil || e.Outlier || e.StateBefore == 0 && !e.IsState(matrix.TypeCreate, ""):
			missing.Parents = append(missing.Parents, p.ev.PrevEvents()[i])
		}
	}
	if p.auth, err = rx.Events(p.ev.AuthEvents()); err != nil {
		return err
	}
	for i, e := range p.auth {
		if e.Event == nil {
			missing.Auth = append(missing.Auth, p.ev.AuthEvents()[i])
		}
	}
	if len(missing.Parents)+len(missing.Auth) > 0 {
		return missing
	}
	p.parents = parents
	p.passed, err = passed(rx, parents)
	return err
}

// logReceived tells operators what other servers sent and nobody will see.
func (r *Rooms) logReceived(out Outcome) {
	if out.Reason == nil {
		return
	}
	r.log.Debug("a received event was refused", zap.String("event", string(out.Event.ID())),
		zap.String("room", string(out.Event.RoomID())), zap.Bool("soft_failed", out.Event.SoftFailed),
		zap.Bool("by_auth_events", out.Event.Standing == uint8(rules.RejectedByAuth)), zap.Error(out.Reason))
}
