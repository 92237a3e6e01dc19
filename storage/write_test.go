package storage_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hearth/storage"
	"hearth/storage/storagetest"
)

// TestGroupCommit has many writers at once, and expects every unit once, in
// fewer commits, with hooks, positions and table in one order.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	const writers = 32
	each := storagetest.Scale(20)
	type entry struct{ pos, row int64 }
	var hooked []entry // no lock: hooks are one at a time
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				row := int64(w*each + i)
				err := s.Write(context.Background(), "put", func(tx *storage.Tx) error {
					e := entry{tx.NextPos(), row}
					tx.AfterCommit(func() {
						if s.Pos() >= e.pos {
							t.Errorf("position %d was published before its hook ran", e.pos)
						}
						hooked = append(hooked, e)
					})
					return tx.Put(row, "v")
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(hooked) != writers*each || rowsFrom0(t, s) != int64(writers*each) {
		t.Errorf("%d hooks, %d rows, want %d", len(hooked), rowsFrom0(t, s), writers*each)
	}
	if !slices.IsSortedFunc(hooked, func(a, b entry) int { return int(a.pos - b.pos) }) {
		t.Error("hooks ran out of order of their positions")
	}
	if st := s.Stats(); st.Commits*2 > st.Units {
		t.Errorf("%d units took %d commits", st.Units, st.Commits)
	}
}

// TestUnwinding lets unit k of n leave by a panic or by Goexit. It reaches its
// own caller, and nobody else.
func TestUnwinding(t *testing.T) {
	t.Parallel()
	const n = 3
	for name, leave := range map[string]func(){"panic": func() { panic("mine") }, "goexit": runtime.Goexit} {
		for k := range n {
			t.Run(fmt.Sprint(name, " in unit ", k), func(t *testing.T) {
				t.Parallel()
				s, mem := storagetest.Open(t), &memory{}
				var units []func(*storage.Tx) error
				for i := range int64(n) {
					units = append(units, mem.unit(i, "v", func(*storage.Tx) error {
						if int(i) == k {
							leave()
						}
						return nil
					}))
				}
				errs, left := s.BatchUnwinding(units...)
				if got := left[k]; got == nil || (name == "panic" && got != "mine") {
					t.Errorf("the caller of unit %d saw %v", k, got)
				}
				for i := range n {
					if i != k && left[i] != nil {
						t.Errorf("the caller of unit %d was unwound: %v", i, left[i])
					}
				}
				errs[k] = errMine
				mem.expect(t, s, errs)
				put(t, s, 100)
			})
		}
	}
}

func TestNestedCallsPanic(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	ctx := context.Background()
	inWrite := func(fn func() error) error {
		return s.Write(ctx, "outer", func(*storage.Tx) error { return fn() })
	}
	inRead := func(fn func() error) error {
		return s.Read(ctx, "outer", func(*storage.Rx) error { return fn() })
	}
	read := func() error { return s.Read(ctx, "inner", func(*storage.Rx) error { return nil }) }
	write := func() error { return s.Write(ctx, "inner", func(*storage.Tx) error { return nil }) }
	for name, call := range map[string]func() error{
		"write in write": func() error { return inWrite(write) },
		"read in write":  func() error { return inWrite(read) },
		"read in read":   func() error { return inRead(read) },
		"write in read":  func() error { return inRead(write) },
	} {
		got := func() (got any) {
			defer func() { got = recover() }()
			return call()
		}()
		if text, ok := got.(string); !ok || !strings.Contains(text, "inside") {
			t.Errorf("%s: %v", name, got)
		}
	}
	put(t, s, 0)
}

// TestContextGovernsTheWaitOnly cancels one caller that waits and one whose
// unit runs.
func TestContextGovernsTheWaitOnly(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	ctx, cancel := context.WithCancel(context.Background())
	running := make(chan struct{})
	release := make(chan struct{})
	first := make(chan error)
	go func() {
		first <- s.Write(ctx, "runs", func(tx *storage.Tx) error {
			close(running)
			<-release
			return tx.Put(0, "v")
		})
	}()
	<-running
	waiting, stop := context.WithCancel(context.Background())
	second := make(chan error)
	go func() {
		second <- s.Write(waiting, "waits", func(tx *storage.Tx) error { return tx.Put(1, "v") })
	}()
	s.WaitQueued(1)
	stop()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that waited: %v", err)
	}
	cancel()
	close(release)
	if err := <-first; err != nil {
		t.Errorf("the one that ran: %v", err)
	}
	if got := names(t, s); !slices.Equal(got, []int64{0}) {
		t.Errorf("rows %v, want [0]", got)
	}
	if err := s.Write(ctx, "late", func(*storage.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled caller: %v", err)
	}
}

// TestCancelledWhenTaken cancels a caller after a leader took its unit and
// before it runs: it is waited for, and told that it is durable.
func TestCancelledWhenTaken(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	var armed atomic.Bool
	s := storagetest.Open(t, func(o *storage.Options) {
		o.Now = func() time.Time { // read once per unit, at that moment
			if armed.CompareAndSwap(true, false) {
				cancel()
				for range 1000 {
					runtime.Gosched() // let the caller see it
				}
			}
			return time.Now()
		}
	})
	second := make(chan error, 1)
	err := s.Write(context.Background(), "first", func(*storage.Tx) error {
		go func() {
			second <- s.Write(ctx, "second", func(tx *storage.Tx) error { return tx.Put(0, "v") })
		}()
		s.WaitQueued(1)
		armed.Store(true)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil || rowsFrom0(t, s) != 1 {
		t.Errorf("told %v, %d rows", err, rowsFrom0(t, s))
	}
}

// TestHookPanicEndsTheProcess replaces the end of the process by a note.
func TestHookPanicEndsTheProcess(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	var cause any
	s.OnDeath(func(c any) { cause = c })
	err := s.Write(context.Background(), "hook", func(tx *storage.Tx) error {
		tx.AfterCommit(func() { panic("hook") })
		return tx.Put(0, "v")
	})
	if cause != "hook" {
		t.Errorf("the process went on: %v, %v", cause, err)
	}
}

func TestUseAfterEnd(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	var kept *storage.Tx
	err := s.Write(context.Background(), "keep", func(tx *storage.Tx) error {
		kept = tx
		return tx.Put(0, "v")
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Put(1, "v"); err == nil {
		t.Error("a unit was used after its end")
	}
	if _, err := kept.Count(); err == nil {
		t.Error("a unit was read after its end")
	}
}

func TestConflict(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	put(t, s, 0)
	err := s.Write(context.Background(), "again", func(tx *storage.Tx) error {
		err := tx.Put(0, "v")
		if !errors.Is(err, storage.ErrConflict) {
			t.Errorf("a second row of the name: %v", err)
		}
		if err := tx.PutBad(); err == nil || errors.Is(err, storage.ErrConflict) {
			t.Errorf("NULL where it may not be: %v", err)
		}
		return tx.Put(1, "v") // the unit may go on
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := rowsFrom0(t, s); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

// TestLater rides with a batch, by the timer, and with Close, and dies with Abort.
func TestLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := storagetest.OpenDir(t, dir)
		later := func(n int64) {
			s.Later("put", func(tx *storage.Tx) error { return tx.Put(n, "v") })
		}
		later(0)
		s.Later("fail", func(*storage.Tx) error { return errMine })
		s.Later("panic", func(*storage.Tx) error { panic("housekeeping") })
		s.Later("exit", func(*storage.Tx) error { runtime.Goexit(); return nil })
		put(t, s, 1)
		if got := rowsFrom0(t, s); got != 2 {
			t.Errorf("after a batch: %d rows, want 2", got)
		}
		began := time.Now()
		later(2)
		for rowsFrom0(t, s) < 3 {
			wait(t)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("the timer took %s", took)
		}
		for n := range int64(200) { // more than ride with one batch
			later(3 + n)
		}
		s = reopen(t, s, dir)
		if got := rowsFrom0(t, s); got != 203 {
			t.Errorf("after Close: %d rows, want 203", got)
		}
		later(203)
		if err := s.Abort(); err != nil {
			t.Fatal(err)
		}
		s = storagetest.OpenDir(t, dir)
		if got := rowsFrom0(t, s); got != 203 {
			t.Errorf("after Abort: %d rows, want 203", got)
		}
	})
}

func TestClosed(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := write(s, 0); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("write: %v", err)
	}
	if err := s.Read(t.Context(), "r", func(*storage.Rx) error { return nil }); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if err := s.Point(t.Context(), "r", func(*storage.Rx) error { return nil }); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("point read: %v", err)
	}
	if err := s.WaitPos(t.Context(), s.Pos()+1); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("wait for a position: %v", err)
	}
	if err := s.Backup(t.Context(), t.TempDir()+"/b", nil); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("backup: %v", err)
	}
	s.Later("late", func(*storage.Tx) error { return nil })
}
