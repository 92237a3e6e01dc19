package acceptance

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"hearth/server/testserver"
)

// pump makes servers that failed be tried again at once, as they would be after
// seconds, until the test ends or stop is called.
func pump(t *testing.T, from *testserver.Server, to ...*testserver.Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	queue := from.Outbox()
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for _, hs := range to {
				list, err := queue.Queues(ctx, hs.Name())
				if err == nil && len(list) == 1 && list[0].Failures > 0 {
					_, err = queue.Retry(ctx, hs.Name())
				}
				if err != nil && ctx.Err() == nil {
					t.Errorf("retry %s: %v", hs.Name(), err)
				}
			}
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// receive polls until n messages have come.
func receive(t *testing.T, c *testserver.Client, n int) []testserver.Event {
	t.Helper()
	var all []testserver.Event
	if c.Since() == "" { // a first sync does not wait
		all = c.Sync().ToDevice.Events
	}
	for len(all) < n {
		s := c.Poll()
		if len(s.ToDevice.Events) == 0 {
			t.Fatalf("%s got %d messages, want %d, and nothing comes", c.UserID, len(all), n)
		}
		all = append(all, s.ToDevice.Events...)
	}
	return all
}

// wantNumbers polls until messages 0 to n-1 have come, each once and in order,
// and no other.
func wantNumbers(t *testing.T, c *testserver.Client, n int) {
	t.Helper()
	all := append(receive(t, c, n), c.Drain()...)
	for i, e := range all {
		if i >= n || string(e.Content) != number(i) {
			t.Fatalf("message %d of %d at %s is %s, want %d messages in order", i, len(all), c.UserID, e.Content, n)
		}
	}
}

// emptied waits until nothing more is queued for anybody.
func emptied(t *testing.T, hs *testserver.Server) {
	t.Helper()
	for len(queued(t, hs)) > 0 {
		select {
		case <-t.Context().Done():
			t.Fatal("the queues are not empty")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// numbers sends messages from to below to one device.
func numbers(from *testserver.Client, to *testserver.Client, first, end int) {
	for i := first; i < end; i++ {
		from.SendToDevices("m.test", fmt.Sprint(i), testserver.Messages{to.UserID: {string(to.DeviceID): number(i)}})
	}
}
