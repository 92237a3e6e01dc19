package web

import (
	"strconv"
	"testing"
	"time"
)

// TestLimiterIsBounded: strangers fill it as they like, and it stays small and
// remembers who was busy.
func TestLimiterIsBounded(t *testing.T) {
	t.Parallel()
	l, now := newLimiter(Limit{PerSecond: 1, Burst: 1}, 100), time.Unix(0, 0)
	if err := l.take("busy", now); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := l.take(strconv.Itoa(i), now); err != nil {
			t.Fatalf("stranger %d: %v", i, err)
		}
		if i%50 == 0 {
			if err := l.take("busy", now); err == nil {
				t.Fatalf("after %d strangers the busy one is forgotten", i)
			}
		}
		if n := len(l.young) + len(l.old); n > 200 {
			t.Fatalf("%d keys after %d strangers", n, i)
		}
	}
}
