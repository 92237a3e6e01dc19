package acceptance

import (
	"sync/atomic"
	"testing"
	"time"

	"hearth/server/testserver"
)

// clock is a clock that a test moves: wall and steady time together.
type clock struct{ ahead atomic.Int64 }

func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }
func (c *clock) now() time.Time          { return time.Unix(1_800_000_000, 0).Add(c.mono()) }
func (c *clock) mono() time.Duration     { return time.Duration(c.ahead.Load()) }

// testRecordAge is the rest of T4: records are kept for 14 days, and are gone
// afterwards.
func testRecordAge(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	var c clock
	hs := testserver.New(t, testserver.Clock(c.now, c.mono))
	alice, bob := hs.Register("alice"), hs.Register("bob")
	m := testserver.Messages{bob.UserID: {"*": `{"n":1}`}}
	alice.SendToDevices("m.test", "t", m)
	bob.Sync().HasToDevice("m.test", `{"n":1}`)
	for range 13 {
		c.advance(day)
		sweep(t, hs)
		alice.SendToDevices("m.test", "t", m)
		bob.Sync().NoToDevice()
	}
	c.advance(2 * day)
	sweep(t, hs)
	alice.SendToDevices("m.test", "t", m)
	bob.Sync().HasToDevice("m.test", `{"n":1}`)
}

func sweep(t *testing.T, hs *testserver.Server) {
	t.Helper()
	if err := hs.Inbox().Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
}
