// Package outbox owns what waits for other homeservers: one ordered queue per
// destination, in SQLite. What is queued is queued in the transaction that
// causes it, so nothing for another server ever exists only in memory.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"hearth/storage"
	"hearth/storage/matrix"
)

// ErrFull is returned where a queue would exceed a bound. The request that
// caused it must fail: what cannot be queued is not silently dropped.
var ErrFull = errors.New("outbox: full")

// Options bound the queues. A zero value means the default, except Enabled.
type Options struct {
	Enabled                bool             // false: there are no other servers
	MaxBytesPerDestination int64            // of one queue; default 256 MiB
	MaxBytes               int64            // of all queues together; default 1 GiB
	TTL                    time.Duration    // age on the age clock at which an item is given up; default 14 days
	Concurrency            int              // destinations sent to at once; default 64
	TransactionBytes       int64            // EDUs of one transaction; default 2 MiB
	Now                    func() time.Time // wall clock, for the times of attempts; default time.Now
}

// Queue is the queues to all destinations.
type Queue struct {
	store   *storage.Store
	sender  Sender
	opt     Options
	log     *zap.Logger
	courier courier
	count   counters
}

// New makes the queues of a store. Run delivers them with sender.
func New(s *storage.Store, sender Sender, opt Options, log *zap.Logger) *Queue {
	if log == nil {
		log = zap.NewNop()
	}
	if opt.MaxBytesPerDestination == 0 {
		opt.MaxBytesPerDestination = 256 << 20
	}
	if opt.MaxBytes == 0 {
		opt.MaxBytes = 1 << 30
	}
	if opt.TTL == 0 {
		opt.TTL = 14 * 24 * time.Hour
	}
	if opt.Concurrency == 0 {
		opt.Concurrency = 64
	}
	if opt.TransactionBytes == 0 {
		opt.TransactionBytes = 2 << 20
	}
	if opt.Now == nil {
		opt.Now = time.Now //nolint:forbidigo // the default of the injected clock
	}
	return &Queue{store: s, sender: sender, opt: opt, log: log.Named("outbox"), courier: newCourier()}
}

// Messages are the contents for users of other servers: server, user, then
// device ID or "*", then content as received.
type Messages map[matrix.ServerName]map[matrix.UserID]map[string]jsontext.Value

// CheckToDevice tells whether PushToDevice could encode the messages, before
// anything is written: a content that fits no EDU is M_TOO_LARGE.
func (q *Queue) CheckToDevice(from matrix.UserID, eventType string, remote Messages) error {
	if !q.opt.Enabled {
		return nil
	}
	for _, users := range remote {
		if _, err := pack(from, eventType, users); err != nil {
			return err
		}
	}
	return nil
}

// PushToDevice queues messages of a local user for other servers, as part of
// tx: one EDU for each destination, more only where it would exceed 65,536
// bytes. Where federation is disabled it discards them, as it does messages to
// local users who do not exist.
func (q *Queue) PushToDevice(tx *storage.Tx, from matrix.UserID, eventType string, remote Messages) error {
	if !q.opt.Enabled || len(remote) == 0 {
		return nil
	}
	sender, err := tx.UserByID(from)
	if err != nil {
		return fmt.Errorf("outbox sender: %w", err)
	}
	for _, server := range slices.Sorted(maps.Keys(remote)) {
		edus, err := pack(from, eventType, remote[server])
		if err != nil {
			return err
		}
		if err := q.push(tx, server, sender.Num, edus); err != nil {
			return fmt.Errorf("queue for %s: %w", server, err)
		}
	}
	return nil
}

// push appends must-arrive EDUs to one queue.
func (q *Queue) push(tx *storage.Tx, server matrix.ServerName, sender int64, edus [][]byte) error {
	if len(edus) == 0 {
		return nil
	}
	dest, queued, err := tx.Destination(server)
	if err != nil {
		return err
	}
	var size int64
	for _, edu := range edus {
		size += int64(len(edu)) + storage.OutboxOverhead
	}
	if err := share(tx, dest, sender, size, queued, q.opt.MaxBytesPerDestination); err != nil {
		return err
	}
	_, all, err := tx.OutboxTotal()
	if err != nil {
		return err
	}
	if err := share(tx, 0, sender, size, all, q.opt.MaxBytes); err != nil {
		return err
	}
	for _, edu := range edus {
		if _, err := tx.AddEDU(dest, sender, storage.OutboxToDevice, edu); err != nil {
			return err
		}
	}
	tx.AfterCommit(func() { q.courier.kick(server) })
	return nil
}

// A sender may fill an eighth of what it leaves free in three quarters of a
// queue. The last quarter is for those who hold at most a thousandth of it.
const (
	shareOfFree = 8
	quietPart   = 1024
)

// share bounds what one sender holds of a queue, so that neither one nor many
// loud ones shut out the others. limit is the queue's, held all that it holds.
// Destination 0 is all queues.
func share(tx *storage.Tx, dest, sender, size, held, limit int64) error {
	own, err := tx.OutboxShare(dest, sender)
	if err != nil {
		return err
	}
	free := limit/4*3 - held - size
	if own+size <= free/shareOfFree || own+size <= limit/quietPart && held+size <= limit {
		return nil
	}
	return fmt.Errorf("%w: %d bytes more, %d held by the sender, %d of %d in all", ErrFull, size, own, held, limit)
}

const (
	sweepRows = 500            // of one unit
	keepIdle  = 25 * time.Hour // that a destination with nothing to do is remembered; longer than any delay
)

// Sweep gives up what has waited for too long, and forgets destinations that
// nothing is to be known of.
func (q *Queue) Sweep(ctx context.Context) error {
	var sum int64
	for n := int64(sweepRows); n >= sweepRows; {
		err := q.store.Write(ctx, "expire outbox", func(tx *storage.Tx) (err error) {
			n, err = tx.ExpireOutbox(tx.Clock()-q.opt.TTL.Milliseconds(), sweepRows)
			return err
		})
		if err != nil {
			return fmt.Errorf("expire outbox: %w", err)
		}
		sum += n
	}
	if sum > 0 {
		q.count.expired.Add(sum)
		q.log.Warn("items for other servers given up for their age", zap.Int64("items", sum))
	}
	return q.store.Write(ctx, "forget destinations", func(tx *storage.Tx) error {
		return tx.ForgetDestinations(keepIdle.Milliseconds())
	})
}
