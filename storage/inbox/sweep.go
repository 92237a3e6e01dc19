package inbox

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"hearth/storage"
)

// How long things are kept on the age clock.
const (
	keepReceived     = 30 * 24 * time.Hour
	keepTransactions = 14 * 24 * time.Hour
	keepSenders      = 30 * 24 * time.Hour // that nobody waits for
)

const (
	sweepEvery = time.Hour
	sweepRows  = 500 // of one unit
)

// loss is an eviction.
type loss struct {
	device   int64
	messages int
	bytes    int64
}

// Run sweeps what has expired, at once and then every hour, and logs evictions,
// until ctx ends.
func (b *Inbox) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := b.Sweep(ctx); err != nil && ctx.Err() == nil {
			b.log.Error("sweep failed", zap.Error(err))
		}
		for again := false; !again; {
			select {
			case <-ctx.Done():
				return nil
			case l := <-b.lost:
				b.log.Warn("inbox full, messages evicted", zap.Int64("device", l.device),
					zap.Int("messages", l.messages), zap.Int64("bytes", l.bytes))
			case <-tick.C:
				again = true
			}
		}
	}
}

// Sweep deletes what has expired: messages, records of transactions and of
// received EDUs, senders nobody waits for; and what devices acknowledged.
func (b *Inbox) Sweep(ctx context.Context) error {
	err := b.sweep(ctx, "expire to-device", b.expireMessages)
	if err == nil {
		err = b.sweep(ctx, "expire transactions", func(tx *storage.Tx) (int64, error) {
			return tx.ExpireTransactions(tx.Clock()-keepTransactions.Milliseconds(), sweepRows)
		})
	}
	if err == nil {
		err = b.sweep(ctx, "expire received EDUs", func(tx *storage.Tx) (int64, error) {
			return tx.ExpireReceived(tx.Clock()-keepReceived.Milliseconds(), sweepRows)
		})
	}
	if err == nil {
		err = b.store.Write(ctx, "delete acknowledged to-device", b.deleteAcknowledged)
	}
	if err == nil {
		err = b.sweepSenders(ctx)
	}
	return err
}

// sweep repeats a unit until it has little to do.
func (b *Inbox) sweep(ctx context.Context, why string, fn func(*storage.Tx) (int64, error)) error {
	for n := int64(sweepRows); n >= sweepRows; {
		err := b.store.Write(ctx, why, func(tx *storage.Tx) (err error) {
			n, err = fn(tx)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", why, err)
		}
	}
	return nil
}

func (b *Inbox) expireMessages(tx *storage.Tx) (int64, error) {
	lost, err := tx.ExpireToDevice(tx.Clock()-b.opt.TTL.Milliseconds(), sweepRows)
	if err != nil || len(lost) == 0 {
		return 0, err
	}
	var sum int64
	for device, n := range lost {
		totals, err := tx.InboxTotals(device)
		if err != nil {
			return 0, err
		}
		label := tx.NextPos()
		tx.AfterCommit(func() { b.mirror.removed(label, device, totals, nil) })
		sum += n
	}
	tx.AfterCommit(func() { b.count.expired.Add(sum) })
	return sum, nil
}

func (b *Inbox) sweepSenders(ctx context.Context) error {
	for after, full := int64(0), true; full; {
		var unused []int64
		var before, snapshot int64
		err := b.store.Read(ctx, "unused senders", func(rx *storage.Rx) (err error) {
			before, snapshot = rx.Clock()-keepSenders.Milliseconds(), rx.Pos()
			unused, err = rx.UnusedSenders(after, before, sweepRows)
			return err
		})
		if err != nil || len(unused) == 0 {
			return err
		}
		err = b.store.Write(ctx, "forget senders", func(tx *storage.Tx) error {
			return tx.ForgetSenders(unused, before, snapshot)
		})
		if err != nil {
			return err
		}
		after, full = unused[len(unused)-1], len(unused) == sweepRows
	}
	return nil
}
