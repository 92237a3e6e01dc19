// Package storagetest opens stores for tests, on a disk that can be told to
// fail, and checks what must hold of every store at its end.
package storagetest

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/zap/zaptest"

	"hearth/storage"
	"hearth/storage/storagetest/faultvfs"
)

// ServerName is the name of stores that Open opens.
const ServerName = "test.example"

// Option changes how a store is opened.
type Option func(*storage.Options)

// Recorded records from the first byte on what is written and synced, for
// images of a power failure: see faultvfs.VFS.Image.
func Recorded(o *storage.Options) { faultvfs.Named(o.VFS).Record(true) }

// disks holds the file system under each open store.
var disks sync.Map // *storage.Store → *faultvfs.VFS

// Open opens a store in a directory of the test's own. It is checked and
// closed at the test's end.
func Open(tb testing.TB, opts ...Option) *storage.Store {
	tb.Helper()
	return OpenDir(tb, tb.TempDir(), opts...)
}

// OpenDir opens the store in dir, which may exist already. It is checked and
// closed at the test's end, unless the test has closed it.
func OpenDir(tb testing.TB, dir string, opts ...Option) *storage.Store {
	tb.Helper()
	disk, err := faultvfs.New()
	if err != nil {
		tb.Fatal(err)
	}
	opt := storage.Options{Dir: dir, ServerName: ServerName, VFS: disk.Name(), Strict: true, Log: zaptest.NewLogger(tb)}
	for _, o := range opts {
		o(&opt)
	}
	s, err := storage.Open(context.Background(), opt)
	if err != nil {
		tb.Fatal(err)
	}
	if opt.VFS == disk.Name() {
		disks.Store(s, disk)
	}
	tb.Cleanup(func() {
		disk.OnCall(nil)
		if !closed(s) {
			Check(tb, s)
		}
		if err := s.Close(); err != nil {
			tb.Errorf("close the store: %v", err)
		}
		disks.Delete(s)
	})
	return s
}

// Disk is the file system under a store that Open opened.
func Disk(tb testing.TB, s *storage.Store) *faultvfs.VFS {
	tb.Helper()
	d, ok := disks.Load(s)
	if !ok {
		tb.Fatal("storagetest: not a store that this package opened")
	}
	return d.(*faultvfs.VFS)
}

// FailCommit makes the sync of the next COMMIT fail: its units must come to
// nothing. What comes after it, the fence first of all, succeeds.
func FailCommit(tb testing.TB, s *storage.Store) {
	tb.Helper()
	Disk(tb, s).FailNext(func(c faultvfs.Call) bool { return c.Op == faultvfs.Sync && c.WAL() }, 0, 1, faultvfs.SyncError)
}

// Check fails the test where the store's file is not whole, or where one of
// more, the checks of what lives beside it in memory, finds a fault.
func Check(tb testing.TB, s *storage.Store, more ...func(context.Context) error) {
	tb.Helper()
	for _, p := range s.Check(context.Background()) {
		tb.Errorf("check: %s", p)
	}
	for _, c := range more {
		if err := c(context.Background()); err != nil {
			tb.Errorf("check: %v", err)
		}
	}
}

// Scale multiplies n by HEARTH_TEST_SCALE, for loops that are short in CI and
// long by hand.
func Scale(n int) int {
	if f, err := strconv.Atoi(os.Getenv("HEARTH_TEST_SCALE")); err == nil && f > 0 {
		return n * f
	}
	return n
}

// ScaleRandom is [Scale] for rounds of random operations that each prove
// something alone: under the race detector, which looks for something else, a
// tenth of them.
func ScaleRandom(n int) int {
	if Raced {
		n = max(1, n/10)
	}
	return Scale(n)
}

func closed(s *storage.Store) bool {
	err := s.Read(context.Background(), "is it open", func(*storage.Rx) error { return nil })
	return errors.Is(err, storage.ErrClosed)
}
