package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"hearth/server/config"
	"hearth/server/testserver"
	"hearth/storage/matrix"
	"hearth/storage/storagetest/faultvfs"
)

// testFailureLeavesNothing is T2: whatever goes wrong, the answer is 500
// M_UNKNOWN, nobody sees anything of the request, and the same request sent
// again is processed exactly once.
func testFailureLeavesNothing(t *testing.T) {
	for what, fault := range map[string]struct {
		op   faultvfs.Op
		code faultvfs.Code
	}{
		"full disk":    {faultvfs.Write, faultvfs.Full},
		"write error":  {faultvfs.Write, faultvfs.WriteError},
		"commit error": {faultvfs.Sync, faultvfs.SyncError},
	} {
		match := func(c faultvfs.Call) bool { return c.WAL() && c.Op == fault.op }
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t)
			for skip := range 12 {
				f.round(skip, match, fault.code)
			}
			if f.failed == 0 {
				t.Fatal("no fault was hit")
			}
		})
	}
	t.Run("disk stays full", testDiskStaysFull)
	t.Run("a destination that cannot be queued", testOutboxFull)
}

// faulty is a server on a disk that fails on demand, with a poll that waits
// for what must not come.
type faulty struct {
	t          *testing.T
	hs         *testserver.Server
	disk       *faultvfs.VFS
	alice, bob *testserver.Client
	n, failed  int
}

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	disk, err := faultvfs.New()
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{t: t, disk: disk, hs: testserver.New(t, testserver.VFS(disk.Name()), testserver.QuietLog())}
	f.alice, f.bob = f.hs.Register("alice"), f.hs.Register("bob")
	f.bob.Sync()
	return f
}

// next is a request that was never sent: its path, body and message.
func (f *faulty) next() (path, body, message string) {
	f.n++
	message = number(f.n)
	body = testserver.Messages{
		f.bob.UserID:            {"*": message},
		"@carol:elsewhere.test": {"*": message},
	}.Body()
	return testserver.ToDevicePath("m.test", fmt.Sprint(f.n)), body, message
}

// round sends one request while the disk refuses the call after skip others,
// then sends it again, half of the time after a crash.
func (f *faulty) round(skip int, match func(faultvfs.Call) bool, code faultvfs.Code) {
	f.t.Helper()
	path, body, message := f.next()
	rows := len(queued(f.t, f.hs))
	polled := make(chan *testserver.Sync, 1)
	go func() {
		s, _ := f.bob.SyncFrom(f.t.Context(), f.bob.Since(), time.Minute)
		polled <- s
	}()
	fired := f.disk.FailNext(match, skip, 1, code)
	a, err := f.alice.Do(f.t.Context(), http.MethodPut, path, body)
	f.disk.OnCall(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	switch {
	case a.Status == http.StatusOK: // the fault was not reached, or hit housekeeping
	case a.Status == http.StatusInternalServerError && a.Code() == matrix.Unknown:
		f.failed++
		f.nothing(rows)
		if skip%2 == 1 {
			f.hs.Crash()
		}
	default:
		f.t.Fatalf("skip %d: got %s with %d faults", skip, a, fired())
	}
	f.until200(path, body)
	f.until200(path, body)
	if s := <-polled; s != nil && len(s.ToDevice.Events) > 0 { // nil: the crash cut it off
		s.HasToDevice("m.test", message)
	}
	wantContents(f.t, f.bob, message)
	if got := len(queued(f.t, f.hs)); got != rows+1 {
		f.t.Fatalf("skip %d: %d EDUs queued, want 1", skip, got-rows)
	}
}

// nothing fails the test if anything of the failed request can be seen.
func (f *faulty) nothing(rows int) {
	f.t.Helper()
	s, err := f.bob.SyncFrom(f.t.Context(), f.bob.Since(), 0)
	if err != nil {
		f.t.Fatal(err)
	}
	s.NoToDevice()
	if got := len(queued(f.t, f.hs)); got != rows {
		f.t.Fatalf("%d EDUs of a request that failed", got-rows)
	}
	if err := f.hs.Inbox().Check(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// until200 sends a request until it is answered 200. The store may be
// read-only for as long as it takes to find that the disk is back.
func (f *faulty) until200(path, body string) {
	f.t.Helper()
	for {
		a, err := f.alice.Do(f.t.Context(), http.MethodPut, path, body)
		if err != nil {
			f.t.Fatal(err)
		}
		if a.Status == http.StatusOK {
			return
		}
		if a.Status != http.StatusInternalServerError || a.Code() != matrix.Unknown {
			f.t.Fatalf("got %s", a)
		}
	}
}

// testDiskStaysFull fills the disk for good: sends fail, syncs go on, and once
// there is space again the server takes sends by itself.
func testDiskStaysFull(t *testing.T) {
	t.Parallel()
	f := newFaulty(t)
	path, body, message := f.next()
	f.alice.Must(http.MethodPut, path, body)
	rows := len(queued(t, f.hs))
	f.disk.OnCall(func(c faultvfs.Call) faultvfs.Code {
		if c.WAL() && c.Op == faultvfs.Write {
			return faultvfs.Full
		}
		return 0
	})
	lost, lostBody, lostMessage := f.next()
	for range 5 {
		f.alice.Want(http.StatusInternalServerError, matrix.Unknown, http.MethodPut, lost, lostBody)
		if s, err := f.bob.SyncFrom(t.Context(), f.bob.Since(), 0); err != nil {
			t.Fatal(err)
		} else {
			s.HasToDevice("m.test", message)
		}
	}
	if got := len(queued(t, f.hs)); got != rows {
		t.Fatalf("%d EDUs of requests that failed", got-rows)
	}
	f.disk.OnCall(nil)
	f.until200(lost, lostBody)
	wantContents(t, f.bob, message+" "+lostMessage)
}

// testOutboxFull sends to a server that does not answer until its queue is
// full: the request then fails as a whole, and with it what it had for others.
func testOutboxFull(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t, testserver.Config(func(c *config.Config) {
		c.Federation.MaxQueuedBytesPerServer = 1 << 20
	}), testserver.QuietLog())
	alice, bob := hs.Register("alice"), hs.Register("bob")
	sent := 0
	for {
		m := testserver.Messages{
			bob.UserID:              {"*": number(sent)},
			"@carol:elsewhere.test": {"*": fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 60_000))},
			"@dora:fine.test":       {"*": number(sent)},
		}
		path := testserver.ToDevicePath("m.test", fmt.Sprint(sent))
		a, err := alice.Do(t.Context(), http.MethodPut, path, m.Body())
		if err != nil {
			t.Fatal(err)
		}
		if a.Status == http.StatusOK {
			if sent++; sent > 20 {
				t.Fatalf("%d requests of 60 kB queued, want at most 1 MiB", sent)
			}
			continue
		}
		if a.Status != http.StatusInternalServerError || a.Code() != matrix.Unknown {
			t.Fatalf("got %s, want 500 M_UNKNOWN", a)
		}
		break
	}
	if sent == 0 {
		t.Fatal("nothing was sent")
	}
	if got := len(bob.Drain()); got != sent {
		t.Fatalf("bob got %d messages, want the %d that were acknowledged", got, sent)
	}
	if got := len(queued(t, hs)); got != 2*sent {
		t.Fatalf("%d EDUs queued, want %d", got, 2*sent)
	}
	// What does not go to the full queue still goes.
	alice.SendToDevices("m.test", "other", testserver.Messages{bob.UserID: {"*": `{"n":-1}`}, "@dora:fine.test": {"*": `{}`}})
	wantContents(t, bob, `{"n":-1}`)
}

// failCommit has one send fail at COMMIT, so that a position is taken and not used.
func failCommit(t *testing.T, hs *testserver.Server, disk *faultvfs.VFS, alice, bob *testserver.Client) {
	t.Helper()
	fired := disk.FailNext(func(c faultvfs.Call) bool { return c.WAL() && c.Op == faultvfs.Sync }, 0, 1, faultvfs.SyncError)
	body := testserver.Messages{bob.UserID: {"*": `{}`}}.Body()
	alice.Want(http.StatusInternalServerError, matrix.Unknown, http.MethodPut, testserver.ToDevicePath("m.test", alice.NextTxn()), body)
	if fired() != 1 {
		t.Fatal("no fault was hit")
	}
	disk.OnCall(nil)
	if err := hs.Inbox().Check(t.Context()); err != nil {
		t.Fatal(err)
	}
}
