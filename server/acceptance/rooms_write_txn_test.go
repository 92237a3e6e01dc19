package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"hearth/server/testserver"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
	"hearth/storage/storagetest/faultvfs"
)

// txnUse is one way to use a transaction ID: a device and an endpoint with all
// its path variables but that one.
type txnUse struct {
	name string
	by   *testserver.Client
	path func(txn string) string
	body func(n int) string // different requests under one ID
}

// txnUses are all that the same transaction ID must not confuse: rooms,
// devices, event types, endpoints, redacted events.
type txnUses struct {
	t                *testing.T
	hs               *testserver.Server
	phone, tab, peer *testserver.Client
	one, two         matrix.RoomID
	all              []txnUse
}

func newTxnUses(t *testing.T) *txnUses {
	hs := testserver.New(t)
	s := &txnUses{t: t, hs: hs, phone: hs.Register("alice"), tab: hs.Login("alice"), peer: hs.Register("bob")}
	s.one, s.two = publicRoom(s.phone, s.peer), publicRoom(s.phone, s.peer)
	content := func(n int) string { return fmt.Sprintf(`{"n":%d}`, n) }
	toDevice := func(n int) string { return testserver.Messages{s.peer.UserID: {"*": content(n)}}.Body() }
	redact := func(n int) string { return fmt.Sprintf(`{"reason":"%d"}`, n) }
	for name, by := range map[string]*testserver.Client{"phone": s.phone, "tablet": s.tab} {
		for where, room := range map[string]matrix.RoomID{"one": s.one, "two": s.two} {
			for _, typ := range []string{"m.a", "m.b"} {
				s.add(name+" "+where+" "+typ, by, content, func(txn string) string { return testserver.RoomPath(room, "send", typ, txn) })
			}
			for range 2 {
				said := s.phone.Say(room, "x")
				s.add(name+" "+where+" redact", by, redact, func(txn string) string { return testserver.RoomPath(room, "redact", string(said), txn) })
			}
		}
		for _, typ := range []string{"m.a", "m.b"} {
			s.add(name+" to device "+typ, by, toDevice, func(txn string) string { return testserver.ToDevicePath(typ, txn) })
		}
	}
	return s
}

func (s *txnUses) add(name string, by *testserver.Client, body func(int) string, path func(string) string) {
	s.all = append(s.all, txnUse{name, by, path, body})
}

// send makes one request and returns its answer; a goroutine may call it.
func (s *txnUses) send(i int, txn string, n int) string {
	a, err := s.all[i].by.Do(s.t.Context(), http.MethodPut, s.all[i].path(txn), s.all[i].body(n))
	if err != nil || a.Status != http.StatusOK {
		s.t.Errorf("%s: %v, %v", s.all[i].name, a, err)
		return ""
	}
	return string(a.Body)
}

// wantAnswers sends everything once more and compares.
func (s *txnUses) wantAnswers(when, txn string, want []string) {
	s.t.Helper()
	for i := range s.all {
		if got := s.send(i, txn, 7); got != want[i] {
			s.t.Errorf("%s, %s: got %s, want %s", when, s.all[i].name, got, want[i])
		}
	}
}

// wantOnce checks that every request had its effect once, and none shared one.
func (s *txnUses) wantOnce(txn string, answers []string) {
	s.t.Helper()
	seen := map[string]string{}
	for i, a := range answers {
		if other, ok := seen[a]; ok && a != "{}" {
			s.t.Errorf("%s and %s share %s", s.all[i].name, other, a)
		}
		seen[a] = s.all[i].name
	}
	var told int
	for _, room := range []matrix.RoomID{s.one, s.two} {
		for _, e := range timeline(s.t, s.peer, room) {
			if _, ours := seen[fmt.Sprintf(`{"event_id":%q}`, e.ID)]; ours {
				told++
			}
		}
	}
	if want := len(s.all) - 4; told != want {
		s.t.Errorf("%s: %d events, want %d", txn, told, want)
	}
	if got := s.peer.Drain(); len(got) != 4 {
		s.t.Errorf("%s: %d messages to the device %s, want 4", txn, len(got), contents(got))
	}
}

// The same transaction ID everywhere: each use is its own transaction, and is
// performed once, in sequence, at once and across restarts.
func TestTransactionMatrix(t *testing.T) {
	t.Parallel()
	s := newTxnUses(t)
	s.peer.Drain()

	t.Run("in sequence", func(t *testing.T) {
		answers := make([]string, len(s.all))
		for i := range s.all {
			answers[i] = s.send(i, "t/1", i)
		}
		s.wantAnswers("again", "t/1", answers)
		s.wantOnce("t/1", answers)
		s.hs.Restart()
		s.wantAnswers("after a restart", "t/1", answers)
		s.hs.Crash()
		s.wantAnswers("after a crash", "t/1", answers)
		if got := s.peer.Drain(); len(got) != 0 {
			t.Errorf("retransmissions delivered %s", contents(got))
		}
	})
	t.Run("at once", func(t *testing.T) {
		for round := range storagetest.Scale(3) {
			txn := fmt.Sprintf("at once %d", round)
			const times = 4
			got := make([][times]string, len(s.all))
			var wg sync.WaitGroup
			for n := range times {
				for i := range s.all {
					wg.Go(func() { got[i][n] = s.send(i, txn, n) })
				}
			}
			wg.Wait()
			answers := make([]string, len(s.all))
			for i := range got {
				answers[i] = got[i][0]
				for _, a := range got[i] {
					if a != answers[i] {
						t.Errorf("%s answered %v", s.all[i].name, got[i])
					}
				}
			}
			s.wantOnce(txn, answers)
		}
	})
	t.Run("only successes are recorded", func(t *testing.T) {
		path := testserver.RoomPath(s.one, "send", "m.a", "late")
		carol := s.hs.Register("carol")
		forbidden(carol, "PUT", path, `{}`)
		carol.Join(s.one)
		carol.Want(http.StatusBadRequest, matrix.BadJSON, "PUT", path, `{"n":0.5}`)
		first := string(carol.Must("PUT", path, `{}`).Body)
		// And what was done stays done, when it is no longer allowed too.
		carol.Leave(s.one)
		if again := string(carol.Must("PUT", path, `{}`).Body); again != first {
			t.Errorf("got %s and then %s", first, again)
		}
	})
}

// The transaction ID comes back with the event to the device that sent it, and
// to nobody else.
func TestTransactionIDIsToldToItsDevice(t *testing.T) {
	t.Parallel()
	s := newTxnUses(t)
	told := func(c *testserver.Client, id matrix.EventID) string {
		var e struct {
			Unsigned struct {
				Txn string `json:"transaction_id"`
			} `json:"unsigned"`
		}
		c.Must("GET", testserver.RoomPath(s.one, "event", string(id)), nil).Decode(t, &e)
		return e.Unsigned.Txn
	}
	id := s.phone.SendTxn(s.one, "m.a", "mine/1", `{}`)
	for range 2 {
		for c, want := range map[*testserver.Client]string{s.phone: "mine/1", s.tab: "", s.peer: ""} {
			if got := told(c, id); got != want {
				t.Errorf("%s %s is told transaction %q, want %q", c.UserID, c.DeviceID, got, want)
			}
		}
		s.hs.Restart()
	}
	for c, want := range map[*testserver.Client]bool{s.phone: true, s.tab: false, s.peer: false} {
		body := string(c.Must("GET", v3+"/sync", nil).Body)
		if got := strings.Contains(body, `"mine/1"`); got != want {
			t.Errorf("the sync of %s %s tells the transaction: %v, want %v", c.UserID, c.DeviceID, got, want)
		}
	}
}

// T2 for rooms: whatever the disk does, a request that was not answered 200
// has left nothing, and the same request again is performed once.
func TestFailedSendLeavesNothing(t *testing.T) {
	t.Parallel()
	for what, fault := range map[string]struct {
		op   faultvfs.Op
		code faultvfs.Code
	}{
		"full disk":    {faultvfs.Write, faultvfs.Full},
		"write error":  {faultvfs.Write, faultvfs.WriteError},
		"commit error": {faultvfs.Sync, faultvfs.SyncError},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t)
			room := publicRoom(f.alice, f.bob)
			match := func(c faultvfs.Call) bool { return c.WAL() && c.Op == fault.op }
			for skip := range 12 {
				f.roomRound(room, skip, match, fault.code)
			}
			if f.failed == 0 {
				t.Fatal("no fault was hit")
			}
		})
	}
}

// roomRound sends one event and sets one state event while the disk refuses a call.
func (f *faulty) roomRound(room matrix.RoomID, skip int, match func(faultvfs.Call) bool, code faultvfs.Code) {
	f.t.Helper()
	f.n++
	path, content := testserver.RoomPath(room, "send", "m.test", fmt.Sprint(f.n)), number(f.n)
	f.bob.Sync()
	polled := make(chan *testserver.Sync, 1)
	go func() {
		s, _ := f.bob.SyncFrom(f.t.Context(), f.bob.Since(), time.Minute)
		polled <- s
	}()
	before := len(timeline(f.t, f.bob, room))
	fired := f.disk.FailNext(match, skip, 1, code)
	a, err := f.alice.Do(f.t.Context(), http.MethodPut, path, content)
	f.disk.OnCall(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	switch {
	case a.Status == http.StatusOK:
	case a.Status == http.StatusInternalServerError && a.Code() == matrix.Unknown:
		f.failed++
		if got := len(timeline(f.t, f.bob, room)); got != before {
			f.t.Fatalf("skip %d: %d events of a request that failed", skip, got-before)
		}
		if skip%2 == 1 {
			f.hs.Crash()
		}
	default:
		f.t.Fatalf("skip %d: got %s with %d faults", skip, a, fired())
	}
	f.until200(path, content)
	f.until200(path, content)
	list := timeline(f.t, f.bob, room)
	if last := list[len(list)-1]; len(list) != before+1 || string(last.Content) != content {
		f.t.Fatalf("skip %d: %d events, the last %s; want 1, %s", skip, len(list)-before, last.Content, content)
	}
	if s := <-polled; s != nil && !hasRoomEvent(f.t, s, room, content) { // nil: the crash cut it off
		f.t.Fatalf("skip %d: the poll ended without %s", skip, content)
	}
}

// hasRoomEvent tells whether a sync has one event of a content in the timeline of a room.
func hasRoomEvent(t *testing.T, s *testserver.Sync, room matrix.RoomID, content string) bool {
	t.Helper()
	var rooms struct {
		Join map[matrix.RoomID]struct {
			Timeline struct {
				Events []stateEvent `json:"events"`
			} `json:"timeline"`
		} `json:"join"`
	}
	if raw := s.Raw["rooms"]; len(raw) > 0 {
		if err := json.Unmarshal(raw, &rooms); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for _, e := range rooms.Join[room].Timeline.Events {
		if string(e.Content) == content {
			n++
		}
	}
	return n == 1
}
