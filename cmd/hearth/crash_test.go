package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hearth/server/testserver"
	"hearth/storage/storagetest"
)

// TestCrash kills the real binary with SIGKILL at random moments while 32
// clients send and others sync, starts it again, and counts at the end. Each
// message goes to three devices of two users in one request, so that a half-
// applied request would show.
//
//   - acknowledged and lost: answered 200, but a device never got it
//   - twice: a device got a message more than once
//   - half-applied: a request given up in the crash reached some of its devices
//
// All are 0. Half of the senders repeat the request that the crash interrupted
// until it is answered, under the same transaction ID; the others give up and
// never know. Where the kill lands is left to chance, so that every boundary
// is hit: before COMMIT, between COMMIT and answer, in a checkpoint, at start.
func TestCrash(t *testing.T) {
	p := newVictim(t)
	p.start()
	c := newCrash(t, p)
	rounds := storagetest.Scale(50)
	for round := range rounds {
		c.round(round)
	}
	c.finish()
	t.Logf("%d rounds: %d acknowledged, %d given up of which %d were applied, %d deliveries; lost %d, twice %d, half-applied %d",
		rounds, len(c.acked), len(c.given), c.applied, c.deliveries, c.lost, c.twice, c.half)
	if c.lost+c.twice+c.half+c.unknown != 0 {
		t.Fatalf("lost %d, twice %d, half-applied %d, never sent %d", c.lost, c.twice, c.half, c.unknown)
	}
	// Both sides of COMMIT were hit: requests that were not applied when the
	// server died, and requests that were but whose answer never came.
	if len(c.acked) < rounds || c.applied == 0 || c.applied == len(c.given) {
		t.Fatalf("%d acknowledged, %d of %d given up were applied: this proves nothing", len(c.acked), c.applied, len(c.given))
	}
}

// crash is the state of the test: what was sent, and what was received.
type crash struct {
	t         *testing.T
	p         *victim
	senders   []*testserver.Client
	receivers []*receiver

	fuse *fuse // burns down with each acknowledgement of the round

	mu    sync.Mutex // guards acked and given
	acked map[string]bool
	given map[string]bool // given up: may have been applied or not

	deliveries, applied, lost, twice, half, unknown int
}

// receiver is a device that syncs across the crashes, as a real client does:
// it keeps its token and what it got.
type receiver struct {
	client *testserver.Client
	got    map[string]int
}

const senders = 32

func newCrash(t *testing.T, p *victim) *crash {
	c := &crash{t: t, p: p, acked: map[string]bool{}, given: map[string]bool{}}
	site := testserver.NewSite(t, p.name, p.url)
	bob, carol := site.Register("bob"), site.Register("carol")
	for _, dev := range []*testserver.Client{bob, site.Login("bob"), carol} {
		c.receivers = append(c.receivers, &receiver{client: dev, got: map[string]int{}})
	}
	for i := range senders {
		if i%8 == 0 {
			c.senders = append(c.senders, site.Register(fmt.Sprintf("alice%d", i/8)))
			continue
		}
		c.senders = append(c.senders, site.Login(fmt.Sprintf("alice%d", i/8)))
	}
	return c
}

// round sends from all clients, kills the server at a random moment, starts it
// again, and lets every pending request come to its end.
func (c *crash) round(n int) {
	c.fuse = newFuse(1 + rand.Int64N(400))
	ctx, kill := context.WithCancel(c.t.Context())
	defer kill()
	alive := make(chan struct{}) // closed once the server is back
	var wg sync.WaitGroup
	for i, s := range c.senders {
		wg.Go(func() { c.send(ctx, alive, s, fmt.Sprintf("%d-%d", i, n), i%2 == 0) })
	}
	for _, r := range c.receivers {
		wg.Go(func() { r.syncUntil(ctx) })
	}
	<-c.fuse.burnt
	<-time.After(time.Duration(rand.Int64N(int64(3 * time.Millisecond)))) // the random moment
	c.p.kill()
	kill()
	c.p.start()
	close(alive)
	wg.Wait()
}

// send sends one message after the other until ctx ends. The message that the
// crash interrupted is repeated until it is answered, or given up.
func (c *crash) send(ctx context.Context, alive <-chan struct{}, s *testserver.Client, prefix string, repeat bool) {
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("%s-%d", prefix, i)
		if c.put(c.t.Context(), s, id) {
			c.note(c.acked, id)
			c.fuse.burn()
			continue
		}
		if !repeat {
			c.note(c.given, id)
			return
		}
		<-alive
		if !c.put(c.t.Context(), s, id) {
			c.t.Errorf("message %s: refused by a server that was not killed", id)
			return
		}
		c.note(c.acked, id)
	}
}

// put sends one message to all targets and tells whether it was acknowledged.
func (c *crash) put(ctx context.Context, s *testserver.Client, id string) bool {
	content := fmt.Sprintf(`{"id":%q}`, id)
	bob, carol := c.receivers[0].client, c.receivers[2].client
	m := testserver.Messages{
		bob.UserID:   {"*": content},
		carol.UserID: {string(carol.DeviceID): content},
	}
	a, err := s.Do(ctx, http.MethodPut, testserver.ToDevicePath("m.test", id), m.Body())
	return err == nil && a.Status == http.StatusOK
}

func (c *crash) note(set map[string]bool, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set[id] = true
}

// syncUntil syncs until ctx ends. An answer that did not arrive is as if it
// had not been given: the token stays, and the messages come again.
func (r *receiver) syncUntil(ctx context.Context) {
	for ctx.Err() == nil {
		s, err := r.client.SyncFrom(ctx, r.client.Since(), time.Second)
		if err != nil {
			return
		}
		r.take(s)
	}
}

func (r *receiver) take(s *testserver.Sync) {
	for _, e := range s.ToDevice.Events {
		r.got[string(e.Content)]++
	}
	r.client.Rewind(s.NextBatch)
}

// finish empties the inboxes and counts.
func (c *crash) finish() {
	for _, r := range c.receivers {
		for {
			s := r.client.Sync()
			for _, e := range s.ToDevice.Events {
				r.got[string(e.Content)]++
			}
			if len(s.ToDevice.Events) == 0 {
				break
			}
		}
	}
	for id := range c.acked {
		if c.reached(id) != len(c.receivers) {
			c.lost++
			c.t.Errorf("message %s was acknowledged and reached %d of %d devices", id, c.reached(id), len(c.receivers))
		}
	}
	for id := range c.given {
		switch c.reached(id) {
		case 0:
		case len(c.receivers):
			c.applied++
		default:
			c.half++
			c.t.Errorf("message %s was given up and reached %d of %d devices", id, c.reached(id), len(c.receivers))
		}
	}
	for _, r := range c.receivers {
		c.deliveries += len(r.got)
		for content, n := range r.got {
			if n > 1 {
				c.twice++
				c.t.Errorf("%s arrived %d times at %s", content, n, r.client.DeviceID)
			}
			id := content[len(`{"id":"`) : len(content)-len(`"}`)]
			if !c.acked[id] && !c.given[id] {
				c.unknown++
			}
		}
	}
}

// reached counts the devices that got a message.
func (c *crash) reached(id string) int {
	n := 0
	for _, r := range c.receivers {
		if r.got[fmt.Sprintf(`{"id":%q}`, id)] > 0 {
			n++
		}
	}
	return n
}

// fuse closes burnt after so many calls of burn.
type fuse struct {
	left  atomic.Int64
	burnt chan struct{}
}

func newFuse(n int64) *fuse {
	f := &fuse{burnt: make(chan struct{})}
	f.left.Store(n)
	return f
}

func (f *fuse) burn() {
	if f.left.Add(-1) == 0 {
		close(f.burnt)
	}
}
