package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage"
	"hearth/storage/matrix"
)

const there = matrix.ServerName("there.test")

type world struct {
	testing.TB
	dir   string
	opt   Options
	store *storage.Store
	queue *Queue
	clock time.Time
}

func newWorld(t testing.TB, opt Options, locals ...string) *world {
	w := &world{TB: t, dir: t.TempDir(), opt: opt, clock: time.UnixMilli(1_800_000_000_000)}
	w.open()
	t.Cleanup(func() { w.must(w.store.Close()) })
	w.must(w.write(func(tx *storage.Tx) error {
		for _, l := range locals {
			if _, err := tx.AddUser(storage.User{Localpart: l}); err != nil {
				return err
			}
		}
		return nil
	}))
	return w
}

func (w *world) open() {
	w.Helper()
	s, err := storage.Open(context.Background(), storage.Options{
		Dir: w.dir, ServerName: "here.test", Now: func() time.Time { return w.clock },
	})
	w.must(err)
	w.store, w.queue = s, New(s, nil, w.opt, nil)
}

// sleep lets time pass while the server is off: the age clock trusts seven days of it.
func (w *world) sleep(d time.Duration) {
	w.Helper()
	w.must(w.store.Close())
	w.clock = w.clock.Add(d)
	w.open()
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(fn func(*storage.Tx) error) error {
	return w.store.Write(context.Background(), "test", fn)
}

func (w *world) push(from string, m Messages) error {
	return w.write(func(tx *storage.Tx) error {
		return w.queue.PushToDevice(tx, matrix.UserID("@"+from+":here.test"), "m.test", m)
	})
}

func (w *world) rows(server matrix.ServerName) (list []storage.OutboxRow) {
	w.Helper()
	w.must(w.store.Read(context.Background(), "test", func(rx *storage.Rx) (err error) {
		if list, err = rx.OutboxRows(server, 0, 1000); errors.Is(err, storage.ErrNotFound) {
			err = nil
		}
		return err
	}))
	return list
}

func (w *world) total() (items, bytes int64) {
	w.Helper()
	w.must(w.store.Read(context.Background(), "test", func(rx *storage.Rx) (err error) {
		items, bytes, err = rx.OutboxTotal()
		return err
	}))
	return items, bytes
}

func message(server matrix.ServerName, n int) Messages {
	content := jsontext.Value(`{"x":"` + strings.Repeat("y", n) + `"}`)
	return Messages{server: {matrix.NewUserID("bob", server): {"*": content}}}
}

func TestOneEDUPerDestinationAndRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{Enabled: true}, "alice", "carol")
	two := Messages{
		there: {
			"@bob:there.test":  {"A": jsontext.Value(`{"n":1}`), "B": jsontext.Value(`{"n":2}`)},
			"@dave:there.test": {"*": jsontext.Value(`{"n":3}`)},
		},
		"other.test": {"@eve:other.test": {"*": jsontext.Value(`{"n":4}`)}},
	}
	w.must(w.push("alice", two))
	w.must(w.push("carol", two))
	rows := w.rows(there)
	if len(rows) != 2 || len(w.rows("other.test")) != 2 {
		t.Fatalf("got %d and %d rows, want 2 and 2", len(rows), len(w.rows("other.test")))
	}
	first, second := decode(t, rows[0].EDU), decode(t, rows[1].EDU)
	if first.Content.MessageID == second.Content.MessageID {
		t.Error("two EDUs share a message ID")
	}
	if first.Content.Sender != "@alice:here.test" || second.Content.Sender != "@carol:here.test" {
		t.Errorf("order: got %s, %s", first.Content.Sender, second.Content.Sender)
	}
	if len(first.Content.Messages) != 2 || len(first.Content.Messages["@bob:there.test"]) != 2 {
		t.Errorf("got %v, want three messages in one EDU", first.Content.Messages)
	}
}

func TestDisabledDiscards(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{}, "alice")
	w.must(w.queue.CheckToDevice("@alice:here.test", "m.test", message(there, MaxEDU)))
	w.must(w.push("alice", message(there, MaxEDU)))
	if items, _ := w.total(); items != 0 {
		t.Errorf("got %d items, want none", items)
	}
}

func TestTooLargeStoresNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{Enabled: true}, "alice")
	m := message(there, MaxEDU)
	m["a.test"] = message("a.test", 1)["a.test"]
	for _, err := range []error{w.queue.CheckToDevice("@alice:here.test", "m.test", m), w.push("alice", m)} {
		var e *matrix.Error
		if !errors.As(err, &e) || e.Code != matrix.TooLarge {
			t.Errorf("got %v, want M_TOO_LARGE", err)
		}
	}
	if items, bytes := w.total(); items != 0 || bytes != 0 {
		t.Errorf("got %d items, %d bytes, want none", items, bytes)
	}
}

func TestLoudSendersLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	const limit = 16 << 20
	locals := []string{"quiet"}
	for i := range 20 {
		locals = append(locals, fmt.Sprint("loud", i))
	}
	w := newWorld(t, Options{Enabled: true, MaxBytesPerDestination: limit}, locals...)
	for _, loud := range locals[1:] {
		for size := 60_000; size > 100; size /= 4 {
			n, err := 0, error(nil)
			for ; err == nil && n < 1000; n++ {
				err = w.push(loud, message(there, size))
			}
			if !errors.Is(err, ErrFull) {
				t.Fatalf("%s: %d messages, %v; want ErrFull", loud, n, err)
			}
		}
	}
	for range 10 {
		w.must(w.push("quiet", message(there, 1000)))
	}
	w.must(w.push("loud0", message("other.test", 1000)))
	_, bytes := w.total()
	t.Logf("%d of %d bytes are queued", bytes, limit)
	if bytes < limit/2 || bytes > limit {
		t.Errorf("%d of %d bytes are queued", bytes, limit)
	}
}

func TestAllQueuesTogetherAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{Enabled: true, MaxBytes: 10_000_000}, "loud", "quiet")
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		err = w.push("loud", message(matrix.ServerName(fmt.Sprintf("s%d.test", i)), 10_000))
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	w.must(w.push("quiet", message(there, 1000)))
}

func TestSweepGivesUpOldItemsAndCountsRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{Enabled: true, TTL: time.Hour}, "alice")
	for range 3 {
		w.must(w.push("alice", message(there, 10)))
	}
	w.sleep(50 * time.Minute)
	w.must(w.push("alice", message(there, 10)))
	w.must(w.queue.Sweep(context.Background()))
	if items, _ := w.total(); items != 4 {
		t.Fatalf("before its time: got %d items, want 4", items)
	}
	w.sleep(20 * time.Minute)
	w.must(w.queue.Sweep(context.Background()))
	rows := w.rows(there)
	if len(rows) != 1 {
		t.Fatalf("got %d rows, want 1", len(rows))
	}
	want := int64(len(rows[0].EDU) + storage.OutboxOverhead)
	if items, bytes := w.total(); items != 1 || bytes != want {
		t.Errorf("got %d items of %d bytes, want 1 of %d", items, bytes, want)
	}
	// It failed to the end, in the middle of a transaction, and nobody tries it any more.
	w.must(w.write(func(tx *storage.Tx) error {
		dest, _, err := tx.Destination(there)
		if err == nil {
			err = tx.BeginBatch(dest, rows[0].Pos)
		}
		if err == nil {
			err = tx.DestinationFailed(dest, w.clock.Add(time.Hour).UnixMilli(), "down")
		}
		return err
	}))
	w.sleep(48 * time.Hour)
	w.must(w.queue.Sweep(context.Background()))
	w.must(w.store.Read(context.Background(), "test", func(rx *storage.Rx) error {
		queues, err := rx.OutboxQueues("", 10)
		if err == nil && len(queues) != 0 {
			t.Errorf("got %v, want no destination left", queues)
		}
		return err
	}))
}
