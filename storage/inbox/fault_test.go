package inbox

import (
	"slices"
	"testing"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// TestAFailedCommitChangesNothing lets the disk fail at the COMMIT of sends
// that evict, of acknowledgements and of deletions. Mirror and table must stay
// as they were, and the same request then works.
func TestAFailedCommitChangesNothing(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	const server = matrix.ServerName(storagetest.ServerName)
	alice, bob := matrix.NewUserID("alice", server), matrix.NewUserID("bob", server)
	w := &world{t: t, store: s, inbox: New(s, Options{MaxMessages: 4}, nil)}
	_, devices := w.register("bob", "B")
	w.register("alice", "A")
	message := func(content string) Messages { return Messages{bob: {"*": []byte(content)}} }
	w.batch(devices[0], 0) // so that the mirror holds what follows
	for _, content := range []string{`1`, `2`, `3`, `4`} {
		w.send(alice, message(content))
	}
	before := w.batch(devices[0], 0)
	totals := w.totals(devices[0])

	for name, unit := range map[string]func(*storage.Tx) error{
		"send":   func(tx *storage.Tx) error { return w.inbox.Enqueue(tx, alice, "m.test", message(`5`)) },
		"delete": func(tx *storage.Tx) error { w.inbox.Drop(tx, devices[0]); return tx.DeleteDevice(devices[0]) },
		"clean":  func(tx *storage.Tx) error { _, err := w.inbox.deleteUpTo(tx, devices[0], before.Next); return err },
	} {
		storagetest.FailCommit(t, s)
		if err := s.Write(t.Context(), "test", unit); err == nil {
			t.Fatalf("%s: the COMMIT did not fail", name)
		}
		if after := w.batch(devices[0], 0); !slices.Equal(contents(after.Messages), contents(before.Messages)) {
			t.Errorf("%s: got %v, want %v", name, contents(after.Messages), contents(before.Messages))
		}
		if got := w.totals(devices[0]); got != totals {
			t.Errorf("%s: totals are %+v, want %+v", name, got, totals)
		}
		w.must(w.inbox.Check(t.Context()))
	}
	if got := w.inbox.Stats().Evicted; got != 0 {
		t.Errorf("%d evictions were counted that did not happen", got)
	}
	w.send(alice, message(`5`))
	got, _ := w.all(devices[0], 0)
	if want := []string{`3`, `4`, `5`}; !slices.Equal(contents(got), want) {
		t.Errorf("afterwards: got %v, want %v", contents(got), want)
	}
	w.must(w.inbox.Check(t.Context()))
}
