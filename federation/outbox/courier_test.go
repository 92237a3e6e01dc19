package outbox

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hearth/storage/matrix"
)

// Whatever is queued while a worker runs, be it after the worker's last look at
// the table, finds a worker.
func TestKickOfARunningDestination(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]bool{"before Run looks": true, "after the worker's end": false} {
		c := newCourier()
		c.kick(there)
		c.takeKicked()
		if got, ok := c.start(1); !ok || got != there {
			t.Fatalf("%s: got %q, %t", name, got, ok)
		}
		c.kick(there)
		if look {
			c.takeKicked()
		}
		c.end(there, false, time.Time{})
		c.takeKicked()
		if got, ok := c.start(1); !ok || got != there {
			t.Errorf("%s: got %q, %t, want it to run again", name, got, ok)
		}
		if _, ok := c.start(9); ok {
			t.Errorf("%s: it runs twice at once", name)
		}
	}
}

// A turn that is over goes to the end of the line.
func TestTurnsAreFair(t *testing.T) {
	t.Parallel()
	c := newCourier()
	c.scanned([]matrix.ServerName{"a", "b", "c"}, nil, time.Time{})
	var order string
	for range 6 {
		name, ok := c.start(1)
		if !ok {
			t.Fatal("nobody in line")
		}
		order += string(name)
		c.end(name, true, time.Time{})
	}
	if order != "abcabc" {
		t.Errorf("got %s, want abcabc", order)
	}
}

// A destination that was heard of is tried before its time, but not again and
// again: the gap doubles, until it takes something.
func TestGapsBetweenHurriedAttempts(t *testing.T) {
	t.Parallel()
	c, now := newCourier(), time.UnixMilli(1_800_000_000_000)
	if c.hear(there, now) {
		t.Fatal("hurried, and does not fail")
	}
	c.fail(there)
	times := 0
	for end := now.Add(24 * time.Hour); now.Before(end); now = now.Add(time.Second) {
		if c.hear(there, now) {
			times++
		}
	}
	if times < 30 || times > 40 { // 11 in the first hour, then one each hour
		t.Errorf("hurried %d times in a day", times)
	}
	c.arrived(there)
	if !c.hear(there, now) {
		t.Error("not hurried, though it took something since")
	}
	if !c.hear(there, now.Add(-100*time.Hour)) {
		t.Error("not hurried after the clock was set back")
	}
	c.scanned(nil, nil, now)
	if len(c.hurried) != 0 {
		t.Error("remembers gaps of a destination for which nothing waits")
	}
}

// A destination that is heard of between a failure and the end of the worker
// finds another worker, and once it has taken everything it counts as well.
func TestHeardOfWhileTheWorkerEnds(t *testing.T) {
	t.Parallel()
	c, now := newCourier(), time.UnixMilli(1_800_000_000_000)
	c.kick(there)
	c.takeKicked()
	c.start(1)
	c.fail(there) // the failure is committed
	if !c.hear(there, now) {
		t.Fatal("not hurried")
	}
	c.scanned([]matrix.ServerName{there}, nil, now.Add(rescan)) // as Retry has it
	c.end(there, false, now.Add(time.Hour))                     // the worker does not know yet
	if _, ok := c.start(1); !ok {
		t.Fatal("nobody tries it")
	}
	c.end(there, false, time.Time{})
	c.kick(there)
	c.takeKicked()
	if _, ok := c.start(1); !ok {
		t.Error("it took everything, and counts as failing")
	}
}

// What is to be looked at while the table is being read is looked at again.
func TestRetryWhileTheTableIsRead(t *testing.T) {
	t.Parallel()
	c, now := newCourier(), time.UnixMilli(1_800_000_000_000)
	c.scanning()
	c.scanSoon()
	c.scanned(nil, []matrix.ServerName{there}, now.Add(time.Hour))
	if c.nextScan().After(now) {
		t.Error("the reading that saw nothing yet put off the next one")
	}
}

// Any number of names that never answer leave half of the places to those that
// take what they are sent, and wait their turn like these.
func TestNamesThatNeverAnswer(t *testing.T) {
	t.Parallel()
	c := newCourier()
	for i := range 1000 {
		c.kick(matrix.ServerName(fmt.Sprintf("made-up%d.test", i)))
	}
	c.takeKicked()
	hanging := 0
	for _, ok := c.start(8); ok; _, ok = c.start(8) {
		hanging++
	}
	if hanging != 4 {
		t.Fatalf("%d of 8 places are taken", hanging)
	}
	for _, name := range []matrix.ServerName{"a.test", "b.test"} {
		c.arrived(name)
		c.kick(name)
		c.takeKicked()
		if got, ok := c.start(8); !ok || got != name {
			t.Fatalf("got %q, %t, want %s to be sent to", got, ok, name)
		}
	}
	// One that fails is a guest from then on, and gives its place back as what it was.
	c.fail("a.test")
	c.end("a.test", true, time.Time{})
	if got, ok := c.start(8); ok {
		t.Errorf("%s runs, and is not known to be well", got)
	}
	c.end("b.test", true, time.Time{})
	c.end("made-up0.test", false, time.Time{})
	names := []matrix.ServerName{}
	for name, ok := c.start(8); ok; name, ok = c.start(8) {
		names = append(names, name)
	}
	if len(names) != 2 || !slices.Contains(names, "b.test") {
		t.Errorf("got %v, want b.test and one more", names)
	}
}
