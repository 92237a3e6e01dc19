package inbox

import "sync/atomic"

type counters struct {
	evicted, evictedBytes, expired, repeated atomic.Int64
}

// Stats counts what happened since start, and what the mirror holds.
type Stats struct {
	Evicted, EvictedBytes int64 // messages that were pushed out by a limit
	Expired               int64 // messages given up for their age
	Repeated              int64 // EDUs of other servers that had been applied before
	MirrorDevices         int   // with messages
	MirrorBytes           int64 // of memory
	Unflushed             int   // devices whose acknowledged rows are not deleted yet
}

// Stats returns the current numbers.
func (b *Inbox) Stats() Stats {
	s := Stats{
		Evicted:      b.count.evicted.Load(),
		EvictedBytes: b.count.evictedBytes.Load(),
		Expired:      b.count.expired.Load(),
		Repeated:     b.count.repeated.Load(),
	}
	b.mirror.mu.Lock()
	defer b.mirror.mu.Unlock()
	s.MirrorDevices, s.MirrorBytes, s.Unflushed = len(b.mirror.entries), b.mirror.used, len(b.mirror.dirty)
	return s
}
