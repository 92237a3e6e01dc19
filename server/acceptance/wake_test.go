package acceptance

import (
	"fmt"
	"testing"
	"time"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// TestHeardOfAgain: a server that was away is sent what waits for it as soon as
// it sends something itself, and not when the next attempt would be due: here
// the clock stands still, so that is never.
func TestHeardOfAgain(t *testing.T) {
	t.Parallel()
	now := time.Now()
	net := testserver.Network(t, 2, testserver.Clock(func() time.Time { return now }, nil), testserver.QuietLog())
	alice, bob := net[0].Register("alice"), net[1].Register("bob")
	bob.Sync()
	net[1].Link().Set(func(*testserver.Transit) testserver.Fate { return testserver.Lose })
	numbers(alice, bob, 0, 1)
	for failures(t, net[0], net[1].Name()) == 0 {
		select {
		case <-t.Context().Done():
			t.Fatal("no attempt failed")
		case <-time.After(5 * time.Millisecond):
		}
	}
	net[1].Link().Set(nil)
	const most = 100 // the first may come before the failure is known everywhere
	for i := 0; len(queued(t, net[0])) > 0; i++ {
		if i == most {
			t.Fatalf("after %d transactions of the other server what waits for it is not sent", most)
		}
		bob.SendToDevices("m.test", fmt.Sprint(i), testserver.Messages{alice.UserID: {"*": number(i)}})
		receive(t, alice, 1)
	}
	wantNumbers(t, bob, 1)
}

// failures is how often in a row a server could not reach another.
func failures(t *testing.T, hs *testserver.Server, dest matrix.ServerName) int64 {
	t.Helper()
	queues, err := hs.Outbox().Queues(t.Context(), dest)
	if err != nil {
		t.Fatal(err)
	}
	if len(queues) == 0 {
		return 0
	}
	return queues[0].Failures
}
