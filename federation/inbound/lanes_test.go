package inbound

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"hearth/storage/matrix"
)

// TestLane: turns of one server follow one another in the order of arrival,
// with a bound on how many wait and how long; other servers have their own.
func TestLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(Options{Waiting: 2, Patience: time.Minute})
		enter := func(origin matrix.ServerName) func() {
			leave, err := l.enter(t.Context(), origin)
			if err != nil {
				t.Error(err)
			}
			return leave
		}
		leave := enter(peer)
		var order []int
		for i := range 2 {
			go func() {
				leave := enter(peer)
				order = append(order, i)
				leave()
			}()
			synctest.Wait()
		}
		_, err := l.enter(t.Context(), peer)
		wantError(t, err, 429, matrix.LimitExceeded)
		enter(third)()
		leave()
		synctest.Wait()
		if len(order) != 2 || order[0] != 0 {
			t.Errorf("turns were in the order %v", order)
		}
		if len(l.open) != 0 {
			t.Errorf("%d lanes are left", len(l.open))
		}
	})
}

// TestLaneGivesUp: who waits for too long, or whose caller has gone, leaves the
// lane.
func TestLaneGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(Options{Waiting: 1, Patience: time.Minute})
		leave, err := l.enter(t.Context(), peer)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = l.enter(t.Context(), peer)
		wantError(t, err, 429, matrix.LimitExceeded)
		if d := time.Since(began); d != time.Minute {
			t.Errorf("gave up after %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.enter(ctx, peer); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the caller has gone", err)
		}
		leave()
		if len(l.open) != 0 {
			t.Errorf("%d lanes are left", len(l.open))
		}
	})
}
