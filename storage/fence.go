package storage

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

const (
	// fenceHold is how long callers of an ambiguous COMMIT are kept waiting
	// for the fence. Past it they are told that they failed; what the file
	// then says at the next start is kept exactly-once by the transaction
	// record, which is part of the unit.
	fenceHold = 5 * time.Second

	fenceRetryMin = 20 * time.Millisecond
	fenceRetryMax = time.Second
)

// discard gives up the writing connection after its transaction ended in a way
// SQLite did not tell; the next batch opens a new one.
func (s *Store) discard() {
	if s.writer == nil {
		return
	}
	s.loseBackup()
	if err := s.writer.close(); err != nil {
		s.log.Debug("close the writing connection", zap.Error(err))
	}
	s.writer = nil
}

// reopen opens a new writing connection.
func (s *Store) reopen() error {
	c, err := openConn(s.dsn.writer())
	if err != nil {
		return fmt.Errorf("open the writing connection: %w", err)
	}
	c.watch()
	s.writer = c
	return nil
}

// fence answers a COMMIT that failed. Its frames may lie in the WAL, complete
// and perhaps durable, and SQLite would bring them back after a crash; so they
// are overwritten by a commit of our own before anybody is told that they
// failed. While that fails the store takes no writes.
func (s *Store) fence(cause error) error {
	s.count.fences.Add(1)
	s.log.Error("COMMIT failed", zap.Error(cause))
	deadline := time.Now().Add(fenceHold)
	for wait := fenceRetryMin; ; wait = min(2*wait, fenceRetryMax) {
		err := s.tryFence()
		if err == nil {
			s.heal()
			return cause
		}
		s.degrade(err)
		if time.Now().Add(wait).After(deadline) {
			s.fenceLater(wait)
			return errors.Join(cause, ErrReadOnly)
		}
		select {
		case <-time.After(wait):
		case <-s.closing:
			return errors.Join(cause, ErrClosed)
		}
	}
}

// tryFence commits the position row on a new connection.
func (s *Store) tryFence() error {
	s.discard()
	b, err := s.begin()
	if err != nil {
		return err
	}
	pos, err := s.raise(b.c)
	if err == nil {
		err = b.c.commit()
	}
	if err != nil {
		s.discard()
		return err
	}
	s.position.publish(pos)
	return nil
}

// degrade refuses writes until heal.
func (s *Store) degrade(err error) {
	if !s.degraded.Swap(true) {
		s.log.Error("the disk refuses writes: read-only until it accepts them again", zap.Error(err))
	}
	s.queue.refuse(ErrReadOnly)
}

// heal accepts writes again.
func (s *Store) heal() {
	s.queue.refuse(nil)
	if s.degraded.Swap(false) {
		s.log.Info("the disk accepts writes again")
	}
}

// fenceLater tries again after a while, between batches: nothing else writes
// before the fence.
func (s *Store) fenceLater(wait time.Duration) {
	s.queue.after(&s.queue.healing, wait, func() {
		err := s.exclusive(background, s.tryFence)
		if err == nil {
			s.heal()
			return
		}
		s.fenceLater(min(2*wait, fenceRetryMax))
	})
}
