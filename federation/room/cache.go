package room

import (
	"sync"

	"hearth/storage/matrix"
)

// cache keeps events of current states in their parsed form, with what the
// rules read of their contents. The power levels of a room of a thousand users
// with power take longer to parse than a message takes to be built, signed and
// stored. It is bounded in bytes, least recently used out, in two generations.
//
// An event is found by its ID, which is a hash of its redacted form and of what
// its content was. What was kept from a unit that failed, or of a room that was
// purged since, is therefore as true as any other, provided that the content is
// there: an event that came with another is stored redacted under the same ID.
type cache struct {
	mu         sync.Mutex // guards all below
	limit      int        // bytes of each generation
	size       int        // of young
	young, old map[cacheKey]*matrix.Event
}

type cacheKey struct {
	id       matrix.EventID
	redacted bool
}

// defaultCache is the bound of the cache where [Options] names none.
const defaultCache = 8 << 20

// cost is about what an event takes in memory: its JSON, and several times as
// much for what was parsed of it.
func cost(ev *matrix.Event) int { return 4*len(ev.JSON()) + 512 }

// get finds an event; nil: it is not kept.
func (c *cache) get(id matrix.EventID, redacted bool) *matrix.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := cacheKey{id, redacted}
	ev := c.young[key]
	if ev == nil {
		if ev = c.old[key]; ev != nil {
			c.add(key, ev)
		}
	}
	return ev
}

func (c *cache) put(ev *matrix.Event, redacted bool) {
	if ev.Version().IDFormat == matrix.IDServer {
		return // its sender chose the ID, and may choose it again for something else
	}
	if !redacted && !whole(ev) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if key := (cacheKey{ev.ID(), redacted}); c.young[key] == nil {
		c.add(key, ev)
	}
}

// whole tells whether an event has the content that it was made with.
func whole(ev *matrix.Event) bool {
	again, err := matrix.ParseEvent(ev.Version(), ev.JSON())
	return err == nil && again.HashOK()
}

// add puts into the young generation, which grows old when it is full.
func (c *cache) add(key cacheKey, ev *matrix.Event) {
	n := cost(ev)
	if n > c.limit {
		return
	}
	if c.young == nil || c.size+n > c.limit {
		c.old, c.young, c.size = c.young, map[cacheKey]*matrix.Event{}, 0
	}
	c.young[key] = ev
	c.size += n
}
