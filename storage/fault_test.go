package storage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"hearth/storage"
	"hearth/storage/storagetest"
	"hearth/storage/storagetest/faultvfs"
)

// memory is what a component keeps beside its table: filled by hooks only.
type memory struct {
	mu   sync.Mutex
	rows []int64
}

// unit inserts row n, tells mem after the commit, and may do something between.
func (m *memory) unit(n int64, value string, between func(*storage.Tx) error) func(*storage.Tx) error {
	return func(tx *storage.Tx) error {
		tx.NextPos()
		if err := tx.Put(n, value); err != nil {
			return err
		}
		tx.AfterCommit(func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.rows = append(m.rows, n)
		})
		tx.News(storage.News{Devices: []int64{n + 1}})
		if between != nil {
			return between(tx)
		}
		return nil
	}
}

// expect compares results, table and memory: a unit is in all three or in none.
func (m *memory) expect(t *testing.T, s *storage.Store, errs []error) {
	t.Helper()
	var ok []int64
	for n, err := range errs {
		if err == nil {
			ok = append(ok, int64(n))
		}
	}
	if got := names(t, s); !slices.Equal(got, ok) {
		t.Errorf("table has %v, callers were told %v", got, ok)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(m.rows, ok) {
		t.Errorf("memory has %v, callers were told %v", m.rows, ok)
	}
}

var errMine = errors.New("the unit's own error")

// TestUnitFails fails unit k of n in each way that leaves the transaction as it
// was: only that unit is gone.
func TestUnitFails(t *testing.T) {
	t.Parallel()
	const n = 5
	ways := map[string]func(*storage.Tx) error{
		"own error":  func(*storage.Tx) error { return errMine },
		"constraint": func(tx *storage.Tx) error { return tx.PutBad() },
		"open rows":  func(tx *storage.Tx) error { return errors.Join(tx.LeakRows(), errMine) },
	}
	for name, way := range ways {
		for k := range n {
			t.Run(fmt.Sprint(name, " in unit ", k), func(t *testing.T) {
				t.Parallel()
				s, mem := storagetest.Open(t), &memory{}
				var units []func(*storage.Tx) error
				for i := range int64(n) {
					var between func(*storage.Tx) error
					if int(i) == k {
						between = way
					}
					units = append(units, mem.unit(i, "v", between))
				}
				errs := s.Batch(units...)
				for i, err := range errs {
					if (err != nil) != (i == k) {
						t.Errorf("unit %d: %v", i, err)
					}
				}
				mem.expect(t, s, errs)
				if st := s.Stats(); st.Fences != 0 || st.Degraded {
					t.Errorf("a failed unit was taken for a failed disk: %+v", st)
				}
			})
		}
	}
}

// TestDiskFailsInUnit lets the disk refuse a write inside unit k of n, which
// makes SQLite end the whole transaction. Whether the unit passes the error on
// or swallows it: what callers are told, the table and memory agree, nothing
// commits by itself, and afterwards the same requests succeed exactly once.
func TestDiskFailsInUnit(t *testing.T) {
	t.Parallel()
	const n = 4
	for _, code := range []faultvfs.Code{faultvfs.Full, faultvfs.WriteError} {
		for _, swallow := range []bool{false, true} {
			for k := range n {
				t.Run(fmt.Sprintf("code %d swallow %v unit %d", code, swallow, k), func(t *testing.T) {
					t.Parallel()
					s, mem := storagetest.Open(t, storage.SmallCache), &memory{}
					disk := storagetest.Disk(t, s)
					refused := func() int { return 0 }
					var units []func(*storage.Tx) error
					for i := range int64(n) {
						if int(i) != k {
							units = append(units, mem.unit(i, "v", nil))
							continue
						}
						units = append(units, mem.unit(i, "v", func(tx *storage.Tx) error {
							refused = disk.FailNext(isWrite, 0, 1, code)
							err := spill(tx)
							disk.OnCall(nil)
							if err == nil {
								return errors.New("the fault was not noticed")
							}
							if e := tx.Put(1000, "after"); e == nil {
								t.Error("a statement ran after the disk had failed")
							}
							if swallow {
								return nil
							}
							return err
						}))
					}
					errs := s.Batch(units...)
					if refused() != 1 {
						t.Fatalf("%d writes were refused", refused())
					}
					if errs[k] == nil {
						t.Errorf("unit %d met a failing disk and was told it is durable", k)
					}
					mem.expect(t, s, errs)
					for i, err := range errs { // the clients' retries
						if err == nil {
							continue
						}
						if err := s.Write(context.Background(), "retry", mem.unit(int64(i), "v", nil)); err != nil {
							t.Errorf("retry of %d: %v", i, err)
						}
					}
					if got := rowsFrom0(t, s); got != n {
						t.Errorf("%d rows after the retries, want %d", got, n)
					}
				})
			}
		}
	}
}

// TestRollbackInsideUnit ends the transaction by a statement that says so, with
// a code that otherwise leaves a transaction alone. What follows in the unit
// would commit by itself.
func TestRollbackInsideUnit(t *testing.T) {
	t.Parallel()
	for k := range 3 {
		s, mem := storagetest.Open(t), &memory{}
		var units []func(*storage.Tx) error
		for i := range int64(3) {
			var between func(*storage.Tx) error
			if int(i) == k {
				between = func(tx *storage.Tx) error {
					if err := tx.PutOrRollback(i); err == nil {
						t.Error("a row was there twice")
					}
					if err := tx.Put(1000, "after"); err == nil {
						t.Error("a statement ran outside the transaction")
					}
					return nil
				}
			}
			units = append(units, mem.unit(i, "v", between))
		}
		errs := s.Batch(units...)
		if errs[k] == nil {
			t.Errorf("unit %d was told it is durable", k)
		}
		mem.expect(t, s, errs)
	}
}

// TestFullStatement meets a limit that ends a statement, not the transaction.
func TestFullStatement(t *testing.T) {
	t.Parallel()
	s, mem := storagetest.Open(t), &memory{}
	s.LimitPages(t, 20)
	errs := s.Batch(
		mem.unit(0, "v", nil),
		mem.unit(1, "v", func(tx *storage.Tx) error {
			if err := tx.PutMany(2000, 200); err == nil {
				t.Error("the limit was not noticed")
			}
			return nil
		}),
		mem.unit(2, "v", nil))
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("the other units: %v, %v", errs[0], errs[2])
	}
	if errs[1] == nil {
		t.Error("a unit that swallowed a full disk was kept")
	}
	mem.expect(t, s, errs)
	s.LimitPages(t, 1<<20)
	put(t, s, 5)
}

func isWrite(c faultvfs.Call) bool { return c.Op == faultvfs.Write && c.WAL() }

func isSync(c faultvfs.Call) bool { return c.Op == faultvfs.Sync && c.WAL() }

// spill writes more than SQLite's small cache holds, so that it must write the
// log before COMMIT.
func spill(tx *storage.Tx) error {
	value := strings.Repeat("x", 64<<10)
	for i := range int64(20) {
		if err := tx.Put(2000+i, value); err != nil {
			return err
		}
	}
	return nil
}

// TestDiskFailsAtCommit lets the sync or a write of COMMIT fail, and the fence
// after it a number of times. All units of the batch fail, memory is as before,
// and the same requests succeed exactly once.
func TestDiskFailsAtCommit(t *testing.T) {
	t.Parallel()
	const n = 4
	for name, match := range map[string]func(faultvfs.Call) bool{"write": isWrite, "sync": isSync} {
		for _, code := range []faultvfs.Code{faultvfs.Full, faultvfs.WriteError, faultvfs.SyncError} {
			for fences := range 4 {
				t.Run(fmt.Sprintf("%s code %d and %d fences", name, code, fences), func(t *testing.T) {
					t.Parallel()
					s, mem := storagetest.Open(t), &memory{}
					var units []func(*storage.Tx) error
					for i := range int64(n) {
						units = append(units, mem.unit(i, "v", nil))
					}
					pos := s.Pos()
					sub := s.Subscribe(storage.Interest{Device: 1})
					defer sub.Close()
					refused := storagetest.Disk(t, s).FailNext(match, 0, 1+fences, code)
					errs := s.Batch(units...)
					if refused() != 1+fences {
						t.Fatalf("%d calls were refused, want %d", refused(), 1+fences)
					}
					for i, err := range errs {
						if err == nil {
							t.Errorf("unit %d was told it is durable", i)
						}
					}
					mem.expect(t, s, errs)
					select {
					case <-sub.C():
						t.Error("a waiter woke for a commit that failed")
					default:
					}
					if s.Pos() <= pos+n {
						t.Errorf("position %d after the fence: positions up to %d were handed out", s.Pos(), pos+n)
					}
					if got := s.Batch(units...); errors.Join(got...) != nil {
						t.Errorf("retries: %v", got)
					}
					if got := rowsFrom0(t, s); got != n {
						t.Errorf("%d rows after the retries, want %d", got, n)
					}
					if st := s.Stats(); st.Fences != 1 || st.Degraded {
						t.Errorf("after the fence: %+v", st)
					}
				})
			}
		}
	}
}

// TestAmbiguousCommitIsFenced takes the file as it is on disk after a COMMIT
// whose sync failed: without the fence its units are in it, with it they are not.
func TestAmbiguousCommitIsFenced(t *testing.T) {
	t.Parallel()
	for _, fenced := range []bool{false, true} {
		t.Run(fmt.Sprint("fenced ", fenced), func(t *testing.T) {
			t.Parallel()
			dir, crashed := t.TempDir(), t.TempDir()
			s := storagetest.OpenDir(t, dir)
			put(t, s, 0)
			disk := storagetest.Disk(t, s)
			calls := 0
			disk.OnCall(func(c faultvfs.Call) faultvfs.Code {
				if !isSync(c) {
					return 0
				}
				calls++
				if calls == 1 {
					if !fenced {
						copyFiles(t, dir, crashed)
					}
					return faultvfs.SyncError
				}
				return 0
			})
			if err := write(s, 1); err == nil {
				t.Fatal("the commit succeeded")
			}
			if fenced {
				copyFiles(t, dir, crashed)
			}
			r := storagetest.OpenDir(t, crashed)
			if got, want := rowsFrom0(t, r), map[bool]int64{false: 2, true: 1}[fenced]; got != want {
				t.Errorf("%d rows after the crash, want %d", got, want)
			}
			if fenced && r.Pos() < s.Pos() {
				t.Errorf("position %d after the crash, %d was published before", r.Pos(), s.Pos())
			}
		})
	}
}

// TestReadOnlyUntilTheDiskRecovers keeps the disk broken for longer than
// callers of an ambiguous COMMIT are held.
func TestReadOnlyUntilTheDiskRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := storagetest.Open(t)
		put(t, s, 0)
		var broken atomic.Bool // the next try at the fence runs on a timer's goroutine
		broken.Store(true)
		storagetest.Disk(t, s).OnCall(func(c faultvfs.Call) faultvfs.Code {
			if broken.Load() && isSync(c) {
				return faultvfs.SyncError
			}
			return 0
		})
		result := make(chan error)
		go func() { result <- write(s, 1) }()
		synctest.Wait() // the leader waits for its next try at the fence
		if !s.Stats().Degraded {
			t.Error("not degraded although the fence fails")
		}
		if err := write(s, 2); !errors.Is(err, storage.ErrReadOnly) {
			t.Errorf("write while degraded: %v", err)
		}
		if got := rowsFrom0(t, s); got != 1 {
			t.Errorf("read while degraded: %d rows, want 1", got)
		}
		if err := <-result; !errors.Is(err, storage.ErrReadOnly) {
			t.Errorf("the ambiguous commit: %v", err)
		}
		if err := write(s, 3); !errors.Is(err, storage.ErrReadOnly) {
			t.Errorf("write after the hold: %v", err)
		}
		broken.Store(false)
		for s.Stats().Degraded {
			synctest.Wait()
			wait(t)
		}
		for i := range int64(3) {
			put(t, s, 1+i)
		}
		if got := rowsFrom0(t, s); got != 4 {
			t.Errorf("%d rows after recovery, want 4", got)
		}
	})
}
