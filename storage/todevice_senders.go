package storage

import (
	"errors"
	"fmt"

	"hearth/storage/matrix"
)

// day is the grain in milliseconds to which the last use of a sender is kept.
const day = 24 * 60 * 60 * 1000

var (
	senderByID   = stmt(`SELECT num, grp, used_clock FROM senders WHERE user_id = ?`)
	insertSender = stmt(`INSERT INTO senders (user_id, grp, used_clock) VALUES (?, ?, ?)`)
	touchSender  = stmt(`UPDATE senders SET used_clock = ? WHERE num = ?`)
	groupByName  = stmt(`SELECT num FROM sender_groups WHERE name = ?`)
	insertGroup  = stmt(`INSERT INTO sender_groups (name) VALUES (?)`)
)

// Sender returns the number of a user who sends a message, and of the group
// with the given name that the user counts as; "" is this server's own. Both
// are made at first use, so that a lower number was met earlier.
func (t *Tx) Sender(user matrix.UserID, group string) (num, grp int64, err error) {
	var used int64
	err = t.row(senderByID, []any{string(user)}, &num, &grp, &used)
	switch now := t.Clock(); {
	case errors.Is(err, ErrNotFound):
		if grp, err = t.senderGroup(group); err == nil {
			num, err = t.insert(insertSender, string(user), grp, now)
		}
	case err == nil && now-used >= day:
		_, err = t.exec(touchSender, now, num)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("sender: %w", err)
	}
	return num, grp, nil
}

func (t *Tx) senderGroup(name string) (num int64, err error) {
	if err = t.row(groupByName, []any{name}, &num); errors.Is(err, ErrNotFound) {
		num, err = t.insert(insertGroup, name)
	}
	return num, err
}

var senderOfOwner = stmt(`SELECT s.num FROM devices d JOIN users u ON u.num = d.user_num
	JOIN senders s ON s.user_id = '@' || u.localpart || ':' || ? WHERE d.num = ?`)

// SenderOfOwner is the number as a sender of the user whom a device belongs to;
// [ErrNotFound] where that user never sent a message.
func (r *Rx) SenderOfOwner(device int64) (num int64, err error) {
	if err := r.row(senderOfOwner, []any{string(r.ServerName()), device}, &num); err != nil {
		return 0, fmt.Errorf("sender of owner: %w", err)
	}
	return num, nil
}

var senderIDs = stmt(`SELECT s.user_id FROM json_each(?) j JOIN senders s ON s.num = j.value ORDER BY j.key`)

// SenderIDs returns the user IDs of senders, in the given order. All must exist.
func (r *Rx) SenderIDs(nums []int64) ([]matrix.UserID, error) {
	rows, err := r.query(senderIDs, numbers(nums))
	if err != nil {
		return nil, fmt.Errorf("sender IDs: %w", err)
	}
	defer rows.Close()
	list := make([]matrix.UserID, 0, len(nums))
	for rows.Next() {
		var id matrix.UserID
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("sender IDs: %w", err)
		}
		list = append(list, id)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sender IDs: %w", err)
	}
	if len(list) != len(nums) {
		return nil, fmt.Errorf("sender IDs: %d of %d known", len(list), len(nums))
	}
	return list, nil
}

var insertReceived = stmt(`INSERT INTO received_edus (hash, at_clock, origin, bytes) VALUES (?, ?, ?, ?)
	ON CONFLICT DO NOTHING`)

// RecordReceived notes that an EDU of an origin was applied, which counts
// bytes against it; see [ReceivedCost]. It returns [ErrConflict] where it was
// applied before, and then changes nothing.
func (t *Tx) RecordReceived(hash [32]byte, origin, bytes int64) error {
	switch n, err := t.exec(insertReceived, hash[:], t.Clock(), origin, bytes); {
	case err != nil:
		return fmt.Errorf("record received: %w", err)
	case n == 0:
		return fmt.Errorf("record received: %w", ErrConflict)
	}
	return nil
}

// SenderNum is the number of a user who has sent a message; [ErrNotFound] where
// nothing is known of the user.
func (r *Rx) SenderNum(user matrix.UserID) (num int64, err error) {
	var grp, used int64
	if err := r.row(senderByID, []any{string(user)}, &num, &grp, &used); err != nil {
		return 0, fmt.Errorf("sender: %w", err)
	}
	return num, nil
}
