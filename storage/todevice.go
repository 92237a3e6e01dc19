package storage

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"

	"hearth/storage/matrix"
)

// Recipient is a local device that a to-device message may go to.
type Recipient struct {
	User   matrix.UserID
	Device int64 // its incarnation
	ID     matrix.DeviceID
}

var recipients = stmt(`SELECT u.localpart, d.num, d.device_id FROM json_each(?) j
	JOIN users u ON u.localpart = j.value JOIN devices d ON d.user_num = u.num`)

// Recipients lists all devices of the given users. Users who are not ours or do
// not exist have none.
func (r *Rx) Recipients(users []matrix.UserID) ([]Recipient, error) {
	ours := r.ServerName()
	locals := make([]string, 0, len(users))
	for _, u := range users {
		if u.Server() == ours {
			locals = append(locals, u.Localpart())
		}
	}
	if len(locals) == 0 {
		return nil, nil
	}
	arg, err := json.Marshal(locals)
	if err != nil {
		return nil, fmt.Errorf("recipients: %w", err)
	}
	rows, err := r.query(recipients, string(arg))
	if err != nil {
		return nil, fmt.Errorf("recipients: %w", err)
	}
	defer rows.Close()
	var list []Recipient
	var local, id string
	for rows.Next() {
		var to Recipient
		if err := rows.Scan(&local, &to.Device, &id); err != nil {
			return nil, fmt.Errorf("recipients: %w", err)
		}
		to.User, to.ID = matrix.NewUserID(local, ours), matrix.DeviceID(id)
		list = append(list, to)
	}
	return list, rows.Err()
}

// NewToDevice is one message, for one or more devices.
type NewToDevice struct {
	Sender  int64 // of [Tx.Sender]
	Type    string
	Content []byte // JSON, kept as it is
	Bytes   int64  // what it counts against limits
}

var (
	insertToDevice = stmt(`INSERT INTO to_device (pos, device, sender, type, content, bytes, at_clock)
		VALUES (?, ?, ?, ?, ?, ?, ?)`)
	insertToDevices = stmt(`INSERT INTO to_device (pos, device, sender, type, content, bytes, at_clock)
		SELECT ? + key, value, ?, ?, ?, ?, ? FROM json_each(?)`)
	countToDevice  = stmt(`UPDATE inboxes SET messages = messages + 1, bytes = bytes + ? WHERE device = ?`)
	countToDevices = stmt(`UPDATE inboxes SET messages = messages + 1, bytes = bytes + ?
		WHERE device IN (SELECT value FROM json_each(?))`)
)

// AddToDevice appends m to the inbox of each device, which must exist, and
// returns the position of the first copy; the others follow it one by one.
// It takes no notice of limits.
func (t *Tx) AddToDevice(m NewToDevice, devices []int64) (first int64, err error) {
	first = t.NextPos()
	for i := 1; i < len(devices); i++ {
		if got := t.NextPos(); got != first+int64(i) {
			return 0, fmt.Errorf("add to-device: position %d after %d", got, first+int64(i)-1)
		}
	}
	var counted int64
	if len(devices) == 1 {
		_, err = t.exec(insertToDevice, first, devices[0], m.Sender, m.Type, m.Content, m.Bytes, t.Clock())
		if err == nil {
			counted, err = t.exec(countToDevice, m.Bytes, devices[0])
		}
	} else {
		// One content bound once for a thousand rows, instead of a thousand statements.
		list := numbers(devices)
		_, err = t.exec(insertToDevices, first, m.Sender, m.Type, m.Content, m.Bytes, t.Clock(), list)
		if err == nil {
			counted, err = t.exec(countToDevices, m.Bytes, list)
		}
	}
	if err == nil && counted != int64(len(devices)) {
		err = fmt.Errorf("%d of %d devices exist", counted, len(devices))
	}
	if err != nil {
		return 0, fmt.Errorf("add to-device: %w", err)
	}
	return first, nil
}

// ToDevice is a message that waits in an inbox.
type ToDevice struct {
	Pos     int64
	Sender  matrix.UserID
	Type    string
	Content []byte
	Bytes   int64
}

var toDevice = stmt(`SELECT t.pos, s.user_id, t.type, t.content, t.bytes FROM to_device t
	JOIN senders s ON s.num = t.sender WHERE t.device = ? AND t.pos > ? ORDER BY t.pos LIMIT ?`)

// ToDevice reads the oldest messages behind a position: at most limit, and at
// most maxBytes unless a single one is larger. more tells that others follow.
func (r *Rx) ToDevice(device, after int64, limit int, maxBytes int64) (list []ToDevice, more bool, err error) {
	rows, err := r.query(toDevice, device, after, limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("read to-device: %w", err)
	}
	defer rows.Close()
	var sum int64
	for rows.Next() {
		var m ToDevice
		if err := rows.Scan(&m.Pos, &m.Sender, &m.Type, &m.Content, &m.Bytes); err != nil {
			return nil, false, fmt.Errorf("read to-device: %w", err)
		}
		if sum += m.Bytes; len(list) == limit || len(list) > 0 && sum > maxBytes {
			return list, true, nil
		}
		list = append(list, m)
	}
	return list, false, rows.Err()
}

// InboxTotals is what waits for one device.
type InboxTotals struct {
	Messages, Bytes int64
	Evicted         int64 // messages lost to a limit, ever
	First, Last     int64 // positions; 0: empty
}

var inboxTotals = stmt(`SELECT messages, bytes, evicted,
	ifnull((SELECT min(pos) FROM to_device WHERE device = i.device), 0),
	ifnull((SELECT max(pos) FROM to_device WHERE device = i.device), 0)
	FROM inboxes i WHERE device = ?`)

// InboxTotals reads what waits for a device. A device that never had a message
// has zeros.
func (r *Rx) InboxTotals(device int64) (InboxTotals, error) {
	var s InboxTotals
	err := r.row(inboxTotals, []any{device}, &s.Messages, &s.Bytes, &s.Evicted, &s.First, &s.Last)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return InboxTotals{}, fmt.Errorf("inbox totals: %w", err)
	}
	return s, nil
}

var fullInboxes = stmt(`SELECT device, messages, bytes FROM inboxes
	WHERE device IN (SELECT value FROM json_each(?)) AND (messages > ? OR bytes > ?)`)

// FullInboxes returns those of the given devices that hold more than so many
// messages or bytes.
func (r *Rx) FullInboxes(devices []int64, messages, bytes int64) (map[int64]InboxTotals, error) {
	rows, err := r.query(fullInboxes, numbers(devices), messages, bytes)
	if err != nil {
		return nil, fmt.Errorf("full inboxes: %w", err)
	}
	defer rows.Close()
	var full map[int64]InboxTotals
	for rows.Next() {
		var device int64
		var s InboxTotals
		if err := rows.Scan(&device, &s.Messages, &s.Bytes); err != nil {
			return nil, fmt.Errorf("full inboxes: %w", err)
		}
		if full == nil {
			full = map[int64]InboxTotals{}
		}
		full[device] = s
	}
	return full, rows.Err()
}

// InboxRow is what eviction needs to know of a waiting message.
type InboxRow struct {
	Pos, Sender, Group, Bytes int64
}

var inboxRows = stmt(`SELECT t.pos, t.sender, s.grp, t.bytes FROM to_device t
	JOIN senders s ON s.num = t.sender WHERE t.device = ? ORDER BY t.pos`)

// InboxRows reads a whole inbox, without contents, oldest first.
func (r *Rx) InboxRows(device int64) ([]InboxRow, error) {
	rows, err := r.query(inboxRows, device)
	if err != nil {
		return nil, fmt.Errorf("inbox rows: %w", err)
	}
	defer rows.Close()
	var list []InboxRow
	for rows.Next() {
		var m InboxRow
		if err := rows.Scan(&m.Pos, &m.Sender, &m.Group, &m.Bytes); err != nil {
			return nil, fmt.Errorf("inbox rows: %w", err)
		}
		list = append(list, m)
	}
	return list, rows.Err()
}

var deleteToDeviceUpTo = stmt(`DELETE FROM to_device WHERE device = ? AND pos <= ?`)

// DeleteToDeviceUpTo deletes the messages of a device up to and including a
// position, and returns how many there were.
func (t *Tx) DeleteToDeviceUpTo(device, pos int64) (int64, error) {
	n, err := t.exec(deleteToDeviceUpTo, device, pos)
	if err != nil {
		return 0, fmt.Errorf("delete to-device: %w", err)
	}
	return n, nil
}

var (
	deleteToDevice = stmt(`DELETE FROM to_device WHERE pos IN (SELECT value FROM json_each(?))`)
	countEvicted   = stmt(`UPDATE inboxes SET evicted = evicted + ? WHERE device = ?`)
)

// EvictToDevice deletes the given messages of one device and counts them as lost.
func (t *Tx) EvictToDevice(device int64, positions []int64) error {
	n, err := t.exec(deleteToDevice, numbers(positions))
	if err == nil {
		_, err = t.exec(countEvicted, n, device)
	}
	if err != nil {
		return fmt.Errorf("evict to-device: %w", err)
	}
	return nil
}

// numbers encodes integers for json_each.
func numbers[N ~int64](list []N) string {
	b := make([]byte, 0, 2+12*len(list))
	b = append(b, '[')
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return string(append(b, ']'))
}

var inboxDevices = stmt(`SELECT device FROM inboxes WHERE device > ? AND messages <> 0 ORDER BY device LIMIT ?`)

// InboxDevices lists devices for which something waits, by number, behind one.
func (r *Rx) InboxDevices(after int64, limit int) ([]int64, error) {
	rows, err := r.query(inboxDevices, after, limit)
	if err != nil {
		return nil, fmt.Errorf("inbox devices: %w", err)
	}
	defer rows.Close()
	var list []int64
	for rows.Next() {
		var device int64
		if err := rows.Scan(&device); err != nil {
			return nil, fmt.Errorf("inbox devices: %w", err)
		}
		list = append(list, device)
	}
	return list, rows.Err()
}

// InboxDepth is what waits for one device, for the administrator.
type InboxDepth struct {
	Recipient
	Messages, Bytes, Evicted int64
}

var fullestInboxes = stmt(`SELECT u.localpart, d.num, d.device_id, i.messages, i.bytes, i.evicted
	FROM inboxes i JOIN devices d ON d.num = i.device JOIN users u ON u.num = d.user_num
	ORDER BY i.messages DESC, i.evicted DESC, d.num LIMIT ?`)

// FullestInboxes lists the inboxes with the most messages. It reads one small
// row per device.
func (r *Rx) FullestInboxes(limit int) ([]InboxDepth, error) {
	rows, err := r.query(fullestInboxes, limit)
	if err != nil {
		return nil, fmt.Errorf("fullest inboxes: %w", err)
	}
	defer rows.Close()
	var list []InboxDepth
	for rows.Next() {
		var d InboxDepth
		var local, id string
		if err := rows.Scan(&local, &d.Device, &id, &d.Messages, &d.Bytes, &d.Evicted); err != nil {
			return nil, fmt.Errorf("fullest inboxes: %w", err)
		}
		d.User, d.ID = matrix.NewUserID(local, r.ServerName()), matrix.DeviceID(id)
		list = append(list, d)
	}
	return list, rows.Err()
}
