package outbox

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hearth/storage"
	"hearth/storage/matrix"
)

// Sender carries one transaction to another server and returns once it was
// answered with success. It is remote.Client outside of tests.
type Sender interface {
	SendTransaction(ctx context.Context, to matrix.ServerName, txnID string, body []byte) ([]byte, error)
}

const (
	scanPage   = 500              // destinations read at once
	rescan     = 10 * time.Minute // whatever happens
	troubled   = 5 * time.Second  // until the next look after an error of our own
	farFuture  = 25 * time.Hour   // no attempt lies further ahead, unless a clock was wrong
	asleepFor  = time.Minute      // by which the wall clock overtakes the monotonic one in sleep
	watchEvery = 30 * time.Second
)

// counters are totals since the start.
type counters struct {
	transactions, edus, failures, givenUp, expired atomic.Int64
}

// Counts are totals since the start.
type Counts struct {
	Transactions, EDUs int64 // delivered
	Failures           int64 // attempts
	GivenUp, Expired   int64 // items that were refused, or too old
}

// Counts returns totals since the start.
func (q *Queue) Counts() Counts {
	return Counts{
		Transactions: q.count.transactions.Load(), EDUs: q.count.edus.Load(), Failures: q.count.failures.Load(),
		GivenUp: q.count.givenUp.Load(), Expired: q.count.expired.Load(),
	}
}

// Run delivers what is queued until ctx ends, then waits for its workers. What
// they were sending is sent again by the next Run, as the same transaction.
func (q *Queue) Run(ctx context.Context) error {
	if !q.opt.Enabled || q.sender == nil {
		return nil
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() { q.watchSleep(ctx) })
	c := &q.courier
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		c.takeKicked()
		if wait := c.nextScan().Sub(q.opt.Now()); wait <= 0 || wait > rescan { // the clock was set back
			q.scan(ctx)
		}
		for name, ok := c.start(q.opt.Concurrency); ok; name, ok = c.start(q.opt.Concurrency) {
			workers.Go(func() { q.work(ctx, name) })
		}
		timer.Reset(c.nextScan().Sub(q.opt.Now()))
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-timer.C:
		}
	}
	return nil
}

// scan reads the table: who is due goes in line, and the next reading is when
// another one will be.
func (q *Queue) scan(ctx context.Context) {
	now := q.opt.Now()
	next := now.Add(rescan)
	q.courier.scanning()
	var due, failing []matrix.ServerName
	for after, n := int64(0), scanPage; n == scanPage; {
		var list []storage.Destination
		err := q.store.Read(ctx, "outbox scan", func(rx *storage.Rx) (err error) {
			list, err = rx.WaitingDestinations(after, scanPage)
			return err
		})
		if err != nil {
			if ctx.Err() == nil {
				q.log.Error("cannot read the queues", zap.Error(err))
			}
			next = now.Add(troubled)
			break
		}
		for _, d := range list {
			after = d.Num
			if at := attemptAt(d, now); at.After(now) {
				failing = append(failing, d.Name)
				next = earlier(next, at)
			} else {
				due = append(due, d.Name)
			}
			if d.Failures == 0 && d.SuccessMS != 0 {
				q.courier.prove(d.Name)
			}
		}
		n = len(list)
	}
	q.courier.scanned(due, failing, next)
}

// attemptAt is when the destination may be tried next. A time too far ahead
// was set by a clock that has been put right since.
func attemptAt(d storage.Destination, now time.Time) time.Time {
	at := time.UnixMilli(d.RetryMS)
	if d.RetryMS == 0 || at.Sub(now) > farFuture {
		return now
	}
	return at
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// work has one turn with a destination.
func (q *Queue) work(ctx context.Context, name matrix.ServerName) {
	more, retry, err := q.turn(ctx, name)
	if err != nil {
		more, retry = false, q.opt.Now().Add(troubled)
		if ctx.Err() == nil {
			q.log.Error("cannot work on a queue", zap.String("dest", string(name)), zap.Error(err))
		}
	}
	q.courier.end(name, more, retry)
}

// turn is deliver with a panic turned into an error.
func (q *Queue) turn(ctx context.Context, name matrix.ServerName) (more bool, retry time.Time, err error) {
	defer func() {
		if r := recover(); r != nil {
			q.log.Error("panic while sending", zap.String("dest", string(name)), zap.Any("panic", r), zap.Stack("stack"))
			err = fmt.Errorf("panic while sending: %v", r)
		}
	}()
	return q.deliver(ctx, name)
}

// Wake makes the next attempt at once where a server fails: it was heard of,
// so it is back. It costs nothing where the server does not fail, and does
// nothing where it was just tried for the same reason, in vain.
func (q *Queue) Wake(ctx context.Context, name matrix.ServerName) error {
	if !q.courier.hear(name, q.opt.Now()) {
		return nil
	}
	_, err := q.Retry(ctx, name)
	return err
}

// Retry makes the next attempt for a server at once, or for all where name is
// empty, and tells for how many that was sooner than planned.
func (q *Queue) Retry(ctx context.Context, name matrix.ServerName) (n int64, err error) {
	err = q.store.Write(ctx, "outbox retry", func(tx *storage.Tx) (err error) {
		n, err = tx.RetryDestinations(name)
		tx.AfterCommit(q.courier.scanSoon)
		return err
	})
	return n, err
}

// watchSleep tries everything again after the machine was suspended: the
// attempts before that failed for want of a network. The monotonic clock
// stands still in sleep.
func (q *Queue) watchSleep(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	last := time.Now() //nolint:forbidigo // both clocks of the machine are compared
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now() //nolint:forbidigo // as above
		if now.Round(0).Sub(last.Round(0))-now.Sub(last) > asleepFor {
			if _, err := q.Retry(ctx, ""); err != nil && ctx.Err() == nil {
				q.log.Warn("cannot retry after sleep", zap.Error(err))
			}
		}
		last = now
	}
}

// Queues lists what waits for other servers, by name; for one server, where
// only is not empty.
func (q *Queue) Queues(ctx context.Context, only matrix.ServerName) (list []storage.OutboxQueue, err error) {
	err = q.store.Read(ctx, "outbox queues", func(rx *storage.Rx) error {
		for after := matrix.ServerName(""); ; {
			page, err := rx.OutboxQueues(after, scanPage)
			if err != nil {
				return err
			}
			for _, d := range page {
				if after = d.Name; only == "" || only == d.Name {
					list = append(list, d)
				}
			}
			if len(page) < scanPage {
				return nil
			}
		}
	})
	return list, err
}
