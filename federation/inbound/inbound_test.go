package inbound

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
	"hearth/storage/storagetest/faultvfs"
)

// TestReplayedTransaction: the same ID is answered from the record and changes
// nothing, whatever the body, after a restart too; of another origin it is
// another transaction.
func TestReplayedTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	event := fmt.Sprintf(`{"origin":%q,"pdus":[{"event_id":"$a:peer.example"}],"edus":[%s]}`, peer, direct("1", `{"n":1}`))
	first, err := w.process(peer, "t1", event)
	w.must(err)
	for range 2 {
		again, err := w.process(peer, "t1", transaction(peer, direct("2", `{"n":2}`)))
		w.must(err)
		if again != first || first == empty {
			t.Errorf("replayed: got %s, want %s", again, first)
		}
		w.restart()
	}
	w.wantWaiting("B1", `{"n":1}`)
	other := strings.ReplaceAll(transaction(third, direct("1", `{"n":3}`)), "@alice:peer.example", "@alice:third.example")
	if _, err := w.process(third, "t1", other); err != nil {
		t.Fatal(err)
	}
	w.wantWaiting("B1", `{"n":1} {"n":3}`)
}

// TestRepeatedEDU: the same EDU in another transaction is applied once, after a
// restart too. Another content, message ID or sender makes another EDU.
func TestRepeatedEDU(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.deliver("t1", direct("1", `{"n":1}`))
	w.restart()
	w.deliver("t2", direct("1", ` { "n" : 1 } `), direct("1", `{"n":2}`), direct("2", `{"n":1}`))
	w.deliver("t3", strings.ReplaceAll(direct("1", `{"n":1}`), "@alice", "@carol"), direct("1", `{"n":1}`))
	w.wantWaiting("B1", `{"n":1} {"n":2} {"n":1} {"n":1}`)
	if got := w.inbox.Stats().Repeated; got != 2 {
		t.Errorf("%d repeated, want 2", got)
	}
}

// TestFailedWrite: a transaction that the disk refuses is not answered, leaves
// nothing, and delivers once when it is sent again.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*world){
		"commit": func(w *world) { storagetest.FailCommit(w.t, w.store) },
		"full": func(w *world) {
			storagetest.Disk(w.t, w.store).FailNext(func(c faultvfs.Call) bool { return c.Op == faultvfs.Write && c.WAL() }, 0, 1, faultvfs.Full)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Options{})
			body := transaction(peer, direct("1", `{"n":1}`), direct("2", `{"n":2}`))
			fail(w)
			_, err := w.process(peer, "t1", body)
			var told *matrix.Error
			if err == nil || errors.As(err, &told) {
				t.Fatalf("got %v, want an error of our own", err)
			}
			w.wantWaiting("B1", ``)
			if c := w.proc.Counts(); c != (Counts{}) {
				t.Errorf("counted what was not done: %+v", c)
			}
			w.deliver("t1", direct("1", `{"n":1}`), direct("2", `{"n":2}`))
			w.restart()
			w.deliver("t1", direct("1", `{"n":1}`), direct("2", `{"n":2}`))
			w.wantWaiting("B1", `{"n":1} {"n":2}`)
		})
	}
}

// TestLargeTransaction: what is too much for one unit is applied in several;
// after a failure between them the rest follows, in order and once.
func TestLargeTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	const n, size = 90, 60_000
	edus := make([]string, n)
	for i := range edus {
		edus[i] = direct(fmt.Sprint(i), fmt.Sprintf(`{"n":%d,"x":%q}`, i, strings.Repeat("x", size)))
	}
	before := w.store.Stats().Units
	commits := storagetest.Disk(t, w.store).FailNext(func(c faultvfs.Call) bool { return c.Op == faultvfs.Sync && c.WAL() }, 1, 1, faultvfs.SyncError)
	if _, err := w.process(peer, "t1", transaction(peer, edus...)); err == nil || commits() != 1 {
		t.Fatalf("the second unit did not fail: %v", err)
	}
	got := strings.Count(w.waiting("B1"), `"n"`)
	if got == 0 || got == n {
		t.Fatalf("%d messages of %d are there: the transaction was not parted", got, n)
	}
	w.deliver("t1", edus...)
	if units := w.store.Stats().Units - before; units > 15 {
		t.Errorf("%d units for %d bytes", units, n*size)
	}
	all := strings.Fields(w.waiting("B1"))
	if len(all) != n {
		t.Fatalf("%d messages, want %d", len(all), n)
	}
	for i, m := range all {
		if !strings.HasPrefix(m, fmt.Sprintf(`{"n":%d,`, i)) {
			t.Fatalf("message %d is %.20s", i, m)
		}
	}
}

// TestRefusedByInbox: a message that no inbox can hold is dropped, the others
// of its transaction arrive.
func TestRefusedByInbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.inbox = inbox.New(w.store, inbox.Options{MaxBytes: 500}, nil)
	w.proc = New(w.store, w.inbox, Options{}, nil)
	w.deliver("t1", direct("1", `{"n":1}`), direct("2", `{"x":"`+strings.Repeat("x", 500)+`"}`), direct("3", `{"n":3}`))
	w.wantWaiting("B1", `{"n":1} {"n":3}`)
	if got := w.proc.Counts().Dropped; got != 1 {
		t.Errorf("%d dropped, want 1", got)
	}
}

// TestFlood: while one server floods, its surplus is turned away at once and
// another server's transaction is applied with the next COMMIT.
func TestFlood(t *testing.T) {
	t.Parallel()
	const waiting, flood = 3, 40
	w := newWorld(t, Options{Waiting: waiting})
	inSync, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	storagetest.Disk(t, w.store).OnCall(func(c faultvfs.Call) faultvfs.Code {
		if c.Op == faultvfs.Sync && c.WAL() {
			once.Do(func() { close(inSync); <-release })
		}
		return 0
	})
	results := make(chan error, flood)
	for i := range flood {
		go func() {
			_, err := w.process(peer, fmt.Sprint("t", i), transaction(peer, direct(fmt.Sprint(i), `{"n":"flood"}`)))
			results <- err
		}()
	}
	<-inSync // the first is at its COMMIT
	for range flood - waiting - 1 {
		wantError(t, <-results, http.StatusTooManyRequests, matrix.LimitExceeded)
	}
	quiet := make(chan error, 1)
	go func() {
		body := strings.ReplaceAll(transaction(third, direct("1", `{"n":"quiet"}`)), "@alice:peer.example", "@alice:third.example")
		_, err := w.process(third, "t", body)
		quiet <- err
	}()
	close(release)
	w.must(<-quiet)
	for range waiting + 1 {
		w.must(<-results)
	}
	if got := strings.Fields(w.waiting("B1")); len(got) != waiting+2 {
		t.Errorf("%d messages, want %d", len(got), waiting+2)
	}
	if c := w.proc.Counts(); c.Busy != flood-waiting-1 || c.Transactions != waiting+2 {
		t.Errorf("counted %+v", c)
	}
	if n := len(w.proc.lanes.open); n != 0 {
		t.Errorf("%d lanes are left", n)
	}
}

// TestTwinsAtOnce: the same transaction twice at the same time is applied once.
func TestTwinsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	for i := range storagetest.Scale(20) {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if _, err := w.process(peer, fmt.Sprint(i), transaction(peer, direct("x", fmt.Sprintf(`{"n":%d}`, i)))); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
	n := int64(storagetest.Scale(20))
	if c := w.proc.Counts(); c.Transactions != n || c.Replayed != n {
		t.Errorf("counted %+v, want %d transactions and as many replayed", c, n)
	}
	if got := len(strings.Fields(w.waiting("B1"))); got != int(n) {
		t.Errorf("%d messages, want %d", got, n)
	}
}

// TestPDUs: each event that can be named is refused by itself.
func TestPDUs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	pdus := `{"event_id":"$1:peer.example","room_id":"!r:peer.example"}, {"event_id":"x"}, {"event_id":"$\u0001"}, 5, [],
		{"room_id":"!r:peer.example","type":"m.room.message","sender":"@alice:peer.example","content":{"body":"x"},
		 "depth":1,"origin_server_ts":1,"prev_events":[],"auth_events":[],"hashes":{"sha256":"x"},"unsigned":{"age":1},"signatures":{}}`
	got, err := w.process(peer, "t", fmt.Sprintf(`{"origin":%q,"pdus":[%s],"edus":[%s]}`, peer, pdus, direct("1", `{}`)))
	w.must(err)
	var response struct {
		PDUs map[matrix.EventID]struct {
			Error string `json:"error"`
		} `json:"pdus"`
	}
	w.must(json.Unmarshal([]byte(got), &response))
	v, _ := matrix.VersionOf("11")
	event, err := matrix.ParseEvent(v, []byte(pdus[strings.LastIndex(pdus, `{"room_id"`):]))
	w.must(err)
	for _, id := range []matrix.EventID{"$1:peer.example", event.ID()} {
		if response.PDUs[id].Error == "" {
			t.Errorf("%s is not refused in %s", id, got)
		}
	}
	if len(response.PDUs) != 2 {
		t.Errorf("got %s, want two entries", got)
	}
	w.wantWaiting("B1", `{}`)
	if c := w.proc.Counts(); c.PDUs != 6 {
		t.Errorf("%d PDUs counted, want 6", c.PDUs)
	}
}

// TestResponseFitsItsRecord: the longest response there can be is recorded.
func TestResponseFitsItsRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	var pdus []string
	for i := range MaxPDUs {
		pdus = append(pdus, fmt.Sprintf(`{"event_id":"$%s%02d"}`, strings.Repeat(`\"`, 252), i))
	}
	got, err := w.process(peer, "t", fmt.Sprintf(`{"origin":%q,"pdus":[%s]}`, peer, strings.Join(pdus, ",")))
	w.must(err)
	if n := strings.Count(got, "error"); n != MaxPDUs {
		t.Errorf("%d events answered, want %d", n, MaxPDUs)
	}
}

// TestRefusedTransactions are those of which nothing is applied.
func TestRefusedTransactions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	good := direct("1", `{}`)
	list := func(n int, v string) string { return strings.Repeat(v+",", n-1) + v }
	for name, c := range map[string]struct {
		body   string
		status int
		code   matrix.Code
	}{
		"wrong origin": {transaction(third, good), 403, matrix.Forbidden},
		"no origin":    {`{"pdus":[],"edus":[` + good + `]}`, 400, matrix.MissingParam},
		"101 EDUs":     {transaction(peer, list(101, good)), 400, matrix.BadJSON},
		"51 PDUs":      {fmt.Sprintf(`{"origin":%q,"pdus":[%s],"edus":[%s]}`, peer, list(51, "{}"), good), 400, matrix.BadJSON},
		"edus: object": {fmt.Sprintf(`{"origin":%q,"pdus":[],"edus":{}}`, peer), 400, matrix.BadJSON},
		"pdus: string": {fmt.Sprintf(`{"origin":%q,"pdus":"x","edus":[%s]}`, peer, good), 400, matrix.BadJSON},
	} {
		_, err := w.process(peer, "t", c.body)
		t.Log(name)
		wantError(t, err, c.status, c.code)
	}
	_, err := w.process(peer, strings.Repeat("x", 256), transaction(peer, good))
	wantError(t, err, 400, matrix.InvalidParam)
	w.wantWaiting("B1", ``)

	w.deliver(strings.Repeat("x", 255), list(100, direct("1", `{"n":1}`)))
	if _, err := w.process(peer, "without", fmt.Sprintf(`{"origin":%q,"edus":null}`, peer)); err != nil {
		t.Errorf("absent lists: %v", err)
	}
	w.wantWaiting("B1", `{"n":1}`)
}

// TestRecordIsOfTheUnit: the record commits with the last EDUs, so there is one
// after every success.
func TestRecordIsOfTheUnit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	before := w.store.Stats().Units
	w.deliver("t", direct("1", `{}`))
	if units := w.store.Stats().Units - before; units != 1 {
		t.Errorf("%d units, want 1", units)
	}
	w.must(w.store.Read(t.Context(), "test", func(rx *storage.Rx) error {
		scope := storage.TransactionScope{
			Principal: string(peer), Method: "PUT", Template: "/_matrix/federation/v1/send/{txnId}", Vars: map[string]string{"txnId": "t"},
		}
		got, err := rx.FindTransaction(scope)
		if err == nil && string(got) != empty {
			t.Errorf("recorded %s, want %s", got, empty)
		}
		return err
	}))
}
