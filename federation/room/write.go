package room

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"hearth/storage"
	"hearth/storage/matrix"
)

// maxPlans is how often something is planned anew because the room moved
// meanwhile. Messages do not count, only what changes its state.
const maxPlans = 100

// errMoved says that a room changed between plan and write too often.
var errMoved = errors.New("the room changes faster than this can be planned")

// Write is [storage.Store.Write] for units that send to rooms. A room with
// more forward extremities than an event may name as parents needs a plan
// first: Write makes it and runs the unit again.
func (r *Rooms) Write(ctx context.Context, why string, fn func(*storage.Tx) error) error {
	for range maxPlans {
		err := r.store.Write(ctx, why, fn)
		var u *unplannedError
		if !errors.As(err, &u) {
			return err
		}
		if err := r.planSend(ctx, u); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %w", why, errMoved)
}

// unplannedError says that a draft needs a plan.
type unplannedError struct {
	room  storage.Room
	draft Draft
}

// Error implements error.
func (u *unplannedError) Error() string {
	return fmt.Sprintf("room %s has too many forward extremities to send without a plan", u.room.ID)
}

// prepared holds the plans of drafts until their units run again.
type prepared struct {
	mu    sync.Mutex // guards plans
	plans map[draftKey]*plan
}

// maxPrepared bounds what is prepared at a time. A plan is used within moments.
const maxPrepared = 64

func (p *prepared) put(key draftKey, pl *plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plans == nil || len(p.plans) >= maxPrepared {
		p.plans = map[draftKey]*plan{} // whoever loses theirs, makes it again
	}
	p.plans[key] = pl
}

func (p *prepared) take(key draftKey) *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.plans[key]
	delete(p.plans, key)
	return pl
}

// draftKey tells drafts apart.
type draftKey string

func (d *Draft) key(room storage.RoomNum) draftKey {
	stateKey := "-"
	if d.StateKey != nil {
		stateKey = strconv.Quote(*d.StateKey)
	}
	return draftKey(fmt.Sprintf("%d %q %s %q %q %q %d %d %q",
		room, d.Type, stateKey, d.Sender, d.Content, d.Redacts, d.TS, d.Device, d.TxnID))
}

// sendPrepared appends the event that was planned for the draft, if it was.
func (r *Rooms) sendPrepared(tx *storage.Tx, room storage.Room, leaves []storage.Event, d Draft) (storage.Event, error) {
	p := r.prepared.take(d.key(room.Num))
	if p == nil || !p.holds(room, leaves) {
		return storage.Event{}, &unplannedError{room, d}
	}
	return r.carryOut(tx, room, leaves, p)
}

// planSend builds the event of a draft on as many extremities as an event may
// name, those that came last, and plans what follows from it.
func (r *Rooms) planSend(ctx context.Context, u *unplannedError) error {
	return r.store.Read(ctx, "plan an event", func(rx *storage.Rx) error {
		room, err := rx.RoomByNum(u.room.Num)
		if err != nil {
			return err
		}
		leaves, err := rx.Extremities(room.Num)
		if err != nil {
			return err
		}
		parents := leaves[max(0, len(leaves)-matrix.MaxPrevEvents):]
		p := &plan{parents: parents, passed: parents, leaf: true, device: u.draft.Device, txnID: u.draft.TxnID}
		if p.before, err = merge(rx, room, branches(parents)); err != nil {
			return err
		}
		ev, generation, err := r.build(rx, room, p.before.view(rx), parents, u.draft)
		if err != nil {
			return err
		}
		p.ev, p.generation = ev, generation
		if err := p.checkCurrent(r, rx, room); err != nil {
			return err
		}
		if p.reason != nil {
			return refused(p.reason)
		}
		if err := p.settle(rx, room, leaves); err != nil {
			return err
		}
		r.prepared.put(u.draft.key(room.Num), p)
		return nil
	})
}
