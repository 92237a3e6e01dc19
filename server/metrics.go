package server

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"hearth/server/web"
	"hearth/storage"
)

// newMetrics registers everything that is counted. The registry is the
// server's own, so that several servers in one process do not meet.
func (s *Server) newMetrics() *web.Metrics {
	s.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		statsCollector{s},
	)
	return web.NewMetrics(s.registry)
}

// bindMetrics opens the metrics listener, if there is to be one.
func (s *Server) bindMetrics(ctx context.Context) error {
	if s.cfg.Metrics.Listen == "" {
		return nil
	}
	l, err := listen(ctx, s.cfg.Metrics.Listen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	s.sites = append(s.sites, site{l, newHTTPServer(mux, s.log), false})
	s.addrs.Metrics = addrOf(l)
	return nil
}

// statsCollector reads the counters that storage and the inbox keep themselves.
type statsCollector struct{ s *Server }

// stat is one number of theirs.
type stat struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(storage.Stats) float64
}

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("hearth_"+name, help, nil, nil)
}

var storeStats = []stat{
	{desc("store_units_total", "Units of write transactions that committed."), prometheus.CounterValue,
		func(st storage.Stats) float64 { return float64(st.Units) }},
	{desc("store_failed_units_total", "Units that did not commit."), prometheus.CounterValue,
		func(st storage.Stats) float64 { return float64(st.Failed) }},
	{desc("store_commits_total", "Transactions that carried the units."), prometheus.CounterValue,
		func(st storage.Stats) float64 { return float64(st.Commits) }},
	{desc("store_fences_total", "Commits whose outcome was unknown and had to be fenced."), prometheus.CounterValue,
		func(st storage.Stats) float64 { return float64(st.Fences) }},
	{desc("store_reads_total", "Snapshots and point reads."), prometheus.CounterValue,
		func(st storage.Stats) float64 { return float64(st.Reads) }},
	{desc("store_wal_bytes", "Size of the write-ahead log."), prometheus.GaugeValue,
		func(st storage.Stats) float64 { return float64(st.WALBytes) }},
	{desc("store_degraded", "1 while the disk refuses writes."), prometheus.GaugeValue,
		func(st storage.Stats) float64 { return boolean(st.Degraded) }},
	{desc("store_position", "The published stream position."), prometheus.GaugeValue,
		func(st storage.Stats) float64 { return float64(st.Pos) }},
	{desc("waiters", "Requests that wait for news."), prometheus.GaugeValue,
		func(st storage.Stats) float64 { return float64(st.Waiters) }},
}

var (
	writeSeconds = desc("store_write_seconds", "Duration of writes, from call to durable.")
	batchUnits   = desc("store_batch_units", "Units per commit.")

	inboxEvicted      = desc("inbox_evicted_total", "To-device messages pushed out by a limit.")
	inboxEvictedBytes = desc("inbox_evicted_bytes_total", "Bytes of these.")
	inboxExpired      = desc("inbox_expired_total", "To-device messages given up for their age.")
	inboxRepeated     = desc("inbox_repeated_total", "Incoming messages that had been applied before.")
	inboxDevices      = desc("inbox_devices", "Devices with waiting messages that memory knows of.")
	inboxBytes        = desc("inbox_mirror_bytes", "Message bodies kept in memory.")
)

// Describe implements prometheus.Collector.
func (c statsCollector) Describe(out chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, out)
}

// Collect implements prometheus.Collector.
func (c statsCollector) Collect(out chan<- prometheus.Metric) {
	st := c.s.store.Stats()
	for _, m := range storeStats {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(st))
	}
	latency := map[float64]uint64{}
	count := cumulate(st.Latency[:], func(i int, n uint64) { latency[storage.LatencyBuckets[i]/1000] = n })
	out <- prometheus.MustNewConstHistogram(writeSeconds, count, st.LatencySum.Seconds(), latency)
	sizes := map[float64]uint64{}
	count = cumulate(st.BatchSizes[:], func(i int, n uint64) { sizes[float64(storage.BatchBuckets[i])] = n })
	out <- prometheus.MustNewConstHistogram(batchUnits, count, float64(st.Units), sizes)

	in := c.s.inbox.Stats()
	counter := func(d *prometheus.Desc, n int64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n))
	}
	counter(inboxEvicted, in.Evicted)
	counter(inboxEvictedBytes, in.EvictedBytes)
	counter(inboxExpired, in.Expired)
	counter(inboxRepeated, in.Repeated)
	out <- prometheus.MustNewConstMetric(inboxDevices, prometheus.GaugeValue, float64(in.MirrorDevices))
	out <- prometheus.MustNewConstMetric(inboxBytes, prometheus.GaugeValue, float64(in.MirrorBytes))
	c.collectFederation(out)
}

// cumulate turns counts per bucket, the last one unbounded, into the running
// sums that Prometheus wants, and returns the sum of all.
func cumulate(counts []int64, bucket func(i int, n uint64)) uint64 {
	total := uint64(0)
	for i, n := range counts {
		total += uint64(max(n, 0))
		if i < len(counts)-1 {
			bucket(i, total)
		}
	}
	return total
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
