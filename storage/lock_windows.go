package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks a byte far behind the content, since on Windows a locked byte
// cannot be read, and the content says who holds the lock.
func lockFile(f *os.File) error {
	at := &windows.Overlapped{Offset: 1 << 20}
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
}

// heldElsewhere tells whether lockFile failed because somebody has the lock.
func heldElsewhere(err error) bool {
	return errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING)
}

func unlockFile(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{Offset: 1 << 20})
}

// syncDir does nothing: Windows has no such call, and NTFS journals names.
func syncDir(string) error { return nil }
