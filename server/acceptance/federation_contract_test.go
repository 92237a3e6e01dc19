package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"hearth/server/config"
	"hearth/server/testserver"
	"hearth/storage/storagetest/faultvfs"
)

// attempts records the message IDs of each transaction at each attempt.
type attempts struct {
	mu  sync.Mutex // guards ids
	ids map[string][]string
}

func (a *attempts) note(t *testing.T, r *testserver.Transit) {
	var body struct {
		EDUs []edu `json:"edus"`
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Errorf("transaction: %v", err)
	}
	var ids []string
	for _, e := range body.EDUs {
		ids = append(ids, e.Content.MessageID)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids[r.Path] = append(a.ids[r.Path], strings.Join(ids, " "))
}

// testSameIDAtEachAttempt is T8: each attempt repeats the message IDs, under
// the same transaction ID, also after a restart and a crash of the sender.
func testSameIDAtEachAttempt(t *testing.T) {
	net := testserver.Network(t, 2)
	alice, bob := net[0].Register("alice"), net[1].Register("bob")
	seen := attempts{ids: map[string][]string{}}
	tried := make(chan struct{}, 1000)
	net[1].Link().Set(func(r *testserver.Transit) testserver.Fate {
		if !r.Transaction() {
			return testserver.Pass
		}
		seen.note(t, r)
		tried <- struct{}{}
		return testserver.LoseAnswer
	})
	numbers(alice, bob, 0, 5)
	stop := pump(t, net[0], net[1])
	for range 3 {
		<-tried
	}
	stop()
	net[0].Restart()
	stop = pump(t, net[0], net[1])
	numbers(alice, bob, 5, 10)
	<-tried
	stop()
	net[0].Crash()
	pump(t, net[0], net[1])
	<-tried
	net[1].Link().Set(func(r *testserver.Transit) testserver.Fate {
		if r.Transaction() {
			seen.note(t, r)
		}
		return testserver.Pass
	})
	numbers(alice, bob, 10, 12)
	wantNumbers(t, bob, 12)
	emptied(t, net[0])
	seen.check(t, 12)
}

func (a *attempts) check(t *testing.T, messages int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	all, repeated := map[string]bool{}, 0
	for path, tries := range a.ids {
		repeated += len(tries) - 1
		for _, ids := range tries {
			if ids != tries[0] {
				t.Errorf("%s had message IDs %s, and then %s", path, tries[0], ids)
			}
		}
		for id := range strings.FieldsSeq(tries[0]) {
			if all[id] || utf8.RuneCountInString(id) > 32 {
				t.Errorf("message ID %q is in two transactions, or too long", id)
			}
			all[id] = true
		}
	}
	if len(all) != messages || repeated < 3 {
		t.Errorf("%d message IDs and %d repeated attempts, want %d and 3 or more", len(all), repeated, messages)
	}
}

// testRemoteOrder is T9: what is split and what is not arrives whole and in order.
func testRemoteOrder(t *testing.T) {
	net := testserver.Network(t, 2)
	alice, bob := net[0].Register("alice"), net[1].Register("bob")
	second := net[1].Login("bob")
	filler := strings.Repeat("x", 40_000)
	for i := range 20 {
		a, b := number(2*i), number(2*i+1)
		if i%2 == 1 { // two contents that share no EDU
			a = fmt.Sprintf(`{"n":%d,"x":%q}`, 2*i, filler)
			b = fmt.Sprintf(`{"n":%d,"x":%q}`, 2*i+1, filler)
		}
		alice.SendToDevices("m.test", fmt.Sprint(i), testserver.Messages{bob.UserID: {string(bob.DeviceID): a, string(second.DeviceID): b}})
		if i == 10 {
			net[0].Restart()
		}
	}
	for k, c := range []*testserver.Client{bob, second} {
		got := append(receive(t, c, 20), c.Drain()...)
		for i, e := range got {
			var m struct {
				N int `json:"n"`
			}
			if err := json.Unmarshal(e.Content, &m); err != nil || m.N != 2*i+k || e.Sender != alice.UserID || len(got) != 20 {
				t.Fatalf("message %d of %d is %d of %s: %v", i, len(got), m.N, e.Sender, err)
			}
		}
	}
	body := testserver.Messages{bob.UserID: {"*": fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 65_536))}}.Body()
	alice.Want(http.StatusRequestEntityTooLarge, "M_TOO_LARGE", http.MethodPut, testserver.ToDevicePath("m.test", "huge"), body)
	// "*" and a device beside it that cannot share an EDU: in two, the device would get both.
	part := fmt.Sprintf(`{"x":%q}`, filler)
	body = testserver.Messages{bob.UserID: {"*": part, string(bob.DeviceID): part}, alice.UserID: {"*": part}}.Body()
	alice.Want(http.StatusRequestEntityTooLarge, "M_TOO_LARGE", http.MethodPut, testserver.ToDevicePath("m.test", "both"), body)
	alice.Sync().NoToDevice()
	if got := queued(t, net[0]); len(got) != 0 {
		t.Fatalf("%d EDUs of a request that was refused", len(got))
	}
	part = part[:32_000] + `"}` // these can
	alice.SendToDevices("m.test", "both", testserver.Messages{bob.UserID: {"*": part, string(bob.DeviceID): `{"own":1}`}})
	for c, want := range map[*testserver.Client]string{bob: `{"own":1}`, second: part} {
		if got := receive(t, c, 1); len(got) != 1 || string(got[0].Content) != want {
			t.Fatalf("%s got %d messages, %.40s first, want %.40s", c.DeviceID, len(got), got[0].Content, want)
		}
	}
}

// testReplays is T10: neither a replayed transaction nor the same EDU in a new
// one is applied again, also after a restart and a crash. Another sender's, and
// other content under the same ID, is.
func testReplays(t *testing.T) {
	hs := testserver.Network(t, 1)[0]
	peer := testserver.NewPeer(t, hs.Authority(), time.Now())
	other := testserver.NewPeer(t, hs.Authority(), time.Now())
	bob := hs.Register("bob")
	one := peer.Transaction(peer.Direct("u", "id", bob, `{"n":1}`))
	send := func(p *testserver.Peer, txn, body, want string) {
		t.Helper()
		if a := p.Send(hs, txn, body); a.Status != http.StatusOK || string(a.Body) != `{"pdus":{}}` {
			t.Fatalf("transaction %s: %s", txn, a)
		}
		wantContents(t, bob, want)
	}
	send(peer, "1", one, `{"n":1}`)
	for _, again := range []func(){func() {}, hs.Restart, hs.Crash} {
		again()
		send(peer, "1", one, "")
		send(peer, "1", peer.Transaction(peer.Direct("u", "new", bob, `{"n":1}`)), "") // the ID says that it was answered
		send(peer, bob.NextTxn(), one, "")
		send(peer, bob.NextTxn(), peer.Transaction(peer.Direct("u", "id", bob, `{ "n": 1 }`)), "") // same canonical content
	}
	send(peer, "2", peer.Transaction(peer.Direct("u", "id", bob, `{"n":2}`)), `{"n":2}`)
	send(peer, "3", peer.Transaction(peer.Direct("v", "id", bob, `{"n":1}`)), `{"n":1}`)
	send(other, "1", other.Transaction(other.Direct("u", "id", bob, `{"n":1}`)), `{"n":1}`)
	// A bad EDU is dropped, and the others of its transaction apply.
	send(peer, "4", peer.Transaction(
		peer.Direct("u", "a", bob, `{"n":4}`), other.Direct("u", "b", bob, `{"forged":1}`), `{"edu_type":"m.unknown","content":{}}`,
		`{"edu_type":"m.direct_to_device","content":{}}`, `7`, peer.Direct("u", "c", bob, `{"n":5}`), peer.Direct("u", "c", bob, `{"n":5}`),
	), `{"n":4} {"n":5}`)
	// Two copies at once: one is applied.
	var both sync.WaitGroup
	for i := range 4 {
		both.Go(func() {
			a, err := peer.Try(hs, fmt.Sprint("both", i%2), []byte(peer.Transaction(peer.Direct("u", "both", bob, `{"n":6}`))), nil)
			if err != nil || a.Status != http.StatusOK {
				t.Errorf("got %s, %v", a, err)
			}
		})
	}
	both.Wait()
	wantContents(t, bob, `{"n":6}`)
}

// testReceiverCannotWrite: a receiver whose disk fails does not answer 200, and
// the sender's retry delivers once.
func testReceiverCannotWrite(t *testing.T) {
	disk, err := faultvfs.New()
	if err != nil {
		t.Fatal(err)
	}
	net := testserver.Network(t, 2, testserver.VFS(disk.Name()), testserver.QuietLog())
	alice, bob := net[0].Register("alice"), net[1].Register("bob")
	link, armed := net[1].Link(), 0
	numbers(alice, bob, 0, 1)
	got := receive(t, bob, 1)
	emptied(t, net[0])
	link.Set(func(r *testserver.Transit) testserver.Fate {
		// The sender waits for the answer: the next sync is the receiver's.
		if r.Transaction() && armed < 5 {
			armed++
			disk.FailNext(func(c faultvfs.Call) bool { return c.WAL() && c.Op == faultvfs.Sync }, 0, 1, faultvfs.SyncError)
		}
		return testserver.Pass
	})
	pump(t, net[0], net[1])
	for i := 1; i < 10; i++ {
		numbers(alice, bob, i, i+1)
		got = append(got, receive(t, bob, 1)...)
		emptied(t, net[0])
	}
	for i, e := range append(got, bob.Drain()...) {
		if i >= 10 || string(e.Content) != number(i) {
			t.Fatalf("message %d is %s", i, e.Content)
		}
	}
	if link.Answers(http.StatusInternalServerError) == 0 {
		t.Fatal("the receiver never failed: this proves nothing")
	}
}

// testNoFederation is T11: nobody is heard of, and nobody is heard.
func testNoFederation(t *testing.T) {
	net := testserver.Network(t, 2, testserver.Config(func(c *config.Config) { c.Security.Federation.Enabled = false }))
	alice, bob := net[0].Register("alice"), net[1].Register("bob")
	alice.SendToDevice("m.test", bob, `{}`)
	if got := queued(t, net[0]); len(got) != 0 {
		t.Fatalf("%d EDUs queued", len(got))
	}
	peer := testserver.NewPeer(t, net[1].Authority(), time.Now())
	if a := peer.Send(net[1], "1", peer.Transaction(peer.Direct("u", "1", bob, `{}`))); a.Status != http.StatusNotFound || a.Code() != "M_UNRECOGNIZED" {
		t.Fatalf("got %s, want 404 M_UNRECOGNIZED", a)
	}
	if peer.Asked() != 0 {
		t.Fatal("a server without federation asked another for its keys")
	}
	bob.Sync().NoToDevice()
}

// TestOneTransactionID has two users with two devices each, all use the
// transaction ID 1 for different event types at once. All messages arrive.
func TestOneTransactionID(t *testing.T) {
	t.Parallel()
	net := testserver.Network(t, 2)
	bob := net[1].Register("bob")
	var from []*testserver.Client
	for _, name := range []string{"alice", "carol"} {
		from = append(from, net[0].Register(name), net[0].Login(name))
	}
	const types = 8
	var all sync.WaitGroup
	for i, c := range from {
		for k := range types {
			all.Go(func() {
				c.SendToDevices(fmt.Sprintf("m.type%d", k), "1", testserver.Messages{bob.UserID: {"*": number(i)}})
			})
		}
	}
	all.Wait()
	got := map[string]int{}
	for _, e := range append(receive(t, bob, len(from)*types), bob.Drain()...) {
		got[string(e.Sender)+e.Type+string(e.Content)]++
	}
	for what, n := range got {
		if n != 1 {
			t.Errorf("%s arrived %d times", what, n)
		}
	}
	if len(got) != len(from)*types {
		t.Fatalf("%d messages, want %d", len(got), len(from)*types)
	}
}
