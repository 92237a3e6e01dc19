package acceptance

import (
	"fmt"
	"strings"
	"testing"

	"hearth/server/config"
	"hearth/server/testserver"
)

// testBoundedInbox is T12: count and bytes are bounded, a flood evicts itself,
// whoever is quiet keeps everything, and what was evicted is counted.
func testBoundedInbox(t *testing.T) {
	t.Run("strangers", testStrangersGoFirst)
	t.Run("count", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t, testserver.Config(func(c *config.Config) { c.ToDevice.MaxMessagesPerDevice = 100 }))
		alice, bob, quiet := hs.Register("alice"), hs.Register("bob"), hs.Register("quiet")
		for i := range 10 {
			quiet.SendToDevice("m.key", bob, number(i))
		}
		for i := range 300 {
			alice.SendToDevice("m.flood", bob, number(i))
		}
		wantFloodEvicted(t, hs, bob, 10, 100, 300)
	})
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t, testserver.Config(func(c *config.Config) { c.ToDevice.MaxBytesPerDevice = 1 << 20 }))
		alice, bob, quiet := hs.Register("alice"), hs.Register("bob"), hs.Register("quiet")
		for i := range 10 {
			quiet.SendToDevice("m.key", bob, number(i))
		}
		for i := range 60 {
			alice.SendToDevice("m.flood", bob, fmt.Sprintf(`{"n":%d,"x":%q}`, i, strings.Repeat("x", 60_000)))
		}
		wantFloodEvicted(t, hs, bob, 10, 27, 60)
	})
}

// testStrangersGoFirst is the part of T12 about rooms: who shares none with the
// owner makes room before those who do, and only then.
func testStrangersGoFirst(t *testing.T) {
	for _, shared := range []bool{true, false} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			t.Parallel()
			hs := testserver.New(t, testserver.Config(func(c *config.Config) { c.ToDevice.MaxMessagesPerDevice = 100 }))
			bob, friend, stranger := hs.Register("bob"), hs.Register("friend"), hs.Register("stranger")
			room := friend.CreateRoom(`{"preset":"public_chat"}`)
			other := stranger.CreateRoom(`{"preset":"public_chat"}`)
			friend.Join(other)
			bob.Join(other)
			bob.Leave(other) // who has left shares it no more
			if shared {
				bob.Join(room)
			}
			for i := range 10 {
				stranger.SendToDevice("m.strange", bob, number(i))
			}
			for i := range 120 {
				friend.SendToDevice("m.friendly", bob, number(i))
			}
			count := map[string]int{}
			for _, e := range bob.Drain() {
				count[e.Type]++
			}
			want := 10
			if shared {
				want = 0
			}
			if count["m.strange"] != want || count["m.friendly"] < 80 {
				t.Errorf("got %v, want %d of the stranger", count, want)
			}
		})
	}
}

// wantFloodEvicted drains the victim's inbox: all quiet messages, the newest of
// the flood, no more than most in all, and the rest counted as evicted.
func wantFloodEvicted(t *testing.T, hs *testserver.Server, victim *testserver.Client, quiet, most, flood int) {
	t.Helper()
	keys, last, n := 0, -1, 0
	for _, e := range victim.Drain() {
		n++
		switch e.Type {
		case "m.key":
			if want := number(keys); string(e.Content) != want {
				t.Fatalf("quiet message %d: got %s", keys, e.Content)
			}
			keys++
		case "m.flood":
			if _, err := fmt.Sscanf(string(e.Content), `{"n":%d`, &last); err != nil {
				t.Fatalf("content %.40s: %v", e.Content, err)
			}
		}
	}
	if keys != quiet || n > most || last != flood-1 {
		t.Fatalf("got %d quiet messages of %d, %d in all of at most %d, the flood's last is %d of %d", keys, quiet, n, most, last, flood-1)
	}
	if n < most*8/10 {
		t.Errorf("only %d messages left: much more was evicted than had to be", n)
	}
	if got, want := int(hs.Inbox().Stats().Evicted), quiet+flood-n; got != want {
		t.Errorf("%d evictions counted, want %d", got, want)
	}
}
