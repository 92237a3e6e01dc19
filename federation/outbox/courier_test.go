package outbox

import (
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
