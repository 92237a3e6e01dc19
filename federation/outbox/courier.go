package outbox

import (
	"maps"
	"sync"
	"time"

	"hearth/storage/matrix"
)

// courier knows which destinations have a worker, which want one, and when the
// table is to be read for others. None of it outlives the process, and none of
// it needs to: the table says what waits.
type courier struct {
	mu      sync.Mutex                     // guards what follows
	running map[matrix.ServerName]bool     // have a worker; true: are proven
	kicked  map[matrix.ServerName]struct{} // have something new
	lined   map[matrix.ServerName]struct{} // stand in line
	line    lines                          // wait for a place
	proven  map[matrix.ServerName]struct{} // took what was sent last
	guests  int                            // of running, that are not proven
	failing map[matrix.ServerName]struct{} // wait for their next attempt
	heard   map[matrix.ServerName]struct{} // have a worker, and were heard of since it began
	hurried map[matrix.ServerName]hurry    // were tried before their time, since their last success
	refused map[matrix.ServerName]*refusal // answer 400 or 413
	scanAt  time.Time                      // wall clock when the table is read next
	again   bool                           // at once, however a reading that runs ends
	wake    chan struct{}                  // holds one
}

func newCourier() courier {
	return courier{
		running: map[matrix.ServerName]bool{},
		proven:  map[matrix.ServerName]struct{}{},
		kicked:  map[matrix.ServerName]struct{}{},
		lined:   map[matrix.ServerName]struct{}{},
		failing: map[matrix.ServerName]struct{}{},
		heard:   map[matrix.ServerName]struct{}{},
		hurried: map[matrix.ServerName]hurry{},
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
		_, proven := c.proven[name]
		c.line.push(name, proven)
	}
}

// start takes who is next, where one of places is free.
func (c *courier) start(places int) (matrix.ServerName, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.running) >= places {
		return "", false
	}
	name, proven, ok := c.line.pop(c.guests < max(1, places/2))
	if !ok {
		return "", false
	}
	if !proven {
		c.guests++
	}
	delete(c.lined, name)
	delete(c.heard, name)
	c.running[name] = proven
	return name, true
}

// end takes a worker's place back. more: its turn is over, its queue is not
// empty. A retry time that is not zero is when to look at the destination again.
func (c *courier) end(name matrix.ServerName, more bool, retry time.Time) {
	c.mu.Lock()
	if !c.running[name] {
		c.guests--
	}
	delete(c.running, name)
	delete(c.heard, name)
	_, again := c.kicked[name]
	delete(c.kicked, name)
	if retry.IsZero() {
		delete(c.failing, name)
	} else {
		c.failing[name] = struct{}{}
		if retry.Before(c.scanAt) {
			c.scanAt = retry
		}
	}
	if more || again { // a look too many finds in the table that it is not time
		c.enqueue(name)
	}
	c.mu.Unlock()
	c.poke()
}

// scanning notes that a reading begins: what scanSoon is called for from now on,
// it may not see.
func (c *courier) scanning() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.again = false
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
	maps.DeleteFunc(c.hurried, func(name matrix.ServerName, _ hurry) bool { return !c.busy(name) })
	if !c.again {
		c.scanAt = next
	}
}

// scanSoon has the table read at once.
func (c *courier) scanSoon() {
	c.mu.Lock()
	c.scanAt, c.again = time.Time{}, true
	c.mu.Unlock()
	c.poke()
}

func (c *courier) nextScan() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.scanAt
}

// busy tells whether anything waits for a destination. The caller holds mu.
func (c *courier) busy(name matrix.ServerName) bool {
	_, running := c.running[name]
	_, lined := c.lined[name]
	_, failing := c.failing[name]
	return running || lined || failing
}

// fail notes that an attempt failed, before anybody else can know it from the
// table.
func (c *courier) fail(name matrix.ServerName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing[name] = struct{}{}
	delete(c.proven, name)
}

// hurry is how often a destination was tried before its time, and when it may
// be again.
type hurry struct {
	times int
	next  time.Time
}

// The gap between two attempts before their time doubles, from the first to the
// last, until one succeeds: a server that takes nothing from us, but sends, is
// heard of all the time.
const (
	firstGap = 2 * time.Second
	lastGap  = time.Hour
)

// hear notes that a destination was heard of, and tells whether it is to be
// tried before its time. Where it is being tried, that matters if the attempt
// fails.
func (c *courier) hear(name matrix.ServerName, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, failing := c.failing[name]; failing {
		return c.mayHurry(name, now)
	}
	if _, running := c.running[name]; running {
		c.heard[name] = struct{}{}
	}
	return false
}

// wasHeard tells whether a destination was heard of while it was tried in
// vain, and is to be tried again before its time.
func (c *courier) wasHeard(name matrix.ServerName, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, heard := c.heard[name]
	delete(c.heard, name)
	return heard && c.mayHurry(name, now)
}

// mayHurry counts, where the gap since the last time is over. A gap longer than
// any is a clock that was set back. The caller holds mu.
func (c *courier) mayHurry(name matrix.ServerName, now time.Time) bool {
	h := c.hurried[name]
	if wait := h.next.Sub(now); wait > 0 && wait <= lastGap {
		return false
	}
	c.hurried[name] = hurry{h.times + 1, now.Add(min(firstGap<<min(h.times, 20), lastGap))}
	return true
}

// arrived ends the gaps of a destination: it takes what is sent.
func (c *courier) arrived(name matrix.ServerName) {
	c.mu.Lock()
	delete(c.hurried, name)
	c.mu.Unlock()
	c.prove(name)
}

// prove notes that a destination took what was sent last.
func (c *courier) prove(name matrix.ServerName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.proven[name]; !ok && len(c.proven) >= maxProven {
		for other := range c.proven { // any one: order of maps is random
			delete(c.proven, other)
			break
		}
	}
	c.proven[name] = struct{}{}
}

// refusal is how far the search for what a destination refuses has come. Lost
// at a restart, it begins again.
type refusal struct {
	times  int  // in a row, of the whole transaction
	edus   int  // of a smaller transaction; 0: the search has not begun
	alone  int  // times in a row that the first item was refused by itself
	passed bool // something was taken since the last item was given up
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
