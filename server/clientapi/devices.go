package clientapi

import (
	"context"
	"errors"
	"slices"

	"hearth/server/account"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

const maxDeleteDevices = 1000

type device struct {
	ID       matrix.DeviceID `json:"device_id"`
	Name     string          `json:"display_name,omitempty"`
	LastIP   string          `json:"last_seen_ip,omitempty"`
	LastSeen int64           `json:"last_seen_ts,omitzero"`
}

func toDevice(d storage.Device) device {
	return device{ID: d.ID, Name: d.Name, LastIP: d.LastSeenIP, LastSeen: d.LastSeenMS}
}

type devices struct {
	Devices []device `json:"devices"`
}

// getDevices serves GET /_matrix/client/v3/devices.
// Client-Server API, "Device Management".
func (a *API) getDevices(ctx context.Context, c *web.Call, _ web.NoBody) (devices, error) {
	out := devices{Devices: []device{}}
	err := a.Store.Read(ctx, "list devices", func(rx *storage.Rx) error {
		list, err := rx.Devices(c.UserNum)
		for _, d := range list {
			out.Devices = append(out.Devices, toDevice(d))
		}
		return err
	})
	return out, err
}

// getDevice serves GET /_matrix/client/v3/devices/{deviceId}.
func (a *API) getDevice(ctx context.Context, c *web.Call, _ web.NoBody) (device, error) {
	var out device
	err := a.Store.Read(ctx, "get device", func(rx *storage.Rx) error {
		d, err := findDevice(rx, c)
		out = toDevice(d)
		return err
	})
	return out, err
}

// findDevice finds the caller's device that the path names.
func findDevice(rx *storage.Rx, c *web.Call) (storage.Device, error) {
	d, err := rx.Device(c.UserNum, matrix.DeviceID(c.Vars["deviceId"]))
	if errors.Is(err, storage.ErrNotFound) {
		err = matrix.Errorf(matrix.NotFound, "you have no such device")
	}
	return d, err
}

type renameRequest struct {
	Name *string `json:"display_name"`
}

// putDevice serves PUT /_matrix/client/v3/devices/{deviceId}.
func (a *API) putDevice(ctx context.Context, c *web.Call, in renameRequest) (web.Empty, error) {
	if in.Name != nil {
		if _, err := account.CheckDevice("", *in.Name); err != nil {
			return web.Empty{}, err
		}
	}
	return web.Empty{}, a.Store.Write(ctx, "rename device", func(tx *storage.Tx) error {
		if err := a.Accounts.Alive(tx.Rx, c.DeviceNum); err != nil {
			return err
		}
		d, err := findDevice(tx.Rx, c)
		if err != nil || in.Name == nil {
			return err
		}
		return tx.RenameDevice(d.Num, *in.Name)
	})
}

type deleteDeviceRequest struct {
	Auth *account.Auth `json:"auth"`
}

// deleteDevice serves DELETE /_matrix/client/v3/devices/{deviceId}.
func (a *API) deleteDevice(ctx context.Context, c *web.Call, in deleteDeviceRequest) (any, error) {
	id := matrix.DeviceID(c.Vars["deviceId"])
	how := account.Interaction{Auth: in.Auth, Flows: account.PasswordFlow(), Subject: subject(string(id))}
	return interact(ctx, a, c, how, struct{}{}, func(struct{}, account.Proven) (web.Empty, error) {
		return web.Empty{}, a.Accounts.DeleteDevices(ctx, c.UserNum, []matrix.DeviceID{id})
	})
}

type deleteDevicesRequest struct {
	Auth *account.Auth `json:"auth"`
	DeleteDevicesFields
}

// DeleteDevicesFields name the devices to delete.
type DeleteDevicesFields struct {
	Devices []matrix.DeviceID `json:"devices"`
}

func (f DeleteDevicesFields) size() (n int) {
	for _, d := range f.Devices {
		n += len(d)
	}
	return n
}

// subject is the same whatever the order of the devices.
func (f DeleteDevicesFields) subject() string {
	var names []string
	for _, d := range f.Devices {
		names = append(names, string(d))
	}
	slices.Sort(names)
	return subject(slices.Compact(names)...)
}

// postDeleteDevices serves POST /_matrix/client/v3/delete_devices.
func (a *API) postDeleteDevices(ctx context.Context, c *web.Call, in deleteDevicesRequest) (any, error) {
	if in.Devices == nil && in.Auth == nil {
		return nil, matrix.Errorf(matrix.MissingParam, "devices is missing")
	}
	if len(in.Devices) > maxDeleteDevices {
		return nil, matrix.Errorf(matrix.InvalidParam, "more than %d devices at once", maxDeleteDevices)
	}
	how := account.Interaction{Auth: in.Auth, Flows: account.PasswordFlow(), Subject: in.subject(), Size: in.size()}
	return interact(ctx, a, c, how, in.DeleteDevicesFields, func(f DeleteDevicesFields, _ account.Proven) (web.Empty, error) {
		if f.Devices == nil {
			return web.Empty{}, matrix.Errorf(matrix.MissingParam, "devices is missing")
		}
		return web.Empty{}, a.Accounts.DeleteDevices(ctx, c.UserNum, f.Devices)
	})
}
