package acceptance

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hearth/server/config"
	"hearth/server/testserver"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// roomy makes queues and inboxes large enough for runs at scale.
var roomy = testserver.Config(func(c *config.Config) {
	c.Federation.MaxQueuedBytesPerServer = 8 << 30
	c.ToDevice.MaxMessagesPerDevice, c.ToDevice.MaxBytesPerDevice = 1_000_000, 8<<30
})

// TestFaultyLink sends over a link that loses, delays, repeats and reorders
// requests, from several devices at once to two. Every message arrives once,
// and what one device sent arrives in the order in which it sent it.
func TestFaultyLink(t *testing.T) {
	t.Parallel()
	net := testserver.Network(t, 2, roomy)
	bob := net[1].Register("bob")
	receivers := []*testserver.Client{bob, net[1].Login("bob")}
	alice := net[0].Register("alice")
	senders := []*testserver.Client{alice, net[0].Login("alice"), net[0].Register("carol"), net[0].Register("dora"), net[0].Register("erin")}
	link := net[1].Link()
	link.Set(testserver.Faulty(1))
	pump(t, net[0], net[1])
	each := storagetest.Scale(300)
	var all sync.WaitGroup
	for s, c := range senders {
		all.Go(func() {
			for i := range each {
				content := fmt.Sprintf(`{"s":%d,"n":%d}`, s, i)
				c.SendToDevices("m.test", fmt.Sprint(i), testserver.Messages{bob.UserID: {"*": content}})
			}
		})
	}
	inOrder := func(c *testserver.Client) {
		next := make([]int, len(senders))
		for n := 0; n < each*len(senders); {
			for _, e := range receive(t, c, 1) {
				var s, i int
				if _, err := fmt.Sscanf(string(e.Content), `{"s":%d,"n":%d}`, &s, &i); err != nil || i != next[s] {
					t.Errorf("%s got %s, want number %d: %v", c.DeviceID, e.Content, next[s], err)
					return
				}
				next[s]++
				n++
			}
		}
	}
	for _, c := range receivers {
		inOrder(c)
	}
	all.Wait()
	link.Set(nil) // what is late arrives
	emptied(t, net[0])
	for _, c := range receivers {
		if late := c.Drain(); len(late) != 0 {
			t.Errorf("%s got %d messages again, %s first", c.DeviceID, len(late), late[0].Content)
		}
	}
	for _, f := range []testserver.Fate{testserver.Lose, testserver.LoseAnswer, testserver.Twice, testserver.Late, testserver.Slow} {
		if link.Count(f) == 0 {
			t.Errorf("no request had fate %d: this proves nothing", f)
		}
	}
	t.Logf("%d messages, %d requests passed, %d lost, %d unanswered, %d twice, %d late, %d slow", each*len(senders), link.Count(testserver.Pass),
		link.Count(testserver.Lose), link.Count(testserver.LoseAnswer), link.Count(testserver.Twice), link.Count(testserver.Late), link.Count(testserver.Slow))
}

// hands is a clock that a test moves.
type hands struct{ offset atomic.Int64 }

func (h *hands) now() time.Time { return time.Now().Add(time.Duration(h.offset.Load())) }

func (h *hands) forward(d time.Duration) { h.offset.Add(int64(d)) }

// TestOutage has one server be away for a day, one answer 500 all day, one
// never answer, and one refuse a single message with 400. A healthy one gets
// everything at once, meanwhile. When the others are back they get everything
// in order, the refused message excepted.
func TestOutage(t *testing.T) {
	t.Parallel()
	var clock hands
	net := testserver.Network(t, 6, testserver.Clock(clock.now, nil), testserver.QuietLog())
	alice := net[0].Register("alice")
	users := make([]*testserver.Client, len(net))
	for i, name := range []string{"", "healthy", "down", "broken", "silent", "picky"} {
		if i > 0 {
			users[i] = net[i].Register(name)
		}
	}
	const healthy, down, broken, silent, picky = 1, 2, 3, 4, 5
	always := func(f testserver.Fate) testserver.Judge {
		return func(*testserver.Transit) testserver.Fate { return f }
	}
	net[down].Link().Set(always(testserver.Lose))
	net[broken].Link().Set(always(testserver.Status(500)))
	net[silent].Link().Set(always(testserver.Hang))
	var gone atomic.Bool // for a while, so that what it refuses comes in the middle of others
	net[picky].Link().Set(func(r *testserver.Transit) testserver.Fate {
		if gone.Load() {
			return testserver.Lose
		}
		if strings.Contains(string(r.Body), "poison") {
			return testserver.Status(400)
		}
		return testserver.Pass
	})
	const hours, perHour = 25, 4
	sent := 0
	for range hours {
		for range perHour {
			for i := healthy; i <= picky; i++ {
				to := testserver.Messages{users[i].UserID: {"*": number(sent)}}
				alice.SendToDevices("m.test", fmt.Sprintf("%d-%d", i, sent), to)
			}
			gone.Store(sent >= 8 && sent < 14)
			if sent == 10 {
				alice.SendToDevices("m.test", "poison", testserver.Messages{users[picky].UserID: {"*": `{"poison":1}`}})
			}
			sent++
		}
		wantLast(t, users[healthy], sent, perHour)
		clock.forward(time.Hour)
	}
	for _, i := range []int{down, broken, silent, picky} {
		if n := net[i].Link().Count(testserver.Lose) + net[i].Link().Count(testserver.Status(500)) + net[i].Link().Count(testserver.Status(400)); i != silent && (n == 0 || n > 60) {
			t.Errorf("%s was tried %d times in a day", users[i].UserID, n)
		}
	}
	if got := net[0].Outbox().Counts(); got.GivenUp != 1 || got.Expired != 0 {
		t.Errorf("%d messages were given up and %d expired, want the refused one", got.GivenUp, got.Expired)
	}
	// What waits is in the table, all of it.
	queues, err := net[0].Outbox().Queues(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	waits := map[matrix.ServerName]int64{}
	for _, q := range queues {
		waits[q.Name] = q.Items
	}
	for _, i := range []int{down, broken, silent} {
		if got := waits[net[i].Name()]; got != int64(sent) {
			t.Errorf("%d rows wait for %s, want %d", got, users[i].UserID, sent)
		}
		net[i].Link().Set(nil)
	}
	pump(t, net[0], net[down:]...)
	for i := down; i <= picky; i++ {
		wantNumbers(t, users[i], sent)
	}
	emptied(t, net[0])
	if got := net[0].Outbox().Counts().GivenUp; got != 1 {
		t.Errorf("%d messages were given up, want 1", got)
	}
}

// wantLast receives the last n of total messages, and no other.
func wantLast(t *testing.T, c *testserver.Client, total, n int) {
	t.Helper()
	for i, e := range receive(t, c, n) {
		if string(e.Content) != number(total-n+i) {
			t.Fatalf("got %s, want %d", e.Content, total-n+i)
		}
	}
}

// TestLargeBacklog queues many EDUs of 60 KB for one server that is away. Each
// transaction that comes once it is back stays within the bounds.
func TestLargeBacklog(t *testing.T) {
	t.Parallel()
	net := testserver.Network(t, 2, roomy)
	senders := make([]*testserver.Client, 4) // who share the queue
	for i := range senders {
		senders[i] = net[0].Register(fmt.Sprintf("sender%d", i))
	}
	bob, link := net[1].Register("bob"), net[1].Link()
	link.Set(func(*testserver.Transit) testserver.Fate { return testserver.Lose })
	filler := strings.Repeat("x", 60_000)
	total := storagetest.Scale(200)
	for i := range total {
		content := fmt.Sprintf(`{"n":%d,"x":%q}`, i, filler)
		senders[i%len(senders)].SendToDevices("m.test", fmt.Sprint(i), testserver.Messages{bob.UserID: {"*": content}})
	}
	var largest, transactions atomic.Int64
	link.Set(func(r *testserver.Transit) testserver.Fate {
		if r.Transaction() {
			transactions.Add(1)
			largest.Store(max(largest.Load(), int64(len(r.Body))))
		}
		return testserver.Pass
	})
	pump(t, net[0], net[1])
	for got := 0; got < total; {
		for _, e := range receive(t, bob, 1) {
			if !strings.HasPrefix(string(e.Content), fmt.Sprintf(`{"n":%d,`, got)) {
				t.Fatalf("message %d is %.20s", got, e.Content)
			}
			got++
		}
	}
	emptied(t, net[0])
	t.Logf("%d EDUs in %d transactions, the largest of %d bytes", total, transactions.Load(), largest.Load())
	if largest.Load() > 2<<20+1024 || transactions.Load() < int64(total/40) {
		t.Fatalf("%d transactions, the largest of %d bytes", transactions.Load(), largest.Load())
	}
}

// TestNeverLeavesLoopback: servers of tests ask nobody for made-up names, and
// connect to no other machine.
func TestNeverLeavesLoopback(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t, testserver.Config(func(c *config.Config) { c.Security.Federation.AllowPrivateAddresses = true }))
	alice := hs.Register("alice")
	for name, want := range map[matrix.ServerName]string{
		"elsewhere.test": "no name is looked up here", "192.0.2.1:8448": "192.0.2.1:8448 is not on this machine",
	} {
		alice.SendToDevices("m.test", string(name), testserver.Messages{matrix.NewUserID("u", name): {"*": `{}`}})
		for why := ""; !strings.Contains(why, want); {
			list, err := hs.Outbox().Queues(t.Context(), name)
			if err != nil || len(list) != 1 {
				t.Fatalf("got %v, %v", list, err)
			}
			if why = list[0].LastError; why != "" && !strings.Contains(why, want) {
				t.Fatalf("%s failed with %s", name, why)
			}
		}
	}
}
