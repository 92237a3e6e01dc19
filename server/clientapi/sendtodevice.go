package clientapi

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/outbox"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
)

// ToDevice bounds one send-to-device request. A client that shares a room key
// names a few hundred devices in one request, with one to two kilobytes for each.
type ToDevice struct {
	MaxRecipients   int   // devices named; 0: 10,000
	MaxRequestBytes int64 // of the body; 0: 8 MiB
}

func (o ToDevice) withDefaults() ToDevice {
	if o.MaxRecipients == 0 {
		o.MaxRecipients = 10_000
	}
	if o.MaxRequestBytes == 0 {
		o.MaxRequestBytes = 8 << 20
	}
	return o
}

const (
	maxEventType = 255 // bytes. Client-Server API, "Size limits"
	maxTxnID     = 255 // bytes
)

type sendToDeviceRequest struct {
	Messages map[string]map[string]jsontext.Value `json:"messages"`
}

// Validate implements web.Validator.
func (r sendToDeviceRequest) Validate() error {
	if r.Messages == nil {
		return matrix.Errorf(matrix.MissingParam, "messages is missing")
	}
	return nil
}

// putSendToDevice serves PUT /_matrix/client/v3/sendToDevice/{eventType}/{txnId}.
// Client-Server API, "Send-to-Device messaging".
func (a *API) putSendToDevice(ctx context.Context, c *web.Call, in sendToDeviceRequest) (web.Empty, error) {
	eventType := c.Vars["eventType"]
	if len(eventType) > maxEventType {
		return web.Empty{}, matrix.Errorf(matrix.InvalidParam, "the event type is longer than %d bytes", maxEventType)
	}
	if len(c.Vars["txnId"]) > maxTxnID {
		return web.Empty{}, matrix.Errorf(matrix.InvalidParam, "the transaction ID is longer than %d bytes", maxTxnID)
	}
	local, remote, err := a.splitToDevice(in.Messages)
	if err != nil {
		return web.Empty{}, err
	}
	if err := a.Outbox.CheckToDevice(c.User, eventType, remote); err != nil {
		return web.Empty{}, err
	}
	return once(ctx, a, c, func(tx *storage.Tx) (web.Empty, error) {
		// The outbox first: what it refuses has evicted nobody's message.
		if err := a.Outbox.PushToDevice(tx, c.User, eventType, remote); err != nil {
			return web.Empty{}, err
		}
		return web.Empty{}, a.Inbox.Enqueue(tx, c.User, eventType, local)
	})
}

// splitToDevice checks the messages and sorts them by where they go. Users and
// devices that do not exist are dropped later, silently; names that no user or
// device can have are refused.
func (a *API) splitToDevice(messages map[string]map[string]jsontext.Value) (inbox.Messages, outbox.Messages, error) {
	local, remote, n := inbox.Messages{}, outbox.Messages{}, 0
	for name, devices := range messages {
		user, err := matrix.ParseUserID(name)
		if err != nil {
			return nil, nil, matrix.Errorf(matrix.InvalidParam, "%s", err)
		}
		if n += len(devices); n > a.Options.ToDevice.MaxRecipients {
			return nil, nil, matrix.Errorf(matrix.TooLarge, "the request names more than %d devices", a.Options.ToDevice.MaxRecipients)
		}
		for device, content := range devices {
			if _, err := matrix.ParseDeviceID(device); err != nil {
				return nil, nil, matrix.Errorf(matrix.InvalidParam, "%s", err)
			}
			if content.Kind() != '{' {
				return nil, nil, matrix.Errorf(matrix.BadJSON, "the content for %s is not an object", user)
			}
		}
		switch server := user.Server(); {
		case len(devices) == 0:
		case server == a.Store.ServerName():
			local[user] = devices
		default:
			if remote[server] == nil {
				remote[server] = map[matrix.UserID]map[string]jsontext.Value{}
			}
			remote[server][user] = devices
		}
	}
	return local, remote, nil
}
