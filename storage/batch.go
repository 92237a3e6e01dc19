package storage

import (
	"errors"
	"fmt"
	"runtime"

	"go.uber.org/zap"
)

var (
	beginImmediate = stmt(`BEGIN IMMEDIATE`)
	commitNow      = stmt(`COMMIT`)
	rollback       = stmt(`ROLLBACK`)
	savepoint      = stmt(`SAVEPOINT unit`)
	release        = stmt(`RELEASE unit`)
	rollbackTo     = stmt(`ROLLBACK TO unit`)
)

// batch is one write transaction under way. Only the leader touches it.
type batch struct {
	s       *Store
	c       *conn
	units   []*unit // in the order in which they ran
	current *unit   // started and not settled
	kept    []*unit // those that succeeded so far
	dirty   bool    // one of these changed something
	lost    error   // the transaction ended by itself: nothing more may run
}

// begin opens the transaction, and the writing connection where the last batch
// had to give it up.
func (s *Store) begin() (*batch, error) {
	if s.writer == nil {
		if err := s.reopen(); err != nil {
			return nil, err
		}
	}
	c := s.writer
	c.dead, c.dirty, *c.guard = nil, false, guard{}
	if _, err := c.exec(beginImmediate, nil); err != nil {
		s.discard()
		return nil, fmt.Errorf("begin: %w", err)
	}
	return &batch{s: s, c: c}, nil
}

// start opens u's savepoint. Where that fails, u will not run.
func (b *batch) start(u *unit) bool {
	b.units = append(b.units, u)
	if _, err := b.c.exec(savepoint, nil); err != nil {
		u.err = err
		b.lost = err
		return false
	}
	b.c.dirty = false
	u.tx = b.s.newTx(b.c)
	b.current = u
	return true
}

// settle waits for the unit that is running and keeps or undoes what it did.
func (b *batch) settle() {
	u := b.current
	if u == nil {
		return
	}
	<-u.ran
	b.current = nil
	closed := b.c.closeRows()
	if u.err == nil {
		// A unit that swallowed such an error must not be half kept.
		u.err = errors.Join(b.c.dead, closed)
	}
	b.c.dead = nil
	if u.err == nil {
		changed := b.c.dirty || u.tx.moved
		if _, err := b.c.exec(release, nil); err != nil {
			u.err, b.lost = err, err
			return
		}
		b.kept = append(b.kept, u)
		b.dirty = b.dirty || changed
		return
	}
	b.undo(u)
}

// undo rolls u back. Only a savepoint that is still there proves that the
// transaction is: SQLite may have rolled back all of it (design section 3,
// "Automatic rollback"), and the next unit would commit by itself.
func (b *batch) undo(u *unit) {
	if b.c.guard.rolledBack {
		b.lost = u.err
		return
	}
	for _, st := range []*statement{rollbackTo, release} {
		if _, err := b.c.exec(st, nil); err != nil {
			b.lost = errors.Join(u.err, err)
			return
		}
	}
}

// finish runs the units that wait, commits and answers everyone. It is the
// whole rest of a batch, so that it can be deferred.
func (b *batch) finish() {
	b.settle()
	for b.lost == nil && len(b.units) < maxBatch {
		u := b.s.queue.take()
		if u == nil {
			// Those whom the last batch has just answered are about to ask
			// again: one turn for them saves a COMMIT of its own.
			runtime.Gosched()
			if u = b.s.queue.take(); u == nil {
				break
			}
		}
		if b.start(u) {
			u.signal <- run
			b.settle()
		}
	}
	if b.lost == nil {
		b.housekeep()
	}
	if b.lost = b.end(); b.lost != nil {
		for _, u := range b.kept {
			u.err = errLost(u.why, b.lost)
		}
	}
	b.answer()
	b.s.boundWAL()
}

// housekeep runs units for which nobody waits.
func (b *batch) housekeep() {
	for _, u := range b.s.queue.takeLater(maxLater) {
		if b.lost == nil && b.start(u) {
			go u.runLater(b.s.log)
			b.settle()
		}
		if err := errors.Join(u.err, b.lost); err != nil {
			b.s.log.Warn("housekeeping failed", zap.String("why", u.why), zap.Error(err))
		}
	}
}

// end commits what was kept and publishes it. A batch that changed nothing
// ends without touching the disk.
func (b *batch) end() error {
	if b.lost != nil {
		b.s.discard()
		return b.lost
	}
	pos := b.s.Pos()
	if b.dirty {
		var err error
		if pos, err = b.commit(); err != nil {
			return err
		}
	} else if _, err := b.c.exec(rollback, nil); err != nil {
		b.s.discard()
	}
	b.s.runHooks(b.kept)
	b.s.position.publish(pos)
	var news []News
	for _, u := range b.kept {
		news = append(news, u.tx.news...)
	}
	if len(news) > 0 {
		b.s.bus.announce(news...)
	}
	return nil
}

// commit makes the batch durable.
func (b *batch) commit() (int64, error) {
	pos, err := b.s.raise(b.c)
	if err != nil {
		b.s.discard() // no COMMIT was tried: nothing can come back
		return 0, err
	}
	if err := b.c.commit(); err != nil {
		return 0, b.s.fence(err)
	}
	b.s.count.committed(len(b.kept))
	return pos, nil
}

// commit ends the open transaction, as only a leader may.
func (c *conn) commit() error {
	c.guard.mayCommit = true
	defer func() { c.guard.mayCommit = false }()
	_, err := c.exec(commitNow, nil)
	return err
}

// answer gives every caller its result.
func (b *batch) answer() {
	for _, u := range b.units {
		if !u.later {
			u.signal <- done
		}
		if u.err != nil {
			b.s.count.failed.Add(1)
		}
	}
}

// runHooks calls the hooks of units in order. There is no way back after
// COMMIT: a hook that panics ends the process, whoever would recover it, and
// the next start rebuilds memory from the file.
func (s *Store) runHooks(units []*unit) {
	returned := false
	defer func() {
		if returned {
			return
		}
		cause := recover()
		s.log.Error("a commit hook panicked; the process ends", zap.Any("panic", cause), zap.Stack("stack"))
		s.die(cause)
	}()
	for _, u := range units {
		for _, h := range u.tx.hooks {
			h()
		}
	}
	returned = true
}
