package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// ErrClosed is returned by every call on a store that was closed.
var ErrClosed = errors.New("storage: closed")

// ErrReadOnly is returned by Write while the disk refuses to take the
// database's writes. The store tries again by itself.
var ErrReadOnly = errors.New("storage: read-only until the disk accepts writes again")

// errUnwound is a unit's result until its function returns: it stays where the
// function panicked or left by runtime.Goexit.
var errUnwound = errors.New("storage: the unit did not return")

const (
	maxBatch = 256 // units of one transaction
	maxLater = 64  // housekeeping units that may ride on top of these
)

// Write runs fn as one unit of a write transaction and returns once it is
// durable. On an error nothing of the unit is visible, now or later, to anyone:
// neither rows nor hooks nor news. fn's own error is returned as it is.
//
// ctx governs only the wait for a place in a batch. fn runs on the goroutine
// that called Write, one unit at a time, on one connection: it must neither
// wait for anything nor call Write or Read. A panic or runtime.Goexit in fn
// rolls back the unit and goes on unwinding the caller, after its batch.
//
// why labels logs and metrics; it is a constant.
func (s *Store) Write(ctx context.Context, why string, fn func(*Tx) error) error {
	began := time.Now()
	u := &unit{why: why, fn: fn, signal: make(chan signal, 1), ran: make(chan struct{}, 1)}
	if err := s.await(ctx, u); err != nil {
		return err
	}
	s.count.latency.add(time.Since(began))
	return u.err
}

// await queues u and returns after its batch. An error means that u never ran;
// otherwise its result is u.err.
func (s *Store) await(ctx context.Context, u *unit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.strict {
		refuseNested(unitEntry, readEntry)
	}
	leads, err := s.queue.enter(u)
	if err != nil {
		return err
	}
	if leads {
		s.lead(u)
		return nil
	}
	s.refuseOwnUnit(u)
	var sig signal
	select {
	case sig = <-u.signal:
	case <-ctx.Done():
		if s.queue.leave(u) {
			return ctx.Err()
		}
		sig = <-u.signal // it was taken: it is waited for
	}
	switch sig {
	case lead:
		s.lead(u)
		return nil
	case run:
		u.run()
		<-u.signal
	}
	return nil
}

// exclusive runs fn between two batches, alone with the writing connection.
func (s *Store) exclusive(ctx context.Context, fn func() error) error {
	u := &unit{alone: fn, signal: make(chan signal, 1), ran: make(chan struct{}, 1)}
	if err := s.await(ctx, u); err != nil {
		return err
	}
	return u.err
}

// unit is one call of Write.
type unit struct {
	why    string
	fn     func(*Tx) error
	alone  func() error  // instead of fn: work between batches
	signal chan signal   // leader to caller; holds one
	ran    chan struct{} // caller to leader: fn has ended; holds one
	later  bool          // housekeeping: nobody waits
	tx     *Tx
	err    error
}

type signal int

const (
	lead signal = iota // lead the next batch; your unit is its first
	run                // run your unit now, then wait for done
	done               // your unit's result is set
)

// run calls the unit's function. It is never inlined, so that refuseNested
// finds it on the stack.
//
//go:noinline
func (u *unit) run() {
	began := time.Now()
	u.err = errUnwound
	defer func() {
		u.tx.end(u.why, time.Since(began))
		u.ran <- struct{}{}
	}()
	u.err = u.fn(u.tx)
}

// runLater is run for a unit without a caller: a panic is logged, not passed on.
func (u *unit) runLater(log *zap.Logger) {
	defer func() {
		if r := recover(); r != nil {
			log.Error("housekeeping panicked", zap.String("why", u.why), zap.Any("panic", r), zap.Stack("stack"))
		}
	}()
	u.run()
}

// lead runs one batch, or work that wants to be alone, and hands over. first
// may be nil: then the batch is housekeeping.
func (s *Store) lead(first *unit) {
	defer s.queue.handOver()
	if first != nil && first.alone != nil {
		first.err = first.alone()
		return
	}
	b, err := s.begin()
	if err != nil {
		if first != nil {
			first.err = err
		}
		return
	}
	defer b.finish() // deferred: a panic in first must not take the others along
	if first != nil && b.start(first) {
		first.run()
	}
}

// errLost wraps the reason why a batch was rolled back, for the units in it
// that had succeeded so far.
func errLost(why string, cause error) error {
	return fmt.Errorf("write %s: the transaction was rolled back: %w", why, cause)
}
