package inbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage"
	"hearth/storage/storagetest"
)

// TestConcurrentSyncsLoseNothing lets many writers, failing ones among them,
// race with clients that sync, with a mirror that keeps forgetting, with Check,
// sweeps and housekeeping. Each client must see each writer's messages once and
// in order.
func TestConcurrentSyncsLoseNothing(t *testing.T) {
	t.Parallel()
	const writers, devices = 4, 6
	messages := storagetest.Scale(150)
	w := newWorld(t, Options{SyncBatch: 7, MirrorBytes: 3000})
	w.register("alice", "A")
	var nums []int64
	for i := range devices {
		_, d := w.register(fmt.Sprint("bob", i), "B")
		nums = append(nums, d...)
	}

	var sending, background sync.WaitGroup
	sent := make(chan struct{})
	for k := range writers {
		sending.Go(func() { sendAll(w, k, messages, devices) })
	}
	for _, d := range nums {
		background.Go(func() { syncAll(t, w, d, writers, messages, sent) })
	}
	background.Go(func() {
		for !closed(sent) {
			if err := w.inbox.Check(context.Background()); err != nil {
				t.Errorf("check: %v", err)
				return
			}
			if err := w.inbox.Sweep(context.Background()); err != nil {
				t.Errorf("sweep: %v", err)
				return
			}
		}
	})
	sending.Wait()
	close(sent)
	background.Wait()
	w.must(w.inbox.Check(context.Background()))
}

// sendAll sends numbered messages to all devices, and between them what fails.
func sendAll(w *world, writer, messages, devices int) {
	for n := range messages {
		m := Messages{}
		for i := range devices {
			m[user(fmt.Sprint("bob", i))] = map[string]jsontext.Value{"*": jsontext.Value(fmt.Sprintf(`[%d,%d]`, writer, n))}
		}
		fails := n%3 == 0
		err := w.store.Write(context.Background(), "test", func(tx *storage.Tx) error {
			if err := w.inbox.Enqueue(tx, user("alice"), "m.test", m); err != nil {
				return err
			}
			if fails {
				fails = false
				return errOnPurpose
			}
			return nil
		})
		if err == errOnPurpose {
			w.send(user("alice"), m)
		} else if err != nil {
			w.t.Fatalf("send: %v", err)
		}
	}
}

// syncAll reads a device's inbox to the end, waiting as a long poll does.
func syncAll(t *testing.T, w *world, device int64, writers, messages int, sent <-chan struct{}) {
	sub := w.store.Subscribe(storage.Interest{Device: device})
	defer sub.Close()
	next := make([]int, writers)
	var since int64
	for got := 0; got < writers*messages; {
		if since > 0 {
			w.inbox.Ack(device, since)
		}
		last := closed(sent) // then this read sees everything
		var b Batch
		err := w.store.Read(context.Background(), "test", func(rx *storage.Rx) (err error) {
			b, err = w.inbox.Batch(context.Background(), rx, device, since)
			return err
		})
		if err != nil {
			t.Errorf("batch: %v", err)
			return
		}
		for _, m := range b.Messages {
			var writer, n int
			if _, err := fmt.Sscanf(string(m.Content), "[%d,%d]", &writer, &n); err != nil || n != next[writer] {
				t.Errorf("device %d: got %s, want number %d", device, m.Content, next[writer])
				return
			}
			next[writer]++
			got++
		}
		switch {
		case len(b.Messages) > 0 && rand.IntN(4) == 0:
			got -= len(b.Messages) // the response is lost: the same again
			for _, m := range b.Messages {
				var writer, n int
				_, _ = fmt.Sscanf(string(m.Content), "[%d,%d]", &writer, &n)
				next[writer]--
			}
		case len(b.Messages) > 0:
			since = b.Next
		case last:
			t.Errorf("device %d: got %d messages of %d", device, got, writers*messages)
			return
		default:
			select {
			case <-sub.C():
			case <-sent:
			}
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
