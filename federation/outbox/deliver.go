package outbox

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"hearth/federation/remote"
	"hearth/storage"
	"hearth/storage/matrix"
)

const (
	maxEDUs       = 100 // of one transaction. Server-Server API, "Transactions"
	batchesOfTurn = 16  // before others in line have theirs
	refusals      = 3   // of the same transaction before it is taken apart
	firstDelay    = 2 * time.Second
	longestDelay  = time.Hour // in the first day of failing
	dailyDelay    = 24 * time.Hour
)

// deliver sends one transaction after the other to a destination. more tells
// that there are others and its turn is over; a retry time that is not zero,
// when the next attempt is due. An error is of our own making.
func (q *Queue) deliver(ctx context.Context, name matrix.ServerName) (more bool, retry time.Time, err error) {
	for range batchesOfTurn {
		d, b, id, err := q.next(ctx, name)
		if err != nil || len(b.Rows) == 0 {
			return false, time.Time{}, err
		}
		if at := attemptAt(d, q.opt.Now()); at.After(q.opt.Now()) {
			return false, at, nil
		}
		_, err = q.sender.SendTransaction(ctx, name, id, q.transaction(b))
		if ctx.Err() != nil {
			return false, time.Time{}, ctx.Err() // answered or not: the same one is sent again
		}
		if err == nil {
			err = q.delivered(ctx, d, b)
		} else {
			retry, err = q.failed(ctx, d, b, err)
		}
		if err != nil || !retry.IsZero() {
			return false, retry, err
		}
	}
	return true, time.Time{}, nil
}

// next reads the transaction to send. Where that is a new one, its end is
// committed before anything leaves: the specification allows no other
// transaction until this one was answered.
func (q *Queue) next(ctx context.Context, name matrix.ServerName) (d storage.Destination, b storage.Batch, id string, err error) {
	limit := storage.BatchLimit{EDUs: maxEDUs, Bytes: q.opt.TransactionBytes}
	if r := q.courier.refusal(name); r != nil && r.edus > 0 {
		limit.EDUs = r.edus
	}
	err = q.store.Read(ctx, "outbox batch", func(rx *storage.Rx) (err error) {
		if d, err = rx.DestinationState(name); err != nil {
			return err
		}
		if b, err = rx.NextBatch(d.Num, limit); err != nil || len(b.Rows) == 0 {
			return err
		}
		id = transactionID(rx.Epoch(), b)
		return nil
	})
	if errors.Is(err, storage.ErrNotFound) {
		return d, storage.Batch{}, "", nil
	}
	if err != nil || len(b.Rows) == 0 || b.Open {
		return d, b, id, err
	}
	err = q.store.Write(ctx, "outbox begin", func(tx *storage.Tx) error { return tx.BeginBatch(d.Num, b.Last()) })
	return d, b, id, err
}

// transactionID names a batch. Positions are never used again in an epoch, so
// neither is the name; and the same batch has the same one after a crash.
func transactionID(epoch int64, b storage.Batch) string {
	return strconv.FormatInt(epoch, 36) + "-" + strconv.FormatInt(b.First(), 36) + "-" + strconv.FormatInt(b.Last(), 36)
}

// transaction is the body of PUT /_matrix/federation/v1/send/{txnId}.
func (q *Queue) transaction(b storage.Batch) []byte {
	body := []byte(`{"origin":`)
	body, _ = jsontext.AppendQuote(body, string(q.store.ServerName())) // a server name is ASCII
	body = append(body, `,"origin_server_ts":`...)
	body = strconv.AppendInt(body, q.opt.Now().UnixMilli(), 10)
	body = append(body, `,"pdus":[],"edus":[`...)
	for i, row := range b.Rows {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, row.EDU...)
	}
	return append(body, `]}`...)
}

// delivered deletes what has arrived.
func (q *Queue) delivered(ctx context.Context, d storage.Destination, b storage.Batch) error {
	err := q.store.Write(ctx, "outbox done", func(tx *storage.Tx) error { return tx.FinishBatch(d.Num, b.Last()) })
	if err != nil {
		return err
	}
	q.count.transactions.Add(1)
	q.count.edus.Add(int64(len(b.Rows)))
	q.courier.arrived(d.Name)
	q.widen(d.Name)
	return nil
}

// widen lets transactions grow again after a search.
func (q *Queue) widen(name matrix.ServerName) {
	r := q.courier.refusal(name)
	if r != nil && 0 < r.edus && r.edus < maxEDUs/2 {
		q.courier.setRefusal(name, &refusal{edus: 2 * r.edus, passed: true})
	} else if r != nil {
		q.courier.setRefusal(name, nil)
	}
}

// failed decides what follows a failed attempt: a later one, or at once one
// with less in it.
func (q *Queue) failed(ctx context.Context, d storage.Destination, b storage.Batch, cause error) (retry time.Time, err error) {
	q.count.failures.Add(1)
	var answer *remote.Error
	refused := errors.As(cause, &answer) && (answer.Status == http.StatusBadRequest || answer.Status == http.StatusRequestEntityTooLarge)
	if refused {
		smaller, err := q.narrow(ctx, d, b, answer)
		if smaller || err != nil {
			return time.Time{}, err
		}
	}
	if q.courier.wasHeard(d.Name, q.opt.Now()) { // it came back while it was tried
		d.Failures, d.Failing = 0, 0
	}
	delay := q.delay(d, answer)
	retry = q.opt.Now().Add(delay)
	q.log.Info("another server does not take our transaction", zap.String("dest", string(d.Name)),
		zap.Int64("failures", d.Failures+1), zap.Duration("retry", delay), zap.Error(cause))
	why := []rune(cause.Error())
	err = q.store.Write(ctx, "outbox failed", func(tx *storage.Tx) error {
		tx.AfterCommit(func() { q.courier.fail(d.Name) })
		return tx.DestinationFailed(d.Num, retry.UnixMilli(), string(why[:min(len(why), 500)]))
	})
	return retry, err
}

// narrow looks for what a destination refuses: after three refusals in halves,
// until a single item is left, which is given up: at once if another was taken
// in this search, otherwise when it was refused three times by itself. It
// returns false where the same is to be tried once more, later.
//
// A destination that refuses whatever it is sent, perhaps because of what stands
// in front of it, so loses an item now and then, and not all in a moment.
func (q *Queue) narrow(ctx context.Context, d storage.Destination, b storage.Batch, answer *remote.Error) (bool, error) {
	var r refusal
	if old := q.courier.refusal(d.Name); old != nil {
		r = *old
	}
	r.times++
	if len(b.Rows) == 1 {
		r.alone++
	} else {
		r.alone = 0
	}
	switch {
	case r.edus == 0 && r.times < refusals:
		q.courier.setRefusal(d.Name, &r)
		return false, nil
	case len(b.Rows) > 1:
		r.edus = len(b.Rows) / 2
		q.courier.setRefusal(d.Name, &r)
		return true, nil
	case !r.passed && r.alone < refusals:
		q.courier.setRefusal(d.Name, &r)
		return false, nil
	}
	q.log.Warn("an item is given up: the other server refuses it by itself", zap.String("dest", string(d.Name)),
		zap.Int64("pos", b.First()), zap.Int("items", 1), zap.Error(answer))
	err := q.store.Write(ctx, "outbox give up", func(tx *storage.Tx) error { return tx.GiveUpBatch(d.Num, b.Last()) })
	if err == nil {
		q.count.givenUp.Add(1)
		q.courier.setRefusal(d.Name, &refusal{edus: 1})
	}
	return true, err
}

// delay is the time to the next attempt: doubled with each failure, up to an
// hour in the first day and a day after it, with jitter; longer where the other
// server asks for it.
func (q *Queue) delay(d storage.Destination, answer *remote.Error) time.Duration {
	base := min(firstDelay<<min(d.Failures, 20), longestDelay)
	if d.Failing >= dailyDelay.Milliseconds() {
		base = dailyDelay
	}
	base -= rand.N(base / 5) //nolint:gosec // jitter
	if answer != nil {
		base = max(base, answer.RetryAfter)
	}
	return base
}
