package storage

import (
	"sync/atomic"
	"time"
)

// LatencyBuckets are the upper bounds of Stats.Latency, in milliseconds; what
// is slower than the last falls into one more.
var LatencyBuckets = [...]float64{0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000}

// BatchBuckets are the upper bounds of Stats.BatchSizes, in units.
var BatchBuckets = [...]int64{1, 2, 4, 8, 16, 32, 64, 128, 256}

// Stats is what the store counted since it was opened.
type Stats struct {
	Units      int64                          // units that committed, housekeeping included
	Failed     int64                          // units that did not
	Commits    int64                          // transactions that carried them
	Fences     int64                          // COMMITs that failed and were fenced
	Reads      int64                          // snapshots and point reads
	BatchSizes [len(BatchBuckets) + 1]int64   // commits by their number of units
	Latency    [len(LatencyBuckets) + 1]int64 // calls of Write by their duration
	LatencySum time.Duration                  // of these
	WALBytes   int64                          // size of the write-ahead log
	Degraded   bool                           // the disk refuses writes
	Pos        int64                          // the published position
	Waiters    int                            // open subscriptions
}

type counters struct {
	units, failed, commits, fences, reads atomic.Int64
	sizes                                 [len(BatchBuckets) + 1]atomic.Int64
	latency                               histogram
}

func (c *counters) committed(units int) {
	c.commits.Add(1)
	c.units.Add(int64(units))
	i := 0
	for i < len(BatchBuckets) && int64(units) > BatchBuckets[i] {
		i++
	}
	c.sizes[i].Add(1)
}

type histogram struct {
	buckets [len(LatencyBuckets) + 1]atomic.Int64
	sum     atomic.Int64
}

func (h *histogram) add(d time.Duration) {
	ms := float64(d) / float64(time.Millisecond)
	i := 0
	for i < len(LatencyBuckets) && ms > LatencyBuckets[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}

// Stats reads the counters.
func (s *Store) Stats() Stats {
	c := &s.count
	out := Stats{
		Units:      c.units.Load(),
		Failed:     c.failed.Load(),
		Commits:    c.commits.Load(),
		Fences:     c.fences.Load(),
		Reads:      c.reads.Load(),
		LatencySum: time.Duration(c.latency.sum.Load()),
		WALBytes:   s.walBytes(),
		Degraded:   s.degraded.Load(),
		Pos:        s.Pos(),
		Waiters:    s.bus.waiters(),
	}
	for i := range out.BatchSizes {
		out.BatchSizes[i] = c.sizes[i].Load()
	}
	for i := range out.Latency {
		out.Latency[i] = c.latency.buckets[i].Load()
	}
	return out
}
