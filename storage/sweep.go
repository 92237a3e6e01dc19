package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

// sweepChunk is how many rows one unit of a sweep may delete, so that a long
// one never holds up the writer.
const sweepChunk = 500

var (
	freePages = stmt(`SELECT f.freelist_count, c.page_count FROM pragma_freelist_count f, pragma_page_count c`)
	vacuum    = stmt(`PRAGMA incremental_vacuum(500)`)
)

// SweepFunc deletes up to limit rows that have outlived their purpose and
// returns how many it deleted; fewer than limit: none are left.
type SweepFunc func(tx *Tx, limit int) (int, error)

type sweepers struct {
	mu  sync.Mutex // guards all
	all []*sweeper
}

type sweeper struct {
	why   string
	every time.Duration
	fn    SweepFunc
	due   time.Duration // on the steady clock
}

// Sweep registers fn to be called by Run, each time until nothing is left, at
// least a minute after the start and then at the given interval. It is the
// other half of a table's bound: see the comment above its CREATE TABLE.
func (s *Store) Sweep(why string, every time.Duration, fn SweepFunc) {
	s.sweepers.mu.Lock()
	defer s.sweepers.mu.Unlock()
	s.sweepers.all = append(s.sweepers.all, &sweeper{why: why, every: every, fn: fn, due: s.age.mono() + time.Minute})
}

// Run sweeps, stores the age clock and gives free pages back to the file
// system, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.sweep(ctx, false); err != nil && ctx.Err() == nil && !errors.Is(err, ErrReadOnly) {
			s.log.Error("sweep", zap.Error(err))
		}
	}
}

// SweepNow runs every sweeper, due or not, until nothing is left.
func (s *Store) SweepNow(ctx context.Context) error { return s.sweep(ctx, true) }

func (s *Store) sweep(ctx context.Context, all bool) error {
	s.sweepers.mu.Lock()
	list := append([]*sweeper(nil), s.sweepers.all...)
	s.sweepers.mu.Unlock()
	var errs []error
	for _, sw := range list {
		now := s.age.mono()
		if !all && sw.due > now {
			continue
		}
		sw.due = now + sw.every
		errs = append(errs, s.runSweeper(ctx, sw))
	}
	return errors.Join(errs...)
}

func (s *Store) runSweeper(ctx context.Context, sw *sweeper) error {
	total := 0
	for {
		n := 0
		err := s.Write(ctx, sw.why, func(tx *Tx) (err error) {
			n, err = sw.fn(tx, sweepChunk)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", sw.why, err)
		}
		if total += n; n < sweepChunk {
			break
		}
	}
	if total > 0 {
		s.log.Info("swept", zap.String("why", sw.why), zap.Int("rows", total))
	}
	return nil
}

// ownSweeps registers the store's own housekeeping.
func (s *Store) ownSweeps() {
	s.Sweep("store the age clock", 15*time.Minute, func(tx *Tx, _ int) (int, error) {
		tx.moved = true // the clock is stored with every batch that changes something
		return 0, nil
	})
	s.Sweep("collect state", time.Hour, func(tx *Tx, limit int) (int, error) {
		return tx.CollectState(tx.Clock()-stateGrace, limit)
	})
	s.Sweep("collect state keys", 24*time.Hour, new(keySweep).collect)
	// Free pages are reused; only a file that has shrunk a lot gives some back.
	s.Sweep("give back free pages", time.Hour, func(tx *Tx, limit int) (int, error) {
		var free, pages int64
		if err := tx.row(freePages, nil, &free, &pages); err != nil {
			return 0, err
		}
		if free < 4*int64(limit) || free < pages/4 {
			return 0, nil
		}
		_, err := tx.exec(vacuum)
		return limit, err
	})
}
