package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hearth/storage"
	"hearth/storage/matrix"
)

func (w *world) totals(device int64) (totals storage.InboxTotals) {
	w.t.Helper()
	w.must(w.store.Read(context.Background(), "test", func(rx *storage.Rx) (err error) {
		totals, err = rx.InboxTotals(device)
		return err
	}))
	return totals
}

func TestLimitsAreExact(t *testing.T) {
	t.Parallel()
	const size = int64(len(`{"content":{"n":1},"sender":"@alice:hearth.test","type":"m.test"},`))
	for name, opt := range map[string]Options{"messages": {MaxMessages: 10}, "bytes": {MaxBytes: 10 * size}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, opt)
			w.register("alice")
			_, bob := w.register("bob", "B")
			for range 10 {
				w.send(user("alice"), to("bob", "B", `{"n":1}`))
			}
			if got := w.totals(bob[0]); got.Messages != 10 || got.Bytes != 10*size || got.Evicted != 0 {
				t.Fatalf("at the limit: got %+v, want 10 messages of %d bytes", got, size)
			}
			w.send(user("alice"), to("bob", "B", `{"n":2}`))
			if got := w.totals(bob[0]); got.Messages != 9 || got.Evicted != 2 {
				t.Errorf("beyond the limit: got %+v, want 9 messages, 2 evicted", got)
			}
			list, _ := w.all(bob[0], 0)
			if string(list[len(list)-1].Content) != `{"n":2}` {
				t.Error("the message that needed room is not there")
			}
			w.must(w.inbox.Check(t.Context()))
		})
	}
}

func TestWhatFitsNoInboxIsTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{MaxBytes: 1000})
	_, bob := w.register("bob", "B")
	err := w.store.Write(t.Context(), "test", func(tx *storage.Tx) error {
		return w.inbox.Enqueue(tx, user("bob"), "m.test", to("bob", "*", `"`+strings.Repeat("x", 1000)+`"`))
	})
	var m *matrix.Error
	if !errors.As(err, &m) || m.Code != matrix.TooLarge {
		t.Errorf("got %v, want M_TOO_LARGE", err)
	}
	if got := w.totals(bob[0]); got.Messages != 0 {
		t.Errorf("got %+v, want nothing", got)
	}
}

func TestAcknowledgedRowsDoNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{MaxMessages: 10})
	w.register("alice")
	_, bob := w.register("bob", "B")
	for round := range 3 {
		for range 10 {
			w.write(func(tx *storage.Tx) error { // one unit, so that housekeeping cannot come first
				w.inbox.mirror.mu.Lock()
				w.inbox.mirror.asked = 1 // as if it were under way
				w.inbox.mirror.mu.Unlock()
				return w.inbox.Enqueue(tx, user("alice"), "m.test", to("bob", "B", `{"n":1}`))
			})
		}
		got, next := w.all(bob[0], 0)
		if len(got) != 10 || w.inbox.Stats().Evicted != 0 {
			t.Fatalf("round %d: got %d messages, %d evicted", round, len(got), w.inbox.Stats().Evicted)
		}
		w.inbox.Ack(bob[0], next)
	}
	w.must(w.inbox.Check(t.Context()))
}

func TestAcknowledgementsReachNothingThatIsToCome(t *testing.T) {
	t.Parallel()
	for _, touch := range []bool{false, true} {
		w := newWorld(t, Options{})
		w.register("alice")
		_, bob := w.register("bob", "B")
		if touch {
			w.send(user("alice"), to("bob", "B", `{"n":0}`))
			w.batch(bob[0], 0)
		}
		w.inbox.Ack(bob[0], 1<<40)
		w.inbox.Ack(bob[0], -1)
		w.send(user("alice"), to("bob", "B", `{"n":1}`))
		if got, _ := w.all(bob[0], 0); !slices.Equal(contents(got), []string{`{"n":1}`}) {
			t.Errorf("touched %v: got %v, want the message sent afterwards", touch, contents(got))
		}
		w.must(w.inbox.Check(t.Context()))
	}
}

func TestAcknowledgedRowsAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.register("alice")
	_, bob := w.register("bob", "B")
	w.send(user("alice"), to("bob", "B", `{"n":1}`))
	_, next := w.all(bob[0], 0)
	w.inbox.Ack(bob[0], next)
	w.send(user("alice"), to("bob", "B", `{"n":2}`)) // housekeeping rides along
	w.must(w.inbox.Sweep(t.Context()))
	if got := w.totals(bob[0]); got.Messages != 1 || w.inbox.Stats().Unflushed != 0 {
		t.Errorf("got %+v, %+v; want one row and nothing to delete", got, w.inbox.Stats())
	}
}

// aged is a world whose clock can be set while it is closed: the age clock
// trusts seven days of that.
func aged(t *testing.T, opt Options) (w *world, sleep func(time.Duration)) {
	clock := time.UnixMilli(1_800_000_000_000)
	w = &world{t: t, dir: fastDir(t), opt: opt, now: func() time.Time { return clock }}
	w.open()
	t.Cleanup(func() { w.close() })
	return w, func(d time.Duration) {
		w.close()
		clock = clock.Add(d)
		w.open()
	}
}

const days = 24 * time.Hour

func TestMessagesExpireOnTheAgeClock(t *testing.T) {
	t.Parallel()
	w, sleep := aged(t, Options{TTL: 10 * days})
	w.register("alice")
	_, bob := w.register("bob", "B")
	w.send(user("alice"), to("bob", "B", `{"n":1}`))
	sleep(6 * days)
	w.send(user("alice"), to("bob", "B", `{"n":2}`))
	sleep(1000 * days) // of which seven count
	w.batch(bob[0], 0) // the mirror must follow
	w.must(w.inbox.Sweep(t.Context()))
	if got, _ := w.all(bob[0], 0); !slices.Equal(contents(got), []string{`{"n":2}`}) {
		t.Errorf("got %v, want the younger message", contents(got))
	}
	sleep(-3000 * days)
	w.must(w.inbox.Sweep(t.Context()))
	if got, _ := w.all(bob[0], 0); len(got) != 1 {
		t.Errorf("after a clock set back: got %v, want the younger message", contents(got))
	}
	w.must(w.inbox.Check(t.Context()))
}

func TestAWrongWallClockExpiresNothing(t *testing.T) {
	t.Parallel()
	w, sleep := aged(t, Options{TTL: 10 * days})
	w.register("alice")
	_, bob := w.register("bob", "B")
	sleep(-20_000 * days) // 1970
	w.send(user("alice"), to("bob", "B", `{"n":1}`))
	sleep(20_000 * days) // of which seven count
	w.must(w.inbox.Sweep(t.Context()))
	if got, _ := w.all(bob[0], 0); len(got) != 1 {
		t.Errorf("after the clock was set: got %v, want the message", contents(got))
	}
	sleep(7 * days)
	w.must(w.inbox.Sweep(t.Context()))
	if got, _ := w.all(bob[0], 0); len(got) != 0 {
		t.Errorf("after its time: got %v, want nothing", contents(got))
	}
}

func TestFullestInboxes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{MaxMessages: 5})
	w.register("alice")
	w.register("bob", "B1", "B2")
	for range 8 {
		w.send(user("alice"), to("bob", "B2", `{"n":1}`))
	}
	w.send(user("alice"), to("bob", "*", `{"n":1}`))
	w.must(w.store.Read(t.Context(), "test", func(rx *storage.Rx) error {
		list, err := rx.FullestInboxes(10)
		if err != nil {
			return err
		}
		if len(list) != 2 || list[0].ID != "B2" || list[0].User != user("bob") || list[0].Messages+list[0].Evicted != 9 ||
			list[0].Evicted == 0 || list[1].ID != "B1" || list[1].Messages != 1 || list[1].Evicted != 0 {
			t.Errorf("got %+v", list)
		}
		return nil
	}))
}

func TestSendersAreForgottenOnceNothingOfThemWaits(t *testing.T) {
	t.Parallel()
	w, sleep := aged(t, Options{})
	_, bob := w.register("bob", "B")
	from := func(i int) matrix.UserID { return matrix.UserID(fmt.Sprintf("@u:s%d.org", i)) }
	known := func() (n int) {
		w.must(w.store.Read(t.Context(), "test", func(rx *storage.Rx) error {
			for i := range 3 {
				if _, err := rx.SenderNum(from(i)); err == nil {
					n |= 1 << i
				} else if !errors.Is(err, storage.ErrNotFound) {
					return err
				}
			}
			return nil
		}))
		return n
	}
	w.send(from(0), to("bob", "B", `{"n":0}`))
	w.send(from(1), to("bob", "B", `{"n":1}`))
	_, next := w.all(bob[0], 0)
	w.inbox.Ack(bob[0], next)
	w.send(from(2), to("bob", "B", `{"n":2}`))
	for range 5 {
		w.must(w.inbox.Sweep(t.Context()))
		if got := known(); got != 0b111 {
			t.Fatalf("too early: senders %b remain", got)
		}
		sleep(7 * days)
		w.write(func(tx *storage.Tx) error { _, _, err := tx.Sender(from(1), "s1.org"); return err })
	}
	w.must(w.inbox.Sweep(t.Context()))
	if got := known(); got != 0b110 { // one that was used, one of whom a message waits
		t.Errorf("senders %b remain, want 110", got)
	}
}

func TestReceivedEDUsAreRememberedFor30Days(t *testing.T) {
	t.Parallel()
	w, sleep := aged(t, Options{})
	_, bob := w.register("bob", "B")
	edu := DirectToDevice{Sender: "@a:one.test", Type: "m.test", MessageID: "m1", Messages: to("bob", "*", `{"a":1, "b":2}`)}
	receive := func(edu DirectToDevice) int {
		w.write(func(tx *storage.Tx) error { return w.inbox.Receive(tx, edu.Sender.Server(), edu) })
		w.must(w.inbox.Sweep(t.Context()))
		list, _ := w.all(bob[0], 0)
		return len(list)
	}
	receive(edu)
	same := edu
	same.Messages = to("bob", "*", `{"b":2,"a":1}`)
	for range 4 {
		if got := receive(same); got != 1 {
			t.Fatalf("repeated: got %d messages, want 1", got)
		}
		sleep(7 * days)
	}
	other := edu
	other.Messages = to("bob", "*", `{"a":1,"b":9007199254740993}`)
	another := edu
	another.Messages = to("bob", "*", `{"a":1,"b":9007199254740992}`)
	receive(other)
	if got := receive(another); got != 3 {
		t.Errorf("other contents: got %d messages, want 3", got)
	}
	sleep(3 * days)
	w.must(w.inbox.Sweep(t.Context()))
	if got := receive(edu); got != 4 {
		t.Errorf("after 31 days: got %d messages, want 4", got)
	}
}

func TestTransactionsAreKeptFor14Days(t *testing.T) {
	t.Parallel()
	w, sleep := aged(t, Options{})
	scope := storage.TransactionScope{Principal: "x"}
	w.write(func(tx *storage.Tx) error { return tx.RecordTransaction(scope, []byte(`{}`)) })
	kept := func() bool {
		w.must(w.inbox.Sweep(t.Context()))
		err := w.store.Read(t.Context(), "test", func(rx *storage.Rx) error {
			_, err := rx.FindTransaction(scope)
			return err
		})
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	sleep(1000 * days) // of which seven count
	sleep(6 * days)
	if !kept() {
		t.Error("forgotten after 13 days")
	}
	sleep(2 * days)
	if kept() {
		t.Error("still there after 15 days")
	}
}
