package storage

import (
	"fmt"

	"hearth/storage/matrix"
)

// Destination is what sending to another server needs to know.
type Destination struct {
	Num      int64
	Name     matrix.ServerName
	Items    int64 // that wait
	Failures int64 // in a row
	Failing  int64 // for how long, in milliseconds; 0: not failing
	RetryMS  int64 // wall clock: not before; 0: at once

	SuccessMS int64 // wall clock of the last success; 0: never
}

const destinationColumns = `num, name, items, failures, ifnull(?1 - failing_clock, 0), ifnull(retry_ms, 0), ifnull(success_ms, 0)`

func (d *Destination) columns() []any {
	return []any{&d.Num, &d.Name, &d.Items, &d.Failures, &d.Failing, &d.RetryMS, &d.SuccessMS}
}

var (
	destinationState = stmt(`SELECT ` + destinationColumns + ` FROM destinations WHERE name = ?2`)
	waitingDests     = stmt(`SELECT ` + destinationColumns + ` FROM destinations WHERE items > 0 AND num > ?2 ORDER BY num LIMIT ?3`)
)

// DestinationState reads one destination; [ErrNotFound] where nothing was ever
// queued for it, or nothing is to be known of it any more.
func (r *Rx) DestinationState(name matrix.ServerName) (d Destination, err error) {
	err = r.row(destinationState, []any{r.Clock(), string(name)}, d.columns()...)
	if err != nil {
		return d, fmt.Errorf("destination: %w", err)
	}
	return d, nil
}

// WaitingDestinations lists destinations with a queue that is not empty, by
// number, behind one.
func (r *Rx) WaitingDestinations(after int64, limit int) ([]Destination, error) {
	rows, err := r.query(waitingDests, r.Clock(), after, limit)
	if err != nil {
		return nil, fmt.Errorf("waiting destinations: %w", err)
	}
	defer rows.Close()
	var list []Destination
	for rows.Next() {
		var d Destination
		if err := rows.Scan(d.columns()...); err != nil {
			return nil, fmt.Errorf("waiting destinations: %w", err)
		}
		list = append(list, d)
	}
	return list, rows.Err()
}

// Batch is the EDUs of one transaction to another server.
type Batch struct {
	Rows []OutboxRow
	// Open tells that the transaction was begun before and not answered with
	// success: the other server may have seen it.
	Open bool
}

// First and Last are the positions between which the batch lies.
func (b Batch) First() int64 { return b.Rows[0].Pos }

// Last is the position of the last row.
func (b Batch) Last() int64 { return b.Rows[len(b.Rows)-1].Pos }

// BatchLimit bounds a batch; one row is always taken.
type BatchLimit struct {
	EDUs  int
	Bytes int64
}

var (
	openBatch = stmt(`SELECT ifnull(batch_edu, 0) FROM destinations WHERE num = ?`)
	eduRows   = stmt(`SELECT pos, class, edu, at_clock FROM outbox WHERE destination = ? AND edu IS NOT NULL ORDER BY pos LIMIT ?`)
	setBatch  = stmt(`UPDATE destinations SET batch_edu = nullif(?, 0) WHERE num = ?`)
)

// NextBatch reads the transaction that was begun with a destination, or what
// the next one would hold. It is empty where nothing waits.
func (r *Rx) NextBatch(dest int64, limit BatchLimit) (b Batch, err error) {
	var last int64
	if err := r.row(openBatch, []any{dest}, &last); err != nil {
		return b, fmt.Errorf("next batch: %w", err)
	}
	rows, err := r.query(eduRows, dest, limit.EDUs)
	if err != nil {
		return b, fmt.Errorf("next batch: %w", err)
	}
	defer rows.Close()
	var size int64
	for rows.Next() {
		var o OutboxRow
		var class int64
		if err := rows.Scan(&o.Pos, &class, &o.EDU, &o.Clock); err != nil {
			return b, fmt.Errorf("next batch: %w", err)
		}
		o.Class = OutboxClass(class)
		size += int64(len(o.EDU)) + 1
		if len(b.Rows) == 0 && o.Pos > last { // nothing is left of what was begun
			last = 0
		}
		if len(b.Rows) > 0 && (size > limit.Bytes || last > 0 && o.Pos > last) {
			break
		}
		b.Rows = append(b.Rows, o)
	}
	b.Open = last > 0 && len(b.Rows) > 0 && b.Last() == last
	return b, rows.Err()
}

// BeginBatch remembers where a transaction ends, so that after a crash the
// same one is sent again.
func (t *Tx) BeginBatch(dest, last int64) error {
	if _, err := t.exec(setBatch, last, dest); err != nil {
		return fmt.Errorf("begin batch: %w", err)
	}
	return nil
}

var (
	deleteBatch   = stmt(`DELETE FROM outbox WHERE destination = ? AND edu IS NOT NULL AND pos <= ?`)
	destSucceeded = stmt(`UPDATE destinations SET batch_edu = NULL, failures = 0, failing_clock = NULL,
		retry_ms = NULL, success_ms = ?, last_error = NULL WHERE num = ?`)
	destGaveUp = stmt(`UPDATE destinations SET batch_edu = NULL WHERE num = ?`)
	destFailed = stmt(`UPDATE destinations SET failures = failures + 1, failing_clock = ifnull(failing_clock, ?),
		retry_ms = ?, last_error = ? WHERE num = ?`)
	destRetry = stmt(`UPDATE destinations SET failures = 0, failing_clock = NULL, retry_ms = NULL
		WHERE (?1 = '' OR name = ?1) AND failures > 0`)
)

// FinishBatch deletes what was delivered, up to a position, and forgets that
// the destination ever failed.
func (t *Tx) FinishBatch(dest, last int64) error {
	_, err := t.exec(deleteBatch, dest, last)
	if err == nil {
		_, err = t.exec(destSucceeded, t.Now.UnixMilli(), dest)
	}
	if err != nil {
		return fmt.Errorf("finish batch: %w", err)
	}
	return nil
}

// GiveUpBatch deletes what the destination refuses, up to a position.
func (t *Tx) GiveUpBatch(dest, last int64) error {
	_, err := t.exec(deleteBatch, dest, last)
	if err == nil {
		_, err = t.exec(destGaveUp, dest)
	}
	if err != nil {
		return fmt.Errorf("give up batch: %w", err)
	}
	return nil
}

// DestinationFailed records a failed attempt. retryMS is the wall clock in
// milliseconds before which there is no other; why is shown to the
// administrator.
func (t *Tx) DestinationFailed(dest, retryMS int64, why string) error {
	if _, err := t.exec(destFailed, t.Clock(), retryMS, why, dest); err != nil {
		return fmt.Errorf("destination failed: %w", err)
	}
	return nil
}

// RetryDestinations forgets failures, of one destination or, where name is
// empty, of all, and returns how many there were.
func (t *Tx) RetryDestinations(name matrix.ServerName) (int64, error) {
	n, err := t.exec(destRetry, string(name))
	if err != nil {
		return 0, fmt.Errorf("retry destinations: %w", err)
	}
	return n, nil
}
