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

var sendersMet = stmt(`SELECT j.value FROM json_each(?3) j CROSS JOIN senders s ON s.num = j.value
	WHERE EXISTS (
		SELECT 1 FROM memberships a CROSS JOIN memberships b ON b.room = a.room
		WHERE a.user_id = s.user_id AND a.membership = 'join' AND b.membership = 'join'
		AND b.user_id = (SELECT '@' || u.localpart || ':' || ?1 FROM devices d JOIN users u ON u.num = d.user_num WHERE d.num = ?2)
	)`)

// SendersMet finds which of some senders are joined to a room together with
// the user whom a device belongs to.
func (r *Rx) SendersMet(device int64, nums []int64) ([]int64, error) {
	rows, err := r.query(sendersMet, string(r.ServerName()), device, numbers(nums))
	if err != nil {
		return nil, fmt.Errorf("senders met: %w", err)
	}
	defer rows.Close()
	var met []int64
	for rows.Next() {
		var num int64
		if err := rows.Scan(&num); err != nil {
			return nil, fmt.Errorf("senders met: %w", err)
		}
		met = append(met, num)
	}
	return met, rows.Err()
}
