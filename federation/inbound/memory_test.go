package inbound

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
)

// from is a transaction with one EDU of a server's user for bob's device B1.
func from(origin matrix.ServerName, n int) string {
	e := strings.ReplaceAll(direct(fmt.Sprint(n), fmt.Sprintf(`{"n":%d}`, n)), string(peer), string(origin))
	return transaction(origin, e)
}

// fill sends transactions of a server until one is turned away.
func (w *world) fill(origin matrix.ServerName, first, most int) (taken int) {
	w.t.Helper()
	for n := first; n < first+most; n++ {
		if _, err := w.process(origin, fmt.Sprint(n), from(origin, n)); err != nil {
			wantError(w.t, err, http.StatusTooManyRequests, matrix.LimitExceeded)
			return n - first
		}
	}
	return most
}

// remembered is what the store counts for all servers.
func (w *world) remembered(of matrix.ServerName) (m storage.Remembered) {
	w.t.Helper()
	w.must(w.store.Write(w.t.Context(), "test", func(tx *storage.Tx) error {
		num, err := tx.Origin(inbox.GroupOf(of, ours))
		if err == nil {
			m, err = tx.Remembered(num)
		}
		return err
	}))
	return m
}

// TestServerRemembersWithinBounds: a server that sends without end is turned
// away and told when to come back. Nothing of what it sent is forgotten, nobody
// else notices, and once what is old has expired it is heard again.
func TestServerRemembersWithinBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{MaxRememberedPerServer: 10_000})
	taken := w.fill(peer, 0, 1000)
	if m := w.remembered(peer); m.Own > 10_000 || m.Own < 9000 || taken < 10 {
		t.Fatalf("%d transactions make %d bytes, want up to 10000", taken, m.Own)
	}
	w.restart()
	for n := range taken { // the same transactions, and the same EDUs in others
		if _, err := w.process(peer, fmt.Sprint(n), from(peer, n)); err != nil {
			t.Fatalf("transaction %d that was applied: %v", n, err)
		}
		if _, err := w.process(peer, "again", from(peer, n)); err == nil {
			t.Fatal("a transaction was taken beyond the bound")
		}
	}
	if got := len(strings.Fields(w.waiting("B1"))); got != taken {
		t.Fatalf("%d messages, want %d", got, taken)
	}
	if got := w.proc.Counts().Full; got != int64(taken) {
		t.Errorf("counted %d, want %d", got, taken)
	}
	if n := w.fill(third, 0, 5); n != 5 {
		t.Fatalf("another server was turned away after %d", n)
	}
	if n := w.fill("other.peer.example", 0, 5); n != 0 {
		t.Fatal("another name of the same domain has a place of its own")
	}
	w.must(w.store.Write(t.Context(), "test", func(tx *storage.Tx) error {
		_, err := tx.ExpireTransactions(tx.Clock()+time.Hour.Milliseconds(), 1000)
		return err
	}))
	if n := w.fill(peer, taken, 5); n == 0 {
		t.Fatal("still turned away, though records have expired")
	}
}

// TestManyNamesRemember: ten thousand names fill what is free for all, and no
// more than that; whom this server has known longer keeps a place.
func TestManyNamesRemember(t *testing.T) {
	t.Parallel()
	const most = 200_000
	w := newWorld(t, Options{MaxRemembered: most})
	if w.fill(peer, 0, 3) != 3 || w.fill(third, 0, 3) != 3 {
		t.Fatal("turned away at once")
	}
	refused := 0
	for i := range 1000 {
		name := matrix.ServerName(fmt.Sprintf("made-up-%d.test", i))
		for n := w.fill(name, 0, 3); n < 3; n = 3 {
			refused++
		}
	}
	if refused < 500 {
		t.Fatalf("of 1000 names %d were turned away: this proves nothing", refused)
	}
	if m := w.remembered(peer); m.All > most {
		t.Fatalf("%d bytes are remembered, want at most %d", m.All, most)
	}
	if n := w.fill(peer, 3, 20); n != 20 {
		t.Errorf("the server known longest was turned away after %d", n)
	}
	if n := w.fill(third, 3, 10); n != 10 {
		t.Errorf("the second server was turned away after %d", n)
	}
	if m := w.remembered(peer); m.All > most {
		t.Fatalf("%d bytes are remembered, want at most %d", m.All, most)
	}
}

// TestRoomIsNeverExceeded: whatever each of thousands of servers takes of what
// it may have, the whole stays below the bound.
func TestRoomIsNeverExceeded(t *testing.T) {
	t.Parallel()
	const most, size = 64 << 20, 8 << 10
	w := newWorld(t, Options{MaxRemembered: most})
	hash, names := [32]byte{}, 0
	w.must(w.store.Write(t.Context(), "test", func(tx *storage.Tx) error {
		for ; names < 2000; names++ {
			one := work{origin: matrix.ServerName(fmt.Sprintf("made-up-%d.test", names)), response: make([]byte, size)}
			for {
				origin, err := w.proc.admit(tx, &one, nil)
				var full *fullError
				if errors.As(err, &full) {
					break
				}
				if err != nil {
					return err
				}
				binary.BigEndian.PutUint64(hash[:], binary.BigEndian.Uint64(hash[:])+1)
				if err := tx.RecordReceived(hash, origin, storage.TransactionCost(one.response)); err != nil {
					return err
				}
			}
		}
		return nil
	}))
	if m := w.remembered("made-up-0.test"); m.All > most || m.All < most/2 || m.Own < most/20 {
		t.Fatalf("%d of %d bytes are remembered, %d of the first", m.All, most, m.Own)
	}
}

// TestRememberedIsCounted: the count is what the rows make, and ends with them.
func TestRememberedIsCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.deliver("t1", direct("1", `{}`), direct("2", `{}`))
	w.deliver("t2", direct("1", `{}`)) // its EDU is known
	sender := storage.ReceivedCost("@alice:" + string(peer))
	want := 2*sender + 2*storage.TransactionCost([]byte(empty))
	if m := w.remembered(peer); m.Own != want || m.All != want {
		t.Fatalf("got %+v, want %d", m, want)
	}
	w.must(w.store.Write(t.Context(), "test", func(tx *storage.Tx) error {
		later := tx.Clock() + 1
		if _, err := tx.ExpireReceived(later, 10); err != nil {
			return err
		}
		_, err := tx.ExpireTransactions(later, 10)
		return err
	}))
	if m := w.remembered(peer); m != (storage.Remembered{}) {
		t.Fatalf("got %+v, want nothing", m)
	}
}
