package outbox

import (
	"sync"
	"time"

	"hearth/storage/matrix"
)

// courier knows which destinations have a worker, which want one, and when the
// table is to be read for others. None of it outlives the process, and none of
// it needs to: the table says what waits.
type courier struct {
	mu      sync.Mutex                     // guards what follows
	running map[matrix.ServerName]struct{} // have a worker
	kicked  map[matrix.ServerName]struct{} // have something new
	lined   map[matrix.ServerName]struct{} // stand in line
	line    []matrix.ServerName            // wait for a place, in the order they came
	failing map[matrix.ServerName]struct{} // wait for their next attempt
	refused map[matrix.ServerName]*refusal // answer 400 or 413
	scanAt  time.Time                      // wall clock when the table is read next
	wake    chan struct{}                  // holds one
}

func newCourier() courier {
	return courier{
		running: map[matrix.ServerName]struct{}{},
		kicked:  map[matrix.ServerName]struct{}{},
		lined:   map[matrix.ServerName]struct{}{},
		failing: map[matrix.ServerName]struct{}{},
		refused: map[matrix.ServerName]*refusal{},
		wake:    make(chan struct{}, 1),
	}
}

// kick tells that a destination has something new. It is called after COMMIT.
func (c *courier) kick(name matrix.ServerName) {
	c.mu.Lock()
	c.kicked[name] = struct{}{}
	c.mu.Unlock()
	c.poke()
}

func (c *courier) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// takeKicked puts destinations with something new in line. Those that fail
// have their time, and those that run look again before they end.
func (c *courier) takeKicked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.kicked {
		if _, running := c.running[name]; running {
			continue
		}
		delete(c.kicked, name)
		if _, failing := c.failing[name]; !failing {
			c.enqueue(name)
		}
	}
}

// enqueue appends name to the line, once. The caller holds mu.
func (c *courier) enqueue(name matrix.ServerName) {
	if _, running := c.running[name]; running {
		c.kicked[name] = struct{}{}
		return
	}
	if _, lined := c.lined[name]; !lined {
		c.lined[name] = struct{}{}
		c.line = append(c.line, name)
	}
}

// start takes the first of the line, where one of places is free.
func (c *courier) start(places int) (matrix.ServerName, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.line) == 0 || len(c.running) >= places {
		return "", false
	}
	name := c.line[0]
	c.line = c.line[1:]
	delete(c.lined, name)
	c.running[name] = struct{}{}
	return name, true
}

// end takes a worker's place back. more: its turn is over, its queue is not
// empty. A retry time that is not zero is when to look at the destination again.
func (c *courier) end(name matrix.ServerName, more bool, retry time.Time) {
	c.mu.Lock()
	delete(c.running, name)
	_, again := c.kicked[name]
	delete(c.kicked, name)
	switch {
	case !retry.IsZero():
		c.failing[name] = struct{}{}
		if retry.Before(c.scanAt) {
			c.scanAt = retry
		}
	case more || again:
		c.enqueue(name)
	}
	c.mu.Unlock()
	c.poke()
}

// scanned replaces what is known of failing destinations, puts others in line
// and sets the time of the next reading.
func (c *courier) scanned(due, failing []matrix.ServerName, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.failing)
	for _, name := range failing {
		c.failing[name] = struct{}{}
	}
	for _, name := range due {
		c.enqueue(name)
	}
	c.scanAt = next
}

// scanSoon has the table read at once.
func (c *courier) scanSoon() {
	c.mu.Lock()
	c.scanAt = time.Time{}
	c.mu.Unlock()
	c.poke()
}

func (c *courier) nextScan() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.scanAt
}

func (c *courier) fails(name matrix.ServerName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.failing[name]
	return ok
}

// refusal is how far the search for what a destination refuses has come. Lost
// at a restart, it begins again.
type refusal struct {
	times int // in a row, of the whole transaction
	edus  int // of a smaller transaction; 0: the search has not begun
}

func (c *courier) refusal(name matrix.ServerName) *refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused[name]
}

func (c *courier) setRefusal(name matrix.ServerName, r *refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r == nil {
		delete(c.refused, name)
	} else {
		c.refused[name] = r
	}
}
