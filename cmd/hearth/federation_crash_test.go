package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hearth/server/testserver"
	"hearth/storage/storagetest"
)

// pair is two processes that federate over TLS, each behind a link.
type pair struct {
	t     *testing.T
	procs [2]*victim
	links [2]*testserver.Link
	sites [2]*testserver.Site
}

// holding is whether their COMMITs can be held.
func newPair(t *testing.T, holding bool) *pair {
	t.Helper()
	a := testserver.NewAuthority(t)
	p := &pair{t: t}
	for i := range p.procs {
		v := newVictim(t)
		v.holds = holding
		p.links[i] = testserver.NewLink(t, a, func() string { return strings.TrimPrefix(v.url(), "https://") })
		v.name = p.links[i].Name()
		v.env = append(v.env, "HEARTH_SERVER_NAME="+string(v.name),
			"HEARTH_TO_DEVICE_MAX_MESSAGES_PER_DEVICE=1000000", // what waits until the end, in a run at scale
			"HEARTH_TLS_CERT="+a.CertFile, "HEARTH_TLS_KEY="+a.KeyFile,
			"HEARTH_SECURITY_FEDERATION_CA_FILE="+a.CAFile, "HEARTH_SECURITY_FEDERATION_ALLOW_PRIVATE_ADDRESSES=true")
		v.start()
		p.procs[i] = v
		p.sites[i] = testserver.NewSite(t, v.name, v.url)
		a.Trust(p.sites[i])
	}
	return p
}

// TestFederationCrash kills one of two processes with SIGKILL, again and again,
// while devices of the first send to devices of the second: under load at
// random moments, and where it hurts most. Nothing is lost, nothing arrives
// twice, and what one device sent arrives in its order.
func TestFederationCrash(t *testing.T) { crashRounds(t, moments, 8) }

// TestFederationCrashInCommit does so while a COMMIT is held: the units have
// run, and either nothing of it is in the file, or all of it, and nobody knows.
func TestFederationCrashInCommit(t *testing.T) {
	crashRounds(t, []crashMoment{
		{victim: 0, hold: beforeCommit}, {victim: 1, hold: beforeCommit},
		{victim: 0, hold: insideCommit}, {victim: 1, hold: insideCommit},
	}, 4)
}

func crashRounds(t *testing.T, moments []crashMoment, rounds int) {
	c := newFederatedCrash(t, moments[0].hold != "")
	rounds = storagetest.Scale(rounds)
	for n := range rounds {
		c.round(moments[n%len(moments)])
	}
	c.finish()
	total := 0
	for _, n := range c.next {
		total += n
	}
	t.Logf("%d rounds, %d messages acknowledged; %d requests held, %d transactions answered 200",
		rounds, total, c.links[1].Held(), c.links[1].Answers(http.StatusOK))
}

type federatedCrash struct {
	*pair
	senders   []*testserver.Client
	receivers []*testserver.Client
	back      [2]*testserver.Client // of the second process to the first: it wakes queues
	next      []int                 // per sender: how many were acknowledged
	waked     int
}

func newFederatedCrash(t *testing.T, holding bool) *federatedCrash {
	c := &federatedCrash{pair: newPair(t, holding)}
	bob := c.sites[1].Register("bob")
	c.receivers = []*testserver.Client{bob, c.sites[1].Login("bob")}
	for i := range 3 {
		name := fmt.Sprintf("alice%d", i)
		c.senders = append(c.senders, c.sites[0].Register(name), c.sites[0].Login(name))
	}
	c.back = [2]*testserver.Client{c.sites[1].Register("dora"), c.sites[0].Register("erin")}
	c.next = make([]int, len(c.senders))
	return c
}

// crashMoment is when a process is killed: which of the two, and what happens to
// the transaction that is on its way, or to the COMMIT.
type crashMoment struct {
	victim int
	fate   testserver.Fate
	hold   string
}

var moments = []crashMoment{
	{victim: 0, fate: testserver.Pass},       // sender, anywhere: before and after COMMIT, and while it deletes rows
	{victim: 1, fate: testserver.Pass},       // receiver, anywhere: before and after COMMIT
	{victim: 0, fate: testserver.Hang},       // sender, after COMMIT and before its request arrives
	{victim: 0, fate: testserver.HoldAnswer}, // sender, after delivery and before its row is deleted
	{victim: 1, fate: testserver.HoldAnswer}, // receiver, after its COMMIT and before the answer arrives
	{victim: 1, fate: testserver.LoseAnswer}, // receiver, with the sender in doubt already
	{victim: 0, fate: testserver.HalfAnswer}, // sender, with half of the answer
	{victim: 1, fate: testserver.HalfAnswer}, // receiver, in the middle of the answer
}

// round lets all send, kills a process, and starts it again.
func (c *federatedCrash) round(m crashMoment) {
	link, victim := c.links[1], c.procs[m.victim]
	held, reached := link.Held(), make(chan struct{}, 1)
	link.Set(func(r *testserver.Transit) testserver.Fate {
		if !r.Transaction() {
			return testserver.Pass
		}
		select {
		case reached <- struct{}{}:
			if m.hold != "" && m.victim == 1 {
				victim.hold(m.hold) // what it commits next is this transaction
			}
		default:
		}
		return m.fate
	})
	var stop atomic.Bool
	alive := make(chan struct{})
	burnt := newFuse(1 + rand.Int64N(60))
	var all sync.WaitGroup
	for i := range c.senders {
		all.Go(func() { c.send(i, &stop, alive, burnt) })
	}
	<-burnt.burnt
	<-reached
	switch {
	case m.hold != "":
		if m.victim == 0 {
			victim.hold(m.hold) // all are sending: what it commits next is theirs
		}
		victim.waitHeld()
	case m.fate == testserver.Hang || m.fate == testserver.HoldAnswer || m.fate == testserver.HalfAnswer:
		for link.Held() == held {
			<-time.After(time.Millisecond)
		}
	default:
		<-time.After(time.Duration(rand.Int64N(int64(5 * time.Millisecond)))) // the random moment
	}
	victim.kill()
	stop.Store(true)
	link.Set(nil)
	victim.release()
	victim.start()
	close(alive)
	all.Wait()
	c.wake()
}

// wake sends a message from the second process to the first: a server that is
// heard of is tried again at once.
func (c *federatedCrash) wake() {
	c.back[0].SendToDevices("m.back", fmt.Sprint(c.waked), testserver.Messages{c.back[1].UserID: {"*": fmt.Sprintf(`{"n":%d}`, c.waked)}})
	c.waked++
}

// send sends until stop. A message whose answer did not come is repeated.
func (c *federatedCrash) send(i int, stop *atomic.Bool, alive <-chan struct{}, burnt *fuse) {
	for !stop.Load() {
		path := testserver.ToDevicePath("m.test", fmt.Sprint(c.next[i]))
		body := testserver.Messages{c.receivers[0].UserID: {"*": fmt.Sprintf(`{"s":%d,"n":%d}`, i, c.next[i])}}.Body()
		a, err := c.senders[i].Do(c.t.Context(), http.MethodPut, path, body)
		if err != nil || a.Status != http.StatusOK {
			<-alive
			if a, err = c.senders[i].Do(c.t.Context(), http.MethodPut, path, body); err != nil || a.Status != http.StatusOK {
				c.t.Errorf("a server that is back answers %v, %v", a, err)
				burnt.burn()
				return
			}
		}
		c.next[i]++
		burnt.burn()
	}
}

// finish receives everything and compares.
func (c *federatedCrash) finish() {
	total := 0
	for _, n := range c.next {
		total += n
	}
	for _, r := range c.receivers {
		next := make([]int, len(c.senders))
		for _, e := range pollFor(c.t, r, total) {
			var s, n int
			if _, err := fmt.Sscanf(string(e.Content), `{"s":%d,"n":%d}`, &s, &n); err != nil || n != next[s] {
				c.t.Fatalf("%s got %s, want number %d of it: %v", r.DeviceID, e.Content, next[s], err)
			}
			next[s]++
		}
		for s := range next {
			if next[s] != c.next[s] {
				c.t.Errorf("%s got %d messages of sender %d, want %d", r.DeviceID, next[s], s, c.next[s])
			}
		}
	}
	for n, e := range pollFor(c.t, c.back[1], c.waked) {
		if want := fmt.Sprintf(`{"n":%d}`, n); string(e.Content) != want {
			c.t.Errorf("back came %s, want %s", e.Content, want)
		}
	}
}

// pollFor polls until n messages have come, and then takes what else there is.
func pollFor(t *testing.T, c *testserver.Client, n int) []testserver.Event {
	t.Helper()
	all := c.Sync().ToDevice.Events
	for len(all) < n {
		s := c.Poll()
		if len(s.ToDevice.Events) == 0 {
			t.Fatalf("%s got %d messages, want %d, and nothing comes", c.DeviceID, len(all), n)
		}
		all = append(all, s.ToDevice.Events...)
	}
	return append(all, c.Drain()...)
}

// TestFederationOfProcesses holds the contract between two processes: every
// request on the link arrives twice, and both are killed in between.
func TestFederationOfProcesses(t *testing.T) {
	p := newPair(t, false)
	for _, l := range p.links {
		l.Set(func(*testserver.Transit) testserver.Fate { return testserver.Twice })
	}
	alice, carol := p.sites[0].Register("alice"), p.sites[0].Register("carol")
	bob := p.sites[1].Register("bob")
	phone := p.sites[1].Login("bob")
	filler := strings.Repeat("x", 32_500) // two of these fill an EDU
	step := func(n int) {
		// Two users, one transaction ID, two types; "*" and a device beside it, in one EDU.
		to := testserver.Messages{bob.UserID: {"*": fmt.Sprintf(`{"n":%d,"x":%q}`, n, filler), string(phone.DeviceID): fmt.Sprintf(`{"n":%d,"phone":%q}`, n, filler)}}
		for range 2 { // the client repeats itself
			alice.SendToDevices("m.one", fmt.Sprint(n), to)
			alice.SendToDevices("m.two", fmt.Sprint(n), to)
			carol.SendToDevices("m.one", fmt.Sprint(n), to)
		}
	}
	for n := range 6 {
		step(n)
		if n%3 == 1 {
			v := p.procs[n/3]
			v.kill()
			v.start()
			// Whoever was killed says so by sending something.
			bob.SendToDevice("m.back", alice, `{}`)
		}
	}
	for who, c := range map[string]*testserver.Client{`"x"`: bob, `"phone"`: phone} {
		last, all := map[string]int{}, pollFor(t, c, 18)
		for _, e := range all {
			from := string(e.Sender) + e.Type
			if want := fmt.Sprintf(`{"n":%d,%s`, last[from], who); !strings.HasPrefix(string(e.Content), want) {
				t.Fatalf("%s got %.30s, want %s", c.DeviceID, e.Content, want)
			}
			last[from]++
		}
		if len(all) != 18 || len(last) != 3 {
			t.Fatalf("%s got %d messages of %d kinds, want 18 of 3", c.DeviceID, len(all), len(last))
		}
	}
	// What fits no EDU is refused, as the device would get both contents of two.
	over := fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 33_000))
	body := testserver.Messages{bob.UserID: {"*": over, string(phone.DeviceID): over}}.Body()
	alice.Want(http.StatusRequestEntityTooLarge, "M_TOO_LARGE", http.MethodPut, testserver.ToDevicePath("m.one", "over"), body)
	alice.SendToDevices("m.last", "last", testserver.Messages{bob.UserID: {"*": `{"last":1}`}})
	for _, c := range []*testserver.Client{bob, phone} {
		if got := pollFor(t, c, 1); len(got) != 1 || string(got[0].Content) != `{"last":1}` {
			t.Fatalf("%s got %d messages, %.40s first, want the last alone", c.DeviceID, len(got), got[0].Content)
		}
	}
	if got := pollFor(t, alice, 2); len(got) != 2 {
		t.Fatalf("%d messages came back, want 2", len(got))
	}
}
