package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"go.uber.org/zap"
)

// makeDir creates the data directory. Each name on the way to it must be durable
// before anything in it can be, so the directories they lie in are synced.
func makeDir(dir string) error {
	var parents []string
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || d == filepath.Dir(d) {
			break
		}
		parents = append(parents, filepath.Dir(d))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the data directory: %w", err)
	}
	for _, p := range parents {
		if err := syncDir(p); err != nil {
			return fmt.Errorf("create the data directory: %w", err)
		}
	}
	return checkWritable(dir)
}

// checkWritable says in plain words what SQLite would say in its own: besides
// the database there must be room for its log.
func checkWritable(dir string) error {
	f, err := os.CreateTemp(dir, "hearth.probe-*")
	switch {
	case err == nil:
		return errors.Join(f.Close(), os.Remove(f.Name()))
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the data directory %s is read-only, or belongs to another user: %w", dir, err)
	default:
		return fmt.Errorf("write to the data directory: %w", err)
	}
}

// prepareFile makes sure that the database file exists, is ours alone, and has
// no write-ahead log of another file beside it.
func (s *Store) prepareFile() error {
	f, err := os.OpenFile(s.dsn.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	// A file that was copied here may be readable by others; keys are in it.
	if err := f.Chmod(0o600); err != nil && runtime.GOOS != "windows" {
		return errors.Join(fmt.Errorf("protect the database: %w", err), f.Close())
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
