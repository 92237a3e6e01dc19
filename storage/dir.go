package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
)

// makeDir creates the data directory. Its name must be durable before anything
// in it can be, so its parent is synced.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the data directory: %w", err)
	}
	return syncDir(filepath.Dir(filepath.Clean(dir)))
}

// prepareFile makes sure that the database file exists, is ours alone, and has
// no write-ahead log of another file beside it.
func (s *Store) prepareFile() error {
	f, err := os.OpenFile(s.dsn.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	var header [20]byte
	n, err := io.ReadFull(f, header[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.Join(fmt.Errorf("read the database: %w", err), f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	// Our own file is in WAL mode from its first page on; a backup is not
	// (bytes 18 and 19 of the header, "File Format" of SQLite's documentation).
	// One that was copied over a file whose server had crashed finds that
	// file's log beside it, and SQLite would play it into the backup.
	if n == len(header) && header[18] == 1 {
		if err := s.setAsideWAL(); err != nil {
			return err
		}
	}
	return syncDir(filepath.Dir(s.dsn.path))
}

func (s *Store) setAsideWAL() error {
	wal := s.dsn.path + "-wal"
	st, err := os.Stat(wal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Size() > 0 {
		aside := wal + ".stale-" + s.now().UTC().Format("20060102T150405")
		s.log.Warn("a write-ahead log of another database file was set aside", zap.String("file", aside))
		if err := os.Rename(wal, aside); err != nil {
			return fmt.Errorf("set a stale log aside: %w", err)
		}
	}
	if err := os.Remove(s.dsn.path + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

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

// boundWAL keeps the log bounded. The leader calls it after its batch.
func (s *Store) boundWAL() {
	size := s.walBytes()
	if size < walBound || size < s.walNext || s.writer == nil || s.readers == nil {
		return
	}
	held, all := s.readers.takeAll(walPatience)
	defer func() {
		for _, r := range held {
			s.readers.put(r)
		}
	}()
	if !all {
		s.walNext = size + walBound/2
		for _, r := range s.readers.all {
			if why, since := r.holder(); why != "" {
				s.log.Warn("a read keeps the write-ahead log from being reset", zap.String("why", why),
					zap.Duration("took", time.Since(since)), zap.Int64("bytes", size))
			}
		}
		return
	}
	s.walNext = 0
	if err := s.writer.run("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		s.walNext = size + walBound/2
		s.log.Warn("reset the write-ahead log", zap.Error(err))
	}
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
