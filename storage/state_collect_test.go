package storage_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"hearth/storage"
	"hearth/storage/storagetest"
)

// collectAll collects whatever nothing refers to and says how many snapshots are left.
func collectAll(t *testing.T, s *storage.Store) (left int64) {
	t.Helper()
	sweep(t, func(limit int) (n int, err error) {
		return n, s.Write(context.Background(), "collect", func(tx *storage.Tx) error {
			n, err = tx.CollectState(math.MaxInt64, limit)
			return err
		})
	})
	return sizesOf(t, s).snapshots
}

// TestCollectKeepsWhatBranchesShare collects a large state that three others
// stand on only when one is left: before, each would have to hold it.
func TestCollectKeepsWhatBranchesShare(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	room := newRoom(t, s, "!a:test.example").Num
	full := make([]storage.StateKeyed, 1000)
	for i := range full {
		full[i] = member(i, storage.EventNum(1+i))
	}
	within(t, s, func(tx *storage.Tx) error {
		root, err := tx.StoreState(room, nil, full)
		for i := 1; i <= 3 && err == nil; i++ {
			var n storage.StateNum
			if n, err = tx.ChildState(room, root, []storage.StateKeyed{member(i, storage.EventNum(2000+i))}); err == nil {
				err = tx.Refer(room, i, n)
			}
		}
		return err
	})
	drop := func(event int) {
		within(t, s, func(tx *storage.Tx) error { return tx.Unrefer(event) })
	}
	if left := collectAll(t, s); left != 4 {
		t.Errorf("of a state with three children %d snapshots are left, want 4", left)
	}
	if z := sizesOf(t, s); z.bytes > 5000 {
		t.Errorf("they take %d bytes", z.bytes)
	}
	drop(1)
	if left := collectAll(t, s); left != 3 {
		t.Errorf("with two children %d are left, want 3", left)
	}
	drop(2)
	if left := collectAll(t, s); left != 1 {
		t.Errorf("with one child %d are left, want 1", left)
	}
	drop(3)
	if left := collectAll(t, s); left != 0 {
		t.Errorf("without children %d are left", left)
	}
}

// TestCollectLine has a line of changes of which only some are referred to.
func TestCollectLine(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	room := newRoom(t, s, "!a:test.example").Num
	within(t, s, func(tx *storage.Tx) (err error) {
		at := storage.StateNum(0)
		for i := 1; i <= 300 && err == nil; i++ {
			if at, err = tx.ChildState(room, at, []storage.StateKeyed{member(i%50, storage.EventNum(i))}); err == nil && i%100 == 0 {
				err = tx.Refer(room, i, at)
			}
		}
		return err
	})
	if left := collectAll(t, s); left > 4 {
		t.Errorf("of 300 snapshots %d are left for 3 that are referred to", left)
	}
	within(t, s, func(tx *storage.Tx) error {
		for i := range 50 {
			want := storage.EventNum(300 - (300-i)%50)
			if i == 0 {
				want = 300
			}
			var at storage.StateNum
			if err := tx.Referred(300, &at); err != nil {
				return err
			}
			if e, err := tx.StateEvent(at, "m.room.member", fmt.Sprintf("@u%d:test.example", i)); e != want || err != nil {
				t.Errorf("u%d has event %d, %v; want %d", i, e, err, want)
			}
		}
		return nil
	})
}

// TestNewStateWaits keeps a state that nothing refers to yet for an hour.
func TestNewStateWaits(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	room := newRoom(t, s, "!a:test.example").Num
	within(t, s, func(tx *storage.Tx) error {
		_, err := tx.ChildState(room, 0, []storage.StateKeyed{member(1, 1)})
		return err
	})
	if err := s.SweepNow(context.Background()); err != nil {
		t.Fatal(err)
	}
	if z := sizesOf(t, s); z.snapshots != 1 {
		t.Errorf("%d snapshots are left, want the new one", z.snapshots)
	}
}
