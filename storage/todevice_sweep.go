package storage

import "fmt"

// expired returns the number of the last of the oldest rows that is older than
// a time of the age clock; 0: none is. Both rise together in every table that
// asks, so that age needs no index.
func (r *Rx) expired(oldest *statement, before int64, limit int) (upTo int64, err error) {
	rows, err := r.query(oldest, limit)
	if err != nil {
		return 0, fmt.Errorf("expired: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var num, clock int64
		if err := rows.Scan(&num, &clock); err != nil {
			return 0, fmt.Errorf("expired: %w", err)
		}
		if clock >= before {
			break
		}
		upTo = num
	}
	return upTo, rows.Err()
}

var (
	oldestToDevice = stmt(`SELECT pos, at_clock FROM to_device ORDER BY pos LIMIT ?`)
	devicesUpTo    = stmt(`SELECT device, count(*) FROM to_device WHERE pos <= ? GROUP BY device`)
	expireToDevice = stmt(`DELETE FROM to_device WHERE pos <= ?`)
)

// ExpireToDevice deletes messages that arrived before a time of the age clock,
// at most limit at once, and returns how many each device lost.
func (t *Tx) ExpireToDevice(before int64, limit int) (map[int64]int64, error) {
	upTo, err := t.expired(oldestToDevice, before, limit)
	if err != nil || upTo == 0 {
		return nil, err
	}
	lost, err := t.countBy(devicesUpTo, upTo)
	if err == nil {
		_, err = t.exec(expireToDevice, upTo)
	}
	if err != nil {
		return nil, fmt.Errorf("expire to-device: %w", err)
	}
	return lost, nil
}

func (r *Rx) countBy(s *statement, args ...any) (map[int64]int64, error) {
	rows, err := r.query(s, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	counts := map[int64]int64{}
	for rows.Next() {
		var key, n int64
		if err := rows.Scan(&key, &n); err != nil {
			return nil, err
		}
		counts[key] = n
	}
	return counts, rows.Err()
}

var (
	oldestReceived     = stmt(`SELECT num, at_clock FROM received_edus ORDER BY num LIMIT ?`)
	expireReceived     = stmt(`DELETE FROM received_edus WHERE num <= ?`)
	oldestTransactions = stmt(`SELECT num, at_clock FROM transactions ORDER BY num LIMIT ?`)
	expireTransactions = stmt(`DELETE FROM transactions WHERE num <= ?`)
)

// ExpireReceived forgets EDUs that were applied before a time of the age clock,
// at most limit at once, and returns how many.
func (t *Tx) ExpireReceived(before int64, limit int) (int64, error) {
	return t.expire(oldestReceived, expireReceived, before, limit)
}

// ExpireTransactions forgets transactions recorded before a time of the age
// clock, at most limit at once, and returns how many.
func (t *Tx) ExpireTransactions(before int64, limit int) (int64, error) {
	return t.expire(oldestTransactions, expireTransactions, before, limit)
}

func (t *Tx) expire(oldest, del *statement, before int64, limit int) (int64, error) {
	upTo, err := t.expired(oldest, before, limit)
	if err != nil || upTo == 0 {
		return 0, err
	}
	n, err := t.exec(del, upTo)
	if err != nil {
		return 0, fmt.Errorf("expire: %w", err)
	}
	return n, nil
}

var unusedSenders = stmt(`SELECT num FROM senders WHERE num > ? AND used_clock < ?
	AND num NOT IN (SELECT sender FROM to_device) ORDER BY num LIMIT ?`)

// UnusedSenders lists senders of whom nothing waits and who sent nothing since
// a time of the age clock. It reads the whole index of messages: call it in a
// snapshot, not in a write.
func (r *Rx) UnusedSenders(after, before int64, limit int) ([]int64, error) {
	rows, err := r.query(unusedSenders, after, before, limit)
	if err != nil {
		return nil, fmt.Errorf("unused senders: %w", err)
	}
	defer rows.Close()
	var list []int64
	for rows.Next() {
		var num int64
		if err := rows.Scan(&num); err != nil {
			return nil, fmt.Errorf("unused senders: %w", err)
		}
		list = append(list, num)
	}
	return list, rows.Err()
}

var (
	forgetSenders = stmt(`DELETE FROM senders WHERE num IN (SELECT value FROM json_each(?)) AND used_clock < ?
		AND num NOT IN (SELECT sender FROM to_device WHERE pos > ?)`)
	forgetGroups = stmt(`DELETE FROM sender_groups WHERE num > 0 AND num NOT IN (SELECT grp FROM senders)`)
)

// ForgetSenders deletes senders that [Rx.UnusedSenders] found in a snapshot at
// the given position, but for those who sent something since, and then groups
// that have no sender left.
func (t *Tx) ForgetSenders(nums []int64, before, snapshot int64) error {
	_, err := t.exec(forgetSenders, numbers(nums), before, snapshot)
	if err == nil {
		_, err = t.exec(forgetGroups)
	}
	if err != nil {
		return fmt.Errorf("forget senders: %w", err)
	}
	return nil
}

var orphanedToDevice = stmt(`SELECT count(*) FROM to_device t
	WHERE device NOT IN (SELECT num FROM devices) OR sender NOT IN (SELECT num FROM senders)
	OR device NOT IN (SELECT device FROM inboxes)`)

// OrphanedToDevice counts messages whose device, inbox or sender is missing.
// There are none unless something is broken. It reads all of the index.
func (r *Rx) OrphanedToDevice() (n int64, err error) {
	if err := r.row(orphanedToDevice, nil, &n); err != nil {
		return 0, fmt.Errorf("orphaned to-device: %w", err)
	}
	return n, nil
}
