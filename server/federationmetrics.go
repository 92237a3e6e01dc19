package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"hearth/federation/inbound"
	"hearth/federation/outbox"
	"hearth/storage"
)

// total is a counter that a part keeps itself.
type total[C any] struct {
	desc *prometheus.Desc
	of   func(C) int64
}

var outboxTotals = []total[outbox.Counts]{
	{desc("outbox_transactions_total", "Transactions delivered to other servers."), func(c outbox.Counts) int64 { return c.Transactions }},
	{desc("outbox_edus_total", "EDUs in these."), func(c outbox.Counts) int64 { return c.EDUs }},
	{desc("outbox_failures_total", "Attempts to deliver that failed."), func(c outbox.Counts) int64 { return c.Failures }},
	{desc("outbox_given_up_total", "Items that another server refused by themselves, and that were given up."), func(c outbox.Counts) int64 { return c.GivenUp }},
	{desc("outbox_expired_total", "Items for other servers that were given up for their age."), func(c outbox.Counts) int64 { return c.Expired }},
}

var inboundTotals = []total[inbound.Counts]{
	{desc("inbound_transactions_total", "Transactions of other servers that were applied."), func(c inbound.Counts) int64 { return c.Transactions }},
	{desc("inbound_replayed_total", "Transactions that had been applied before."), func(c inbound.Counts) int64 { return c.Replayed }},
	{desc("inbound_busy_total", "Transactions turned away, as too many of the same server waited."), func(c inbound.Counts) int64 { return c.Busy }},
	{desc("inbound_full_total", "Transactions turned away, as too much was remembered of their servers."), func(c inbound.Counts) int64 { return c.Full }},
	{desc("inbound_edus_total", "EDUs that were applied."), func(c inbound.Counts) int64 { return c.EDUs }},
	{desc("inbound_dropped_total", "EDUs, or messages in them, that no server may send."), func(c inbound.Counts) int64 { return c.Dropped }},
	{desc("inbound_ignored_total", "EDUs of kinds that mean nothing to this server."), func(c inbound.Counts) int64 { return c.Ignored }},
	{desc("inbound_refused_pdus_total", "Events that were refused."), func(c inbound.Counts) int64 { return c.PDUs }},
}

var (
	outboxItems = desc("outbox_items", "Items that wait for other servers.")
	outboxBytes = desc("outbox_bytes", "Bytes of these.")
)

// collectFederation reads what goes to and comes from other servers.
func (c statsCollector) collectFederation(out chan<- prometheus.Metric) {
	counts(out, outboxTotals, c.s.outbox.Counts())
	counts(out, inboundTotals, c.s.inbound.Counts())
	var items, bytes int64
	err := c.s.store.Read(context.Background(), "outbox metrics", func(rx *storage.Rx) (err error) {
		items, bytes, err = rx.OutboxTotal()
		return err
	})
	if err != nil {
		c.s.log.Warn("the outbox cannot be measured", zap.Error(err))
		return
	}
	out <- prometheus.MustNewConstMetric(outboxItems, prometheus.GaugeValue, float64(items))
	out <- prometheus.MustNewConstMetric(outboxBytes, prometheus.GaugeValue, float64(bytes))
}

func counts[C any](out chan<- prometheus.Metric, totals []total[C], now C) {
	for _, t := range totals {
		out <- prometheus.MustNewConstMetric(t.desc, prometheus.CounterValue, float64(t.of(now)))
	}
}
