package inbox

import (
	"context"
	"slices"
	"testing"

	"hearth/storage"
)

// inSnapshot opens a snapshot, lets between commit what it likes, and then asks
// for a batch in the snapshot.
func (w *world) inSnapshot(device int64, between func()) (b Batch) {
	w.t.Helper()
	w.must(w.store.Read(context.Background(), "test", func(rx *storage.Rx) (err error) {
		done := make(chan struct{})
		go func() { // a unit may not run inside a snapshot
			defer close(done)
			between()
		}()
		<-done
		b, err = w.inbox.Batch(context.Background(), rx, device, 0)
		return err
	}))
	return b
}

// TestLoadingRacesWithCommits puts commits at each point between a snapshot and
// the loading of the mirror from it.
func TestLoadingRacesWithCommits(t *testing.T) {
	t.Parallel()
	alice := user("alice")
	for name, race := range map[string]struct {
		before, between func(w *world, device int64)
		inSnapshot      []string // what the snapshot shows
	}{
		"a commit that nobody kept": {
			between:    func(w *world, _ int64) { w.send(alice, to("bob", "B", `2`)) },
			inSnapshot: []string{`1`},
		},
		"a commit kept, and in the snapshot": {
			before: func(w *world, device int64) {
				w.inbox.mirror.ack(device, 0)
				w.send(alice, to("bob", "B", `2`))
			},
			between:    func(*world, int64) {},
			inSnapshot: []string{`1`, `2`},
		},
		"a commit kept, and behind the snapshot": {
			before:     func(w *world, device int64) { w.inbox.mirror.ack(device, 0) },
			between:    func(w *world, _ int64) { w.send(alice, to("bob", "B", `2`)) },
			inSnapshot: []string{`1`},
		},
		"more commits than are kept": {
			before: func(w *world, device int64) { w.inbox.mirror.ack(device, 0) },
			between: func(w *world, _ int64) {
				for range maxKept + 10 {
					w.send(alice, to("bob", "B", `2`))
				}
			},
			inSnapshot: []string{`1`},
		},
		"a deletion that nobody kept": {
			between: func(w *world, device int64) {
				w.write(func(tx *storage.Tx) error { _, err := w.inbox.deleteUpTo(tx, device, 1<<40); return err })
				w.send(alice, to("bob", "B", `2`))
			},
			inSnapshot: []string{`1`},
		},
		"a deletion kept": {
			before: func(w *world, device int64) { w.inbox.mirror.ack(device, 0) },
			between: func(w *world, device int64) {
				w.write(func(tx *storage.Tx) error { _, err := w.inbox.deleteUpTo(tx, device, 1<<40); return err })
				w.send(alice, to("bob", "B", `2`))
			},
			inSnapshot: []string{`1`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Options{})
			w.register("alice")
			_, bob := w.register("bob", "B")
			w.send(alice, to("bob", "B", `1`))
			if race.before != nil {
				race.before(w, bob[0])
			}
			b := w.inSnapshot(bob[0], func() { race.between(w, bob[0]) })
			if !slices.Equal(contents(b.Messages), race.inSnapshot) {
				t.Errorf("in the snapshot: got %v, want %v", contents(b.Messages), race.inSnapshot)
			}
			w.must(w.inbox.Check(t.Context()))
			for range 2 { // loaded now, if it was not before
				w.send(alice, to("bob", "B", `3`))
				w.must(w.inbox.Check(t.Context()))
				list, _ := w.all(bob[0], 0)
				if got, want := int64(len(list)), w.totals(bob[0]).Messages; got != want {
					t.Errorf("got %d messages, the table has %d", got, want)
				}
			}
			if e := w.inbox.mirror.entries[bob[0]]; e == nil || !e.loaded {
				t.Error("the mirror did not load")
			}
		})
	}
}
