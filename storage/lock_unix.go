//go:build unix

package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// heldElsewhere tells whether lockFile failed because somebody has the lock.
func heldElsewhere(err error) bool { return errors.Is(err, unix.EWOULDBLOCK) }

func unlockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// syncDir makes names that were created, renamed or removed in dir durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	return f.Sync()
}
