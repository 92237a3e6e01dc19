package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrLocked is returned by Open and Restore where another process, or another
// store of this one, has the data directory open.
var ErrLocked = errors.New("storage: the data directory is in use")

// lockName is the file whose lock stands for the directory. It stays behind:
// removing it would let two processes lock two files of that name.
const lockName = "hearth.lock"

// dirLock is the hold on a data directory. It ends with the process.
type dirLock struct{ f *os.File }

// lockDir takes the directory, or says who has it.
func lockDir(dir string) (*dirLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	switch err := lockFile(f); {
	case err == nil:
	case !heldElsewhere(err): // a file system that has no locks, say
		return nil, errors.Join(fmt.Errorf("lock the data directory: %w", err), f.Close())
	default:
		holder := make([]byte, 20)
		n, _ := f.ReadAt(holder, 0) // whatever can be read is better than nothing
		err = fmt.Errorf("%w: %s, by process %s", ErrLocked, dir, strings.TrimSpace(string(holder[:n])))
		return nil, errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Truncate(0), writeAll(f, fmt.Sprintln(os.Getpid()))); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data directory: %w", err), f.Close())
	}
	return &dirLock{f}, nil
}

func writeAll(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}

// release gives the directory back. It unlocks before it closes: a process that
// is being started at this moment may hold a copy of the descriptor until it
// has become another program, and the lock is the copy's as well.
func (l *dirLock) release() error { return errors.Join(unlockFile(l.f), l.f.Close()) }
