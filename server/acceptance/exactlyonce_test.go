package acceptance

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// testExactlyOnce is T5.
func testExactlyOnce(t *testing.T) {
	t.Run("offered until acknowledged", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice, bob := hs.Register("alice"), hs.Register("bob")
		bob.Sync()
		start := bob.Since()
		alice.SendToDevice("m.test", bob, `{"n":1}`)
		bob.Sync().HasToDevice("m.test", `{"n":1}`)
		alice.SendToDevice("m.test", bob, `{"n":2}`)
		// The answer got lost: the same since again has both, in order.
		lost := bob.Since()
		bob.Rewind(start)
		if got := contents(bob.Sync().ToDevice.Events); got != `{"n":1} {"n":2}` {
			t.Fatalf("got %s, want both", got)
		}
		// The token of the first answer acknowledges the first message only.
		bob.Rewind(lost)
		bob.Sync().HasToDevice("m.test", `{"n":2}`)
		bob.Sync().NoToDevice()
		// Acknowledged means gone, also for an older token and for none, also
		// after a clean restart.
		bob.Rewind(start)
		bob.Sync().NoToDevice()
		bob.Rewind("")
		bob.Sync().NoToDevice()
		hs.Restart()
		bob.Rewind("")
		bob.Sync().NoToDevice()
	})
	t.Run("first sync without acknowledging repeats", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice, bob := hs.Register("alice"), hs.Register("bob")
		alice.SendToDevice("m.test", bob, `{"n":1}`)
		for range 3 {
			bob.Rewind("")
			bob.Sync().HasToDevice("m.test", `{"n":1}`)
		}
		bob.Sync().NoToDevice()
	})
	t.Run("tokens acknowledge for their own incarnation", testForeignTokens)
	t.Run("two polls of one device", testTwoPolls)
	t.Run("order and restarts", testOrder)
	t.Run("a waiting poll is answered", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice, bob := hs.Register("alice"), hs.Register("bob")
		bob.Sync()
		for i := range 50 {
			got := make(chan *testserver.Sync)
			go func() {
				s, _ := bob.SyncFrom(t.Context(), bob.Since(), time.Minute)
				got <- s
			}()
			alice.SendToDevice("m.test", bob, number(i))
			s := <-got
			if s == nil {
				t.Fatal("the poll failed")
			}
			s.HasToDevice("m.test", number(i))
			bob.Rewind(s.NextBatch)
		}
	})
}

// testForeignTokens presents tokens that must not be believed: none of them
// acknowledges anything, and each is answered by a full sync.
func testForeignTokens(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	tablet := hs.Login("bob")
	tablet.Sync()
	bob.Sync()
	old := bob.Since()
	alice.SendToDevices("m.test", "1", testserver.Messages{bob.UserID: {"*": `{"n":1}`}})
	tablet.Sync().HasToDevice("m.test", `{"n":1}`) // tablet's next token covers the message
	for what, since := range map[string]string{
		"another device": tablet.Since(),
		"the future":     forge(t, tablet.Since(), bob.Since(), 1_000_000),
	} {
		bob.Rewind(since)
		if s := bob.Sync().HasToDevice("m.test", `{"n":1}`); s.Raw["device_lists"] != nil {
			t.Errorf("token of %s: answered by an incremental sync", what)
		}
	}
	bob.Rewind(old)
	bob.Sync().HasToDevice("m.test", `{"n":1}`)

	// The same device ID, logged out and in again, is another incarnation.
	stale := bob.Since() // would acknowledge message 1
	bob.Must(http.MethodPost, "/_matrix/client/v3/logout", `{}`)
	again := hs.LoginAs("bob", bob.DeviceID)
	alice.SendToDevice("m.test", again, `{"n":2}`)
	again.Rewind(stale)
	again.Sync().HasToDevice("m.test", `{"n":2}`)
	again.Rewind(stale)
	again.Sync().HasToDevice("m.test", `{"n":2}`)
	again.Want(http.StatusBadRequest, matrix.InvalidParam, http.MethodGet, "/_matrix/client/v3/sync?since=s72594_4483_1934", nil)
}

// testTwoPolls polls twice at once with the same token: both get the message,
// neither loses it, and it is gone once acknowledged.
func testTwoPolls(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	bob.Sync()
	for i := range 20 {
		since := bob.Since()
		next := make([]string, 2)
		var wg sync.WaitGroup
		for k := range next {
			wg.Go(func() {
				s, err := bob.SyncFrom(t.Context(), since, time.Minute)
				if err != nil || contents(s.ToDevice.Events) != number(i) {
					t.Errorf("poll %d of round %d: got %+v, %v", k, i, s, err)
					return
				}
				next[k] = s.NextBatch
			})
		}
		alice.SendToDevice("m.test", bob, number(i))
		if wg.Wait(); t.Failed() {
			return
		}
		bob.Rewind(next[i%2])
		bob.Sync().NoToDevice()
	}
}

// testOrder has several senders and one reader that loses answers, while the
// server restarts and crashes: each message arrives once, and each sender's in
// the order it sent them.
func testOrder(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	bob := hs.Register("bob")
	const senders, rounds = 4, 6
	alices := make([]*testserver.Client, senders)
	for i := range alices {
		alices[i] = hs.Register(fmt.Sprintf("alice%d", i))
	}
	var got []testserver.Event
	per := 10
	for round := range rounds {
		var wg sync.WaitGroup
		for k, alice := range alices {
			wg.Go(func() {
				for i := range per {
					m := testserver.Messages{bob.UserID: {"*": number(round*per + i)}}
					sendOK(t, alice, fmt.Sprintf("%d-%d-%d", k, round, i), m)
				}
			})
		}
		for range per {
			since := bob.Since()
			events := bob.Sync().ToDevice.Events
			if rand.IntN(3) == 0 { // this answer got lost
				bob.Rewind(since)
				continue
			}
			got = append(got, events...)
		}
		wg.Wait()
		if round%2 == 0 {
			hs.Restart()
		} else {
			hs.Crash()
		}
	}
	got = append(got, bob.Drain()...)
	next := map[matrix.UserID]int{}
	for _, e := range got {
		if want := number(next[e.Sender]); string(e.Content) != want {
			t.Fatalf("from %s: got %s, want %s", e.Sender, e.Content, want)
		}
		next[e.Sender]++
	}
	if len(got) != senders*rounds*per {
		t.Fatalf("got %d messages, want %d", len(got), senders*rounds*per)
	}
}

// testCutResponse is T6.
func testCutResponse(t *testing.T) {
	t.Run("count", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice, bob := hs.Register("alice"), hs.Register("bob")
		bob.Sync()
		start := bob.Since()
		for i := range 250 {
			alice.SendToDevice("m.test", bob, number(i))
		}
		n := 0
		for _, want := range []int{100, 100, 50} {
			s := bob.Poll() // the rest follows at once, however long it may wait
			wantCut(t, s, want < 100, position(t, start))
			for _, e := range s.ToDevice.Events {
				if string(e.Content) != number(n) {
					t.Fatalf("message %d: got %s", n, e.Content)
				}
				n++
			}
			if len(s.ToDevice.Events) != want {
				t.Fatalf("got %d messages, want %d", len(s.ToDevice.Events), want)
			}
		}
		bob.Sync().NoToDevice()
	})
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice, bob := hs.Register("alice"), hs.Register("bob")
		bob.Sync()
		start := bob.Since()
		const count, size = 50, 60_000 // 3 MB
		for i := range count {
			alice.SendToDevice("m.test", bob, fmt.Sprintf(`{"n":%d,"x":"%s"}`, i, strings.Repeat("x", size)))
		}
		n, answers := 0, 0
		for n < count {
			s := bob.Poll()
			total := 0
			for _, e := range s.ToDevice.Events {
				total += len(e.Content)
				if !strings.HasPrefix(string(e.Content), fmt.Sprintf(`{"n":%d,`, n)) {
					t.Fatalf("message %d: got %.20s", n, e.Content)
				}
				n++
			}
			if total > 1<<20 || total == 0 {
				t.Fatalf("answer %d has %d bytes of content, want at most 1 MiB and some", answers, total)
			}
			wantCut(t, s, n == count, position(t, start))
			answers++
		}
		if answers != 3 {
			t.Fatalf("took %d answers, want 3", answers)
		}
	})
	t.Run("first sync", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice, bob := hs.Register("alice"), hs.Register("bob")
		for i := range 150 {
			alice.SendToDevice("m.test", bob, number(i))
		}
		// The first sync is cut; the rest of it is still a first sync.
		wantCut(t, bob.Poll(), false, 0)
		s := bob.Poll()
		wantCut(t, s, true, 0)
		if len(s.ToDevice.Events) != 50 || s.Raw["device_lists"] != nil {
			t.Fatalf("got %d messages and device_lists %s, want the last 50 and none", len(s.ToDevice.Events), s.Raw["device_lists"])
		}
	})
}

// wantCut checks which sections an answer has, and where its token stands.
func wantCut(t *testing.T, s *testserver.Sync, whole bool, start int64) {
	t.Helper()
	for _, key := range []string{"rooms", "presence", "account_data"} {
		if have := s.Raw[key] != nil; have != whole {
			t.Fatalf("section %s present: %v, want %v", key, have, whole)
		}
	}
	for _, key := range []string{"to_device", "device_one_time_keys_count", "device_unused_fallback_key_types"} {
		if s.Raw[key] == nil {
			t.Fatalf("section %s is missing", key)
		}
	}
	if pos := position(t, s.NextBatch); (pos == start) == whole {
		t.Fatalf("the token's position is %d from %d, want it moved: %v", pos, start, whole)
	}
}

// testWildcard is T7.
func testWildcard(t *testing.T) {
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	phone, tablet, other := hs.Login("bob"), hs.Login("bob"), hs.Login("alice")
	gone := hs.Login("bob")
	gone.Must(http.MethodPost, "/_matrix/client/v3/logout", `{}`)

	alice.SendToDevices("m.test", "1", testserver.Messages{
		bob.UserID: {
			"*":                     `{"to":"all"}`,
			string(tablet.DeviceID): `{"to":"tablet"}`,
			string(gone.DeviceID):   `{"to":"gone"}`,
			"NOSUCH":                `{"to":"nobody"}`,
		},
		alice.UserID:                                          {"*": `{"to":"me"}`},
		matrix.NewUserID("nobody", hs.Name()):                 {"*": `{}`, "X": `{}`},
		matrix.NewUserID("no such user!", hs.Name()):          {"*": `{}`},
		matrix.UserID("@:" + string(hs.Name())):               {"*": `{}`},
		matrix.NewUserID("NOBODY", hs.Name()):                 {"*": `{}`},
		matrix.NewUserID("böb\u200b", hs.Name()):              {"*": `{}`},
		matrix.NewUserID(strings.Repeat("x", 200), hs.Name()): {"*": `{}`},
	})
	for _, c := range []*testserver.Client{bob, phone} {
		wantContents(t, c, `{"to":"all"}`)
	}
	wantContents(t, tablet, `{"to":"tablet"}`)
	wantContents(t, alice, `{"to":"me"}`)
	wantContents(t, other, `{"to":"me"}`)

	// A device made afterwards, and one that takes a dead one's ID, get nothing.
	wantContents(t, hs.Login("bob"), ``)
	wantContents(t, hs.LoginAs("bob", gone.DeviceID), ``)
}
