package storage

import (
	"sync"
	"time"
)

// maxAgePerRestart bounds how far the age clock trusts the wall clock about the
// time during which nothing ran.
const maxAgePerRestart = 7 * 24 * time.Hour

// ageClock tells how old durable things are. It runs with the monotonic clock
// and is stored with every batch, so that a wall clock that starts in 1970,
// jumps, or is set back neither ages nor rejuvenates anything. Sleep does not
// count on systems whose monotonic clock stops meanwhile.
type ageClock struct {
	now  func() time.Time
	mono func() time.Duration

	mu   sync.Mutex // guards what follows
	base int64      // milliseconds at mono = from
	from time.Duration
	last int64 // the highest answer so far
}

// load sets the clock from what the file holds. A new file has never run
// (wall 0): its clock starts at the wall clock, whatever that says.
func (a *ageClock) load(age, wall int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now().UnixMilli()
	if wall == 0 {
		age, wall = max(now, 1), now
	}
	passed := min(max(now-wall, 0), maxAgePerRestart.Milliseconds())
	a.base, a.from = age+passed, a.mono()
	a.last = a.base
}

// read returns the age clock and, to be stored beside it, the wall clock.
func (a *ageClock) read() (age, wall int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = max(a.last, a.base+(a.mono()-a.from).Milliseconds())
	return a.last, a.now().UnixMilli()
}

// monotonic is the process's own steady clock.
func monotonic() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
