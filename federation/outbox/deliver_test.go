package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/remote"
	"hearth/storage/matrix"
)

// peers is every other server: it takes transactions as they do, answers a
// repeated one from memory, and misbehaves where a test tells it to.
type peers struct {
	t      *testing.T
	mu     sync.Mutex                     // guards what follows
	got    map[matrix.ServerName][]string // contents in the order they arrived
	seen   map[string]string              // transaction: its EDUs
	sizes  []int                          // bytes of bodies
	counts []int                          // EDUs of bodies
	calls  map[matrix.ServerName]int
	moved  chan struct{}

	// answer, if set, decides about a transaction before (nil) or instead of taking it.
	answer func(ctx context.Context, to matrix.ServerName, edus []string) error
	// after, if set, decides about the answer to a transaction that was taken.
	after func(to matrix.ServerName) error
}

func newPeers(t *testing.T) *peers {
	return &peers{t: t, got: map[matrix.ServerName][]string{}, seen: map[string]string{}, calls: map[matrix.ServerName]int{}, moved: make(chan struct{}, 1)}
}

func (p *peers) SendTransaction(ctx context.Context, to matrix.ServerName, txnID string, body []byte) ([]byte, error) {
	var txn struct {
		Origin matrix.ServerName `json:"origin"`
		PDUs   []jsontext.Value  `json:"pdus"`
		EDUs   []edu             `json:"edus"`
	}
	if err := json.Unmarshal(body, &txn, json.RejectUnknownMembers(false)); err != nil || txn.Origin != "here.test" || txn.PDUs == nil {
		p.t.Errorf("transaction %s: %v, origin %s", txnID, err, txn.Origin)
	}
	contents := make([]string, 0, len(txn.EDUs))
	for _, e := range txn.EDUs {
		for _, devices := range e.Content.Messages {
			contents = append(contents, string(slices.Collect(maps.Values(devices))[0]))
		}
	}
	defer func() {
		select {
		case p.moved <- struct{}{}:
		default:
		}
	}()
	p.mu.Lock()
	p.calls[to]++
	p.sizes, p.counts = append(p.sizes, len(body)), append(p.counts, len(txn.EDUs))
	answer, after := p.answer, p.after
	p.mu.Unlock()
	if answer != nil {
		if err := answer(ctx, to, contents); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	key := string(to) + " " + txnID
	if old, ok := p.seen[key]; !ok {
		p.seen[key] = fmt.Sprint(contents)
		p.got[to] = append(p.got[to], contents...)
	} else if old != fmt.Sprint(contents) {
		p.t.Errorf("transaction %s came again with other contents", key)
	}
	p.mu.Unlock()
	if after != nil {
		if err := after(to); err != nil {
			return nil, err
		}
	}
	return []byte(`{"pdus":{}}`), nil
}

func (p *peers) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// until waits until cond holds, looking at every answered transaction.
func (p *peers) until(what string, cond func() bool) {
	p.t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		p.mu.Lock()
		ok := cond()
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-p.moved:
		case <-deadline:
			p.t.Fatalf("never came true: %s", what)
		}
	}
}

// sending is a world whose queue is running.
type sending struct {
	*world
	peers *peers
	mu    sync.Mutex // guards now
	now   time.Time
	stop  func()
}

func newSending(t *testing.T, opt Options, locals ...string) *sending {
	s := &sending{peers: newPeers(t), now: time.UnixMilli(1_800_000_000_000)}
	opt.Enabled = true
	opt.Now = func() time.Time { s.mu.Lock(); defer s.mu.Unlock(); return s.now }
	s.world = newWorld(t, opt, locals...)
	s.run()
	t.Cleanup(func() { s.stop() })
	return s
}

// run starts delivery with nothing but the table to go by, as after a crash.
func (s *sending) run() {
	s.queue = New(s.store, s.peers, s.opt, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.queue.Run(ctx) }()
	s.stop = sync.OnceFunc(func() { cancel(); s.must(<-done) })
}

// pass moves the clock of attempts and has Run look at it.
func (s *sending) pass(d time.Duration) {
	s.mu.Lock()
	s.now = s.now.Add(d)
	s.mu.Unlock()
	s.queue.courier.poke()
}

func numbered(server matrix.ServerName, n int) Messages {
	return Messages{server: {matrix.NewUserID("bob", server): {"*": jsontext.Value(fmt.Sprint(n))}}}
}

func (s *sending) pushNumbers(server matrix.ServerName, from, to int) (want []string) {
	s.Helper()
	for n := from; n < to; n++ {
		s.must(s.push("alice", numbered(server, n)))
		want = append(want, fmt.Sprint(n))
	}
	return want
}

func (s *sending) arrived(server matrix.ServerName, want []string) {
	s.Helper()
	s.peers.until("all arrived at "+string(server), func() bool { return len(s.peers.got[server]) >= len(want) })
	s.peers.set(func() {
		if got := s.peers.got[server]; !slices.Equal(got, want) {
			s.Errorf("%s: got %.200v, want %.200v", server, got, want)
		}
	})
}

func TestDeliversInOrder(t *testing.T) {
	t.Parallel()
	s := newSending(t, Options{}, "alice")
	want := s.pushNumbers(there, 0, 350)
	s.arrived(there, want)
	s.peers.set(func() {
		if most := slices.Max(s.peers.counts); most > maxEDUs {
			t.Errorf("a transaction of %d EDUs", most)
		}
	})
}

// A transaction whose answer was lost, by a crash or on the way, is sent again
// as the same one, whatever was queued in the meantime.
func TestResendIsTheSameTransaction(t *testing.T) {
	t.Parallel()
	s := newSending(t, Options{}, "alice")
	s.stop()
	want := s.pushNumbers(there, 0, 50) // fewer than a transaction may hold
	lost := 0
	s.peers.after = func(matrix.ServerName) error {
		if lost++; lost%2 == 1 {
			return errors.New("the answer was lost")
		}
		return nil
	}
	s.run()
	s.peers.until("the first transaction", func() bool { return s.peers.calls[there] == 1 })
	want = append(want, s.pushNumbers(there, 50, 60)...)
	s.stop()
	s.pass(time.Hour)
	s.run() // the table alone knows of the transaction that was begun
	s.peers.until("the second transaction", func() bool { return s.peers.calls[there] >= 3 })
	for range 20 {
		s.pass(2 * time.Hour)
	}
	s.arrived(there, want)
}

// What is queued while the worker is about to end is not left behind.
func TestNoKickIsLost(t *testing.T) {
	t.Parallel()
	s := newSending(t, Options{}, "alice")
	var want []string
	for n := range 200 {
		want = append(want, s.pushNumbers(there, n, n+1)...)
		if n%3 == 0 {
			s.arrived(there, want)
		}
	}
	s.arrived(there, want)
}

// One destination that hangs, one that always fails, one that panics: the
// others get theirs, and each of these gets everything in order once it is well.
func TestBadPeersDelayNobodyElse(t *testing.T) {
	t.Parallel()
	s := newSending(t, Options{Concurrency: 4}, "alice")
	bad := true
	s.peers.answer = func(ctx context.Context, to matrix.ServerName, _ []string) error {
		s.peers.mu.Lock()
		bad := bad
		s.peers.mu.Unlock()
		switch {
		case !bad:
		case to == "hangs.test":
			<-ctx.Done()
			return ctx.Err()
		case to == "fails.test":
			return &remote.Error{Status: 500}
		case to == "panics.test":
			panic("a bug")
		}
		return nil
	}
	want := map[matrix.ServerName][]string{}
	for n := range 30 {
		for _, server := range []matrix.ServerName{"hangs.test", "fails.test", "panics.test", "a.test", "b.test", "c.test"} {
			want[server] = append(want[server], s.pushNumbers(server, n, n+1)...)
		}
	}
	for _, server := range []matrix.ServerName{"a.test", "b.test", "c.test"} {
		s.arrived(server, want[server])
	}
	s.stop()
	s.peers.set(func() { bad = false })
	s.pass(48 * time.Hour)
	s.run()
	for server := range want {
		s.arrived(server, want[server])
	}
}

// Attempts become rare, the time of the next one survives a restart, and a
// word from the other server brings it forward.
func TestBackoff(t *testing.T) {
	t.Parallel()
	s := newSending(t, Options{}, "alice")
	down := true
	s.peers.answer = func(_ context.Context, to matrix.ServerName, _ []string) error {
		s.peers.mu.Lock()
		defer s.peers.mu.Unlock()
		if down && to == there {
			return &remote.Error{Status: 502}
		}
		return nil
	}
	calls := func(n int) {
		t.Helper()
		s.peers.until(fmt.Sprintf("%d calls", n), func() bool { return s.peers.calls[there] >= n })
		s.failures(n)
	}
	want := s.pushNumbers(there, 0, 3)
	calls(1)
	for n := range 12 { // 2 s, 4 s, … up to an hour
		s.pass(longestDelay + time.Second)
		calls(n + 2)
	}
	want = append(want, s.pushNumbers(there, 3, 4)...) // no reason to try
	s.stop()
	s.run()
	s.pass(47 * time.Minute) // four fifths of an hour at least
	s.must(s.push("alice", numbered("other.test", 1)))
	s.arrived("other.test", []string{"1"})
	s.peers.set(func() {
		if got := s.peers.calls[there]; got != 13 {
			t.Errorf("got %d calls, want 13: the delay was cut short", got)
		}
		down = false
	})
	s.must(s.queue.Wake(t.Context(), "nobody.test"))
	s.must(s.queue.Wake(t.Context(), there))
	s.arrived(there, want)
}

// failures waits until the table says that a destination failed n times.
func (s *sending) failures(n int) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		s.queue.courier.mu.Lock()
		_, failing := s.queue.courier.failing[there]
		s.queue.courier.mu.Unlock()
		queues, err := s.queue.Queues(context.Background(), there)
		s.must(err)
		if failing && len(queues) == 1 && queues[0].Failures == int64(n) {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("got %+v, want %d failures", queues, n)
		}
	}
}

// One item that the other server refuses costs itself and nothing else.
func TestPoisonedItemIsIsolated(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 413} {
		s := newSending(t, Options{}, "alice")
		s.stop()
		s.peers.answer = func(_ context.Context, _ matrix.ServerName, edus []string) error {
			for _, e := range edus {
				if e == "37" || e == "140" {
					return &remote.Error{Status: status, Code: matrix.BadJSON}
				}
			}
			return nil
		}
		all := s.pushNumbers(there, 0, 230)
		want := slices.DeleteFunc(all, func(n string) bool { return n == "37" || n == "140" })
		s.run()
		for n := range 2 {
			s.failures(n + 1)
			s.pass(time.Minute)
		}
		// Isolated, the first is given up and the rest of its batch follows; the second begins anew.
		s.peers.until("the first stretch", func() bool { return len(s.peers.got[there]) >= 100 })
		for range 10 {
			s.pass(time.Hour)
		}
		s.arrived(there, want)
		if got := s.queue.Counts().GivenUp; got != 2 {
			t.Errorf("status %d: %d items given up, want 2", status, got)
		}
		s.peers.set(func() {
			if got := s.peers.calls[there]; got > 60 {
				t.Errorf("status %d: %d requests for 230 items", status, got)
			}
		})
	}
}

func TestTransactionsStayWithinBounds(t *testing.T) {
	t.Parallel()
	s := newSending(t, Options{TransactionBytes: 1 << 20}, "alice", "b", "c", "d", "e", "f", "g", "h")
	s.stop()
	const n = 200
	for i := range n {
		s.must(s.push([]string{"alice", "b", "c", "d", "e", "f", "g", "h"}[i%8], Messages{there: {"@bob:there.test": {"*": jsontext.Value(`"` + strings.Repeat("x", 60_000) + `"`)}}}))
	}
	s.run()
	s.peers.until("all arrived", func() bool { return len(s.peers.got[there]) == n })
	s.peers.set(func() {
		if most := slices.Max(s.peers.sizes); most > 1<<20+1024 {
			t.Errorf("a transaction of %d bytes", most)
		}
	})
}

// A server that was heard of while it was tried in vain is tried again soon,
// though it has failed for long.
func TestHeardOfWhileTried(t *testing.T) {
	t.Parallel()
	s := newSending(t, Options{}, "alice")
	down := true
	s.peers.answer = func(ctx context.Context, to matrix.ServerName, _ []string) error {
		s.peers.mu.Lock()
		down, calls := down, s.peers.calls[there]
		s.peers.mu.Unlock()
		if !down {
			return nil
		}
		if calls == 11 {
			s.must(s.queue.Wake(ctx, there))
		}
		return &remote.Error{Status: 502}
	}
	want := s.pushNumbers(there, 0, 3)
	for n := range 10 {
		s.failures(n + 1)
		s.pass(longestDelay + time.Second)
	}
	s.failures(11)
	s.peers.set(func() { down = false })
	s.pass(firstDelay)
	s.arrived(there, want)
}

// settled waits until there is nothing to do at this time, and returns how often
// a server was tried until now.
func (s *sending) settled() (calls int) {
	s.Helper()
	c := &s.queue.courier
	for deadline, idle := time.Now().Add(time.Minute), false; !idle; {
		now := s.opt.Now()
		c.mu.Lock()
		idle = len(c.running)+len(c.lined)+len(c.kicked) == 0 && c.scanAt.After(now)
		c.mu.Unlock()
		if time.Now().After(deadline) {
			s.Fatal("never comes to rest")
		}
		runtime.Gosched()
	}
	s.peers.set(func() { calls = s.peers.calls[there] })
	return calls
}

// outage has all servers answer 502 for as long as its result is true, which
// peers.set guards.
func (s *sending) outage() *bool {
	down := true
	s.peers.answer = func(context.Context, matrix.ServerName, []string) error {
		s.peers.mu.Lock()
		defer s.peers.mu.Unlock()
		if down {
			return &remote.Error{Status: 502}
		}
		return nil
	}
	return &down
}

// A server that takes nothing, and is heard of all the time, is not tried all
// the time. Once it has taken something, it is tried when it is heard of.
func TestRefusesAndSends(t *testing.T) {
	t.Parallel()
	s := newSending(t, Options{}, "alice")
	down := s.outage()
	wake := func() int {
		t.Helper()
		before := s.settled()
		s.must(s.queue.Wake(t.Context(), there))
		return s.settled() - before
	}
	want := s.pushNumbers(there, 0, 1)
	for range 30 * 60 {
		wake()
		s.pass(2 * time.Second)
	}
	// Each of a dozen hurried ones begins the delays anew, which double up to an hour, too.
	if n := s.settled(); n < 12 || n > 90 {
		t.Errorf("%d attempts in an hour", n)
	}
	s.peers.set(func() { *down = false })
	s.pass(lastGap)
	s.arrived(there, want)
	s.peers.set(func() { *down = true })
	s.pushNumbers(there, 1, 2)
	for range 2 {
		if n := wake(); n != 1 {
			t.Errorf("%d attempts, want one at once", n)
		}
		s.pass(10 * time.Minute)
	}
}

// Whoever sees a failure in the table can hurry the next attempt, though the
// worker has not ended yet.
func TestHurryAfterCommittedFailure(t *testing.T) {
	t.Parallel()
	s := newSending(t, Options{}, "alice")
	s.stop() // no worker but this test
	s.pushNumbers(there, 0, 1)
	d, b, _, err := s.queue.next(t.Context(), there)
	s.must(err)
	_, err = s.queue.failed(t.Context(), d, b, &remote.Error{Status: 502})
	s.must(err)
	if !s.queue.courier.hear(there, s.opt.Now()) {
		t.Error("not hurried")
	}
}

// A server that refuses whatever it is sent, for a day, loses little of it, and
// gets the rest in order.
func TestRefusesEverything(t *testing.T) {
	t.Parallel()
	s := newSending(t, Options{}, "alice")
	s.stop()
	refuses := true
	s.peers.answer = func(context.Context, matrix.ServerName, []string) error {
		s.peers.mu.Lock()
		defer s.peers.mu.Unlock()
		if refuses {
			return &remote.Error{Status: 400}
		}
		return nil
	}
	want := s.pushNumbers(there, 0, 230)
	s.run()
	s.failures(1)
	for range 24 * 4 {
		s.pass(15 * time.Minute)
		s.settled()
	}
	lost := s.queue.Counts().GivenUp
	if lost < 1 || lost > 20 {
		t.Errorf("%d of %d items were given up in a day", lost, len(want))
	}
	s.peers.set(func() { refuses = false })
	s.pass(time.Hour)
	s.arrived(there, want[lost:])
}

// A clock that is put right, years back, does not put off attempts by years.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	s := newSending(t, Options{}, "alice")
	down := s.outage()
	want := s.pushNumbers(there, 0, 3)
	s.failures(1)
	s.settled()
	s.peers.set(func() { *down = false })
	s.pass(-2 * 365 * 24 * time.Hour)
	s.arrived(there, want)
}
