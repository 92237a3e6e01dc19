package clientapi

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/room"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

// putSend serves PUT /_matrix/client/v3/rooms/{roomId}/send/{eventType}/{txnId}.
// Client-Server API, "Sending events to a room".
func (a *API) putSend(ctx context.Context, c *web.Call, content jsontext.Value) (sentEvent, error) {
	return a.sendOnce(ctx, c, room.Draft{Type: c.Vars["eventType"], Content: content})
}

type redactRequest struct {
	Reason *string `json:"reason"`
}

// putRedact serves PUT /_matrix/client/v3/rooms/{roomId}/redact/{eventId}/{txnId}.
// Client-Server API, "Redactions".
func (a *API) putRedact(ctx context.Context, c *web.Call, in redactRequest) (sentEvent, error) {
	id, err := matrix.ParseEventID(c.Vars["eventId"])
	if err != nil {
		return sentEvent{}, matrix.Errorf(matrix.InvalidParam, "%s", err)
	}
	content, err := json.Marshal(struct {
		Reason *string `json:"reason,omitempty"`
	}{in.Reason})
	if err != nil {
		return sentEvent{}, err
	}
	return a.sendOnce(ctx, c, room.Draft{Type: matrix.TypeRedaction, Content: content, Redacts: id})
}

// sendOnce sends an event of the caller's under the request's transaction ID.
func (a *API) sendOnce(ctx context.Context, c *web.Call, d room.Draft) (sentEvent, error) {
	id, err := roomVar(c)
	if err != nil {
		return sentEvent{}, err
	}
	d.Sender, d.Device, d.TxnID = c.User, c.DeviceNum, c.Vars["txnId"]
	d.Admin = c.Admin && d.Type == matrix.TypeRedaction
	if len(d.TxnID) > maxTxnID {
		return sentEvent{}, matrix.Errorf(matrix.InvalidParam, "the transaction ID is longer than %d bytes", maxTxnID)
	}
	return onceBy(ctx, a, c, a.Rooms.Write, func(tx *storage.Tx) (sentEvent, error) {
		in, err := joinedRoom(tx.Rx, id, c.User)
		if err != nil {
			return sentEvent{}, err
		}
		e, err := a.sendMessage(tx, in, d)
		if err != nil {
			return sentEvent{}, err
		}
		return sentEvent{e.ID()}, suspendedMay(tx.Rx, c, e)
	})
}

// suspendedMay refuses what those who are suspended may not send: anything but
// redactions of what they said themselves. It looks at the event as it was
// made, in the unit that is undone by the refusal.
func suspendedMay(rx *storage.Rx, c *web.Call, e storage.Event) error {
	if !c.Suspended || e.Type() != matrix.TypeRedaction {
		return notSuspended(c)
	}
	target, err := rx.Event(e.Redacts())
	if err == nil && target.Sender() != c.User {
		err = notSuspended(c)
	}
	return err
}
