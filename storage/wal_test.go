package storage_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"hearth/storage"
	"hearth/storage/storagetest"
)

// TestLogIsBounded writes far more than the log may hold beside reads that
// always overlap, in which SQLite alone could never reset it.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	const bound = 10 << 20
	s.BoundWAL(bound)
	value := strings.Repeat("x", 256<<10)
	stop := make(chan struct{})
	began := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				// Each read ends only after another has begun, or the writer has
				// stopped that one.
				err := s.Read(context.Background(), "overlap", func(rx *storage.Rx) error {
					_, err := rx.Count()
					meet(began, true)
					meet(began, false)
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	highest := int64(0)
	for i := range int64(storagetest.Scale(16)) {
		err := s.Write(context.Background(), "much", func(tx *storage.Tx) error {
			for j := range int64(8) {
				if err := tx.Put(8*i+j, value); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		highest = max(highest, s.Stats().WALBytes)
	}
	close(stop)
	wg.Wait()
	if limit := int64(bound + bound/2); highest > limit {
		t.Errorf("the log grew to %d MB, want at most %d MB", highest>>20, limit>>20)
	}
	if highest < bound/2 {
		t.Errorf("the log grew to %d MB only: not what this test is about", highest>>20)
	}
}

// meet hands over, or receives, on c, unless nobody comes for a moment.
func meet(c chan struct{}, give bool) {
	moment := time.NewTimer(5 * time.Millisecond)
	defer moment.Stop()
	to, from := c, c
	if give {
		from = nil
	} else {
		to = nil
	}
	select {
	case to <- struct{}{}:
	case <-from:
	case <-moment.C:
	}
}

// TestLongReadDoesNotStopWrites keeps one snapshot open for the whole test.
func TestLongReadDoesNotStopWrites(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	put(t, s, 0)
	held, release := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- s.Read(context.Background(), "long", func(rx *storage.Rx) error {
			close(held)
			<-release
			n, err := rx.Count()
			if n != 1 {
				t.Errorf("the snapshot has %d rows, want 1", n)
			}
			return err
		})
	}()
	<-held
	s.BoundWAL(2 << 20)
	for i := range int64(3) { // beyond the bound, so that the writer tries to reset
		fillFrom(t, s, 1000*(i+1), 2<<20)
	}
	put(t, s, 1)
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	fillFrom(t, s, 5000, 1<<20)
	if got := s.Stats().WALBytes; got > 2<<20 {
		t.Errorf("after the long read the log still has %d MB", got>>20)
	}
}

func fillFrom(t *testing.T, s *storage.Store, from int64, bytes int) {
	t.Helper()
	value := strings.Repeat("x", 256<<10)
	err := s.Write(context.Background(), "fill", func(tx *storage.Tx) error {
		for i := range int64(bytes / len(value)) {
			if err := tx.Put(-from-i, value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
