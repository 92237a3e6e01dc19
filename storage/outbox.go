package storage

import (
	"errors"
	"fmt"

	"hearth/storage/matrix"
)

// OutboxClass says what a row of the outbox is and how dear it is. The numbers
// are stored.
type OutboxClass int

// Classes of outbox rows.
const (
	OutboxPDU       OutboxClass = 0 // an event, by reference
	OutboxToDevice  OutboxClass = 1 // m.direct_to_device; must arrive
	OutboxDevices   OutboxClass = 2 // device list updates; must arrive
	OutboxDroppable OutboxClass = 3 // receipts, presence, typing; newer replaces older
)

var (
	destinationByName = stmt(`SELECT num, bytes FROM destinations WHERE name = ?`)
	insertDestination = stmt(`INSERT INTO destinations (name) VALUES (?)`)
)

// Destination returns the number of another server, made at first use, and the
// bytes that are queued for it.
func (t *Tx) Destination(name matrix.ServerName) (num, bytes int64, err error) {
	err = t.row(destinationByName, []any{string(name)}, &num, &bytes)
	if errors.Is(err, ErrNotFound) {
		num, err = t.insert(insertDestination, string(name))
	}
	if err != nil {
		return 0, 0, fmt.Errorf("destination: %w", err)
	}
	return num, bytes, nil
}

var outboxShare = stmt(`SELECT bytes FROM outbox_shares WHERE destination = ? AND sender = ?`)

// OutboxShare returns the bytes of a local user that wait for a destination; 0
// is all destinations.
func (r *Rx) OutboxShare(destination, user int64) (bytes int64, err error) {
	err = r.row(outboxShare, []any{destination, user}, &bytes)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return 0, fmt.Errorf("outbox share: %w", err)
	}
	return bytes, nil
}

var outboxTotal = stmt(`SELECT items, bytes FROM outbox_total`)

// OutboxTotal counts what waits for all destinations together.
func (r *Rx) OutboxTotal() (items, bytes int64, err error) {
	if err := r.row(outboxTotal, nil, &items, &bytes); err != nil {
		return 0, 0, fmt.Errorf("outbox total: %w", err)
	}
	return items, bytes, nil
}

var insertEDU = stmt(`INSERT INTO outbox (pos, destination, class, sender, edu, bytes, at_clock)
	VALUES (?, ?, ?, ?, ?, ?, ?)`)

// OutboxOverhead is what a row counts against the bounds of a queue beside its
// EDU, in bytes.
const OutboxOverhead = 100

// AddEDU appends a complete EDU to a destination's queue and returns its
// position. user is the number of the local user who caused it, 0 for the
// server itself. It takes no notice of bounds.
func (t *Tx) AddEDU(destination, user int64, class OutboxClass, edu []byte) (pos int64, err error) {
	pos = t.NextPos()
	size := len(edu) + OutboxOverhead
	if _, err := t.exec(insertEDU, pos, destination, int64(class), user, edu, size, t.Clock()); err != nil {
		return 0, fmt.Errorf("add EDU: %w", err)
	}
	return pos, nil
}

// OutboxRow is one item of a queue.
type OutboxRow struct {
	Pos   int64
	Class OutboxClass
	Event int64  // a PDU's event; 0: an EDU
	EDU   []byte // complete JSON
	Clock int64  // age clock when it was queued
}

var outboxRows = stmt(`SELECT pos, class, event, edu, at_clock FROM outbox
	WHERE destination = ?1 AND event IS NOT NULL AND pos > ?2
	UNION ALL SELECT pos, class, 0, edu, at_clock FROM outbox
	WHERE destination = ?1 AND edu IS NOT NULL AND pos > ?2 ORDER BY pos LIMIT ?3`)

// OutboxRows reads a destination's queue behind a position, in order. A
// destination that is not known is [ErrNotFound].
func (r *Rx) OutboxRows(name matrix.ServerName, after int64, limit int) ([]OutboxRow, error) {
	var num, bytes int64
	if err := r.row(destinationByName, []any{string(name)}, &num, &bytes); err != nil {
		return nil, fmt.Errorf("outbox rows: %w", err)
	}
	rows, err := r.query(outboxRows, num, after, limit)
	if err != nil {
		return nil, fmt.Errorf("outbox rows: %w", err)
	}
	defer rows.Close()
	var list []OutboxRow
	for rows.Next() {
		var o OutboxRow
		var class int64
		if err := rows.Scan(&o.Pos, &class, &o.Event, &o.EDU, &o.Clock); err != nil {
			return nil, fmt.Errorf("outbox rows: %w", err)
		}
		o.Class = OutboxClass(class)
		list = append(list, o)
	}
	return list, rows.Err()
}

// OutboxQueue is the queue of one destination, as an administrator sees it.
type OutboxQueue struct {
	Name         matrix.ServerName
	Items, Bytes int64
	Oldest       int64 // age clock of the oldest item; 0: none
	Failures     int64 // in a row
	RetryMS      int64 // wall clock: not before; 0: at once
	SuccessMS    int64 // wall clock of the last success; 0: never
	LastError    string
}

var outboxQueues = stmt(`SELECT d.name, d.items, d.bytes, d.failures, ifnull(d.retry_ms, 0),
	ifnull(d.success_ms, 0), ifnull(d.last_error, ''),
	ifnull((SELECT min(at_clock) FROM (
		SELECT * FROM (SELECT at_clock FROM outbox WHERE destination = d.num AND edu IS NOT NULL ORDER BY pos LIMIT 1)
		UNION ALL
		SELECT * FROM (SELECT at_clock FROM outbox WHERE destination = d.num AND event IS NOT NULL ORDER BY pos LIMIT 1))), 0)
	FROM destinations d WHERE d.name > ? ORDER BY d.name LIMIT ?`)

// OutboxQueues lists destinations by name, behind a name.
func (r *Rx) OutboxQueues(after matrix.ServerName, limit int) ([]OutboxQueue, error) {
	rows, err := r.query(outboxQueues, string(after), limit)
	if err != nil {
		return nil, fmt.Errorf("outbox queues: %w", err)
	}
	defer rows.Close()
	var list []OutboxQueue
	for rows.Next() {
		var q OutboxQueue
		err := rows.Scan(&q.Name, &q.Items, &q.Bytes, &q.Failures, &q.RetryMS, &q.SuccessMS, &q.LastError, &q.Oldest)
		if err != nil {
			return nil, fmt.Errorf("outbox queues: %w", err)
		}
		list = append(list, q)
	}
	return list, rows.Err()
}

var (
	oldestOutbox     = stmt(`SELECT pos, at_clock FROM outbox ORDER BY pos LIMIT ?`)
	expireOutbox     = stmt(`DELETE FROM outbox WHERE pos <= ?`)
	idleDestinations = stmt(`DELETE FROM destinations WHERE items = 0
		AND abs(ifnull(success_ms, 0) - ?1) > ?2 AND abs(ifnull(retry_ms, 0) - ?1) > ?2`)
)

// ExpireOutbox deletes items queued before the given time of the age clock, at
// most limit at once, and returns how many.
func (t *Tx) ExpireOutbox(before int64, limit int) (int64, error) {
	return t.expire(oldestOutbox, expireOutbox, before, limit)
}

// ForgetDestinations deletes servers with an empty queue whose last success and
// whose next attempt, if any, are further away than within, in milliseconds.
// One in the future was set by a clock that has been put right since.
func (t *Tx) ForgetDestinations(within int64) error {
	if _, err := t.exec(idleDestinations, t.Now.UnixMilli(), within); err != nil {
		return fmt.Errorf("forget destinations: %w", err)
	}
	return nil
}
