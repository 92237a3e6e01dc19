//go:build unix

package storage

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// A descriptor that a starting process has inherited for a moment does not keep
// the directory locked.
func TestReleaseWithACopyOfTheDescriptor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := unix.Dup(int(l.f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(copied) }()
	if _, err := lockDir(dir); !errors.Is(err, ErrLocked) {
		t.Fatalf("got %v, want %v", err, ErrLocked)
	}
	if err := l.release(); err != nil {
		t.Fatal(err)
	}
	again, err := lockDir(dir)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	if err := again.release(); err != nil {
		t.Fatal(err)
	}
}
