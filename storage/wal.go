package storage

import (
	"os"
	"time"

	"go.uber.org/zap"
)

const (
	// walBound is the size from which on the writer stops new reads for a
	// moment to reset the log: where reads always overlap, SQLite never can.
	walBound = 4 * walCheckpoint * pageSize
	// walPatience is how long writers wait for running reads at that.
	walPatience = 100 * time.Millisecond
)

// walBytes is the size of the write-ahead log.
func (s *Store) walBytes() int64 {
	st, err := os.Stat(s.dsn.path + "-wal")
	if err != nil {
		return 0 // not there yet
	}
	return st.Size()
}

// boundWAL keeps the log bounded. The leader calls it after its batch. While a
// read holds its snapshot for long there is nothing to be done but to name it.
func (s *Store) boundWAL() {
	if s.writer == nil || s.readers == nil {
		return
	}
	size := s.walBytes()
	if size < s.walBound || s.readers.longHeld(s, size) {
		return
	}
	held, all := s.readers.takeAll(walPatience)
	defer func() {
		for _, r := range held {
			s.readers.put(r)
		}
	}()
	if !all {
		return // the one that is missing is long by now
	}
	if err := s.writer.run("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		s.log.Warn("reset the write-ahead log", zap.Error(err))
	}
}

// longHeld tells whether a connection has been held beyond the writer's
// patience, and logs its holder once.
func (p *readers) longHeld(s *Store, size int64) bool {
	for _, r := range p.all {
		why, since := r.holder()
		if why == "" || time.Since(since) < walPatience {
			continue
		}
		if !since.Equal(s.blamed) {
			s.blamed = since
			s.log.Warn("a read keeps the write-ahead log from being reset", zap.String("why", why),
				zap.Duration("took", time.Since(since)), zap.Int64("bytes", size))
		}
		return true
	}
	return false
}

// takeAll takes every connection that comes back in time.
func (p *readers) takeAll(patience time.Duration) (held []*reader, all bool) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for len(held) < len(p.all) {
		select {
		case r := <-p.free:
			held = append(held, r)
		case r := <-p.point:
			held = append(held, r)
		case <-timeout.C:
			return held, false
		}
	}
	return held, true
}
