package storage

import (
	"fmt"

	"hearth/storage/matrix"
)

// DeviceRef names a device twice: by the number of its incarnation and by the
// identifier it shares with later devices of the same name.
type DeviceRef struct {
	Num int64
	ID  matrix.DeviceID
}

// Device is what a user is logged in with.
type Device struct {
	DeviceRef
	UserNum       int64
	Name          string // "": none
	CreatedMS     int64
	LastSeenMS    int64 // 0: never; some minutes late, see [Tx.SeeDevice]
	LastSeenIP    string
	LastSeenAgent string
}

const deviceColumns = `num, device_id, user_num, ifnull(display_name, ''), created_ms,
	ifnull(last_seen_ms, 0), ifnull(last_seen_ip, ''), ifnull(last_seen_agent, '')`

func (d *Device) fields() []any {
	return []any{&d.Num, &d.ID, &d.UserNum, &d.Name, &d.CreatedMS, &d.LastSeenMS, &d.LastSeenIP, &d.LastSeenAgent}
}

var devicesOf = stmt(`SELECT num, device_id FROM devices WHERE user_num = ? ORDER BY device_id`)

// DevicesOf lists a user's devices, from the index alone.
func (rx *Rx) DevicesOf(user int64) ([]DeviceRef, error) {
	rows, err := rx.query(devicesOf, user)
	if err != nil {
		return nil, fmt.Errorf("devices of user: %w", err)
	}
	defer rows.Close()
	var list []DeviceRef
	for rows.Next() {
		var d DeviceRef
		if err := rows.Scan(&d.Num, &d.ID); err != nil {
			return nil, fmt.Errorf("devices of user: %w", err)
		}
		list = append(list, d)
	}
	return list, rows.Err()
}

var listDevices = stmt(`SELECT ` + deviceColumns + ` FROM devices WHERE user_num = ? ORDER BY num`)

// Devices lists a user's devices with all that is known of them.
func (rx *Rx) Devices(user int64) ([]Device, error) {
	rows, err := rx.query(listDevices, user)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	defer rows.Close()
	var list []Device
	for rows.Next() {
		var d Device
		if err := rows.Scan(d.fields()...); err != nil {
			return nil, fmt.Errorf("list devices: %w", err)
		}
		list = append(list, d)
	}
	return list, rows.Err()
}

var deviceByID = stmt(`SELECT ` + deviceColumns + ` FROM devices WHERE user_num = ? AND device_id = ?`)

// Device finds a user's device by its identifier.
func (rx *Rx) Device(user int64, id matrix.DeviceID) (Device, error) {
	var d Device
	if err := rx.row(deviceByID, []any{user, string(id)}, d.fields()...); err != nil {
		return Device{}, fmt.Errorf("device: %w", err)
	}
	return d, nil
}

var deviceNum = stmt(`SELECT d.num FROM devices d JOIN users u ON u.num = d.user_num
	WHERE u.localpart = ? AND d.device_id = ?`)

// DeviceNum finds the incarnation of a local user's device.
func (rx *Rx) DeviceNum(user matrix.UserID, id matrix.DeviceID) (int64, error) {
	if user.Server() != rx.ServerName() {
		return 0, ErrNotFound
	}
	var num int64
	if err := rx.row(deviceNum, []any{user.Localpart(), string(id)}, &num); err != nil {
		return 0, fmt.Errorf("device number: %w", err)
	}
	return num, nil
}

var deviceAlive = stmt(`SELECT u.locked FROM devices d JOIN users u ON u.num = d.user_num WHERE d.num = ?`)

// DeviceAlive returns [ErrNotFound] once the device was deleted, and
// [ErrUserLocked] while its user is locked.
func (rx *Rx) DeviceAlive(num int64) error {
	var locked bool
	if err := rx.row(deviceAlive, []any{num}, &locked); err != nil {
		return fmt.Errorf("device alive: %w", err)
	}
	if locked {
		return ErrUserLocked
	}
	return nil
}

var insertDevice = stmt(`INSERT INTO devices (user_num, device_id, display_name, created_ms, last_seen_clock)
	VALUES (?, ?, nullif(?, ''), ?, ?)`)

// AddDevice creates a device, whose number was never used before. An
// identifier that the user has already is [ErrConflict].
func (tx *Tx) AddDevice(user int64, id matrix.DeviceID, name string) (int64, error) {
	num, err := tx.insert(insertDevice, user, string(id), name, tx.Now.UnixMilli(), tx.Clock())
	if err != nil {
		return 0, fmt.Errorf("add device: %w", err)
	}
	return num, nil
}

var renameDevice = stmt(`UPDATE devices SET display_name = nullif(?, '') WHERE num = ?`)

// RenameDevice sets a device's display name.
func (tx *Tx) RenameDevice(num int64, name string) error {
	return tx.mustChange("rename device", renameDevice, name, num)
}

var seeDevice = stmt(`UPDATE devices SET last_seen_ms = max(?, ifnull(last_seen_ms, 0)),
	last_seen_clock = ?, last_seen_ip = nullif(?, ''), last_seen_agent = nullif(?, '') WHERE num = ?`)

// SeeDevice notes when and from where the device was last used. A device that
// is gone is no error.
func (tx *Tx) SeeDevice(num, ms int64, ip, agent string) error {
	if _, err := tx.exec(seeDevice, ms, tx.Clock(), ip, agent, num); err != nil {
		return fmt.Errorf("see device: %w", err)
	}
	return nil
}

var countDevices = stmt(`SELECT count(*) FROM devices WHERE user_num = ?`)

// CountDevices counts a user's devices.
func (rx *Rx) CountDevices(user int64) (int, error) {
	var n int
	if err := rx.row(countDevices, []any{user}, &n); err != nil {
		return 0, fmt.Errorf("count devices: %w", err)
	}
	return n, nil
}

var stalestDevice = stmt(`SELECT num, device_id FROM devices
	WHERE user_num = ? AND last_seen_clock < ? ORDER BY last_seen_clock, num LIMIT 1`)

// StalestDevice finds the device that was unused for longest, among those not
// used since the given time on the age clock.
func (rx *Rx) StalestDevice(user, before int64) (DeviceRef, error) {
	var d DeviceRef
	if err := rx.row(stalestDevice, []any{user, before}, &d.Num, &d.ID); err != nil {
		return DeviceRef{}, fmt.Errorf("stalest device: %w", err)
	}
	return d, nil
}

var deleteDevice = stmt(`DELETE FROM devices WHERE num = ?`)

// DeleteDevice removes a device with all that belongs to its incarnation
// (tokens, inbox, transaction records: by cascade) and ends its long polls. A
// device that is gone is no error.
func (tx *Tx) DeleteDevice(num int64) error {
	if _, err := tx.exec(deleteDevice, num); err != nil {
		return fmt.Errorf("delete device: %w", err)
	}
	tx.News(News{Ended: []int64{num}})
	return nil
}
