package clientapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

const (
	maxDataType     = 255     // bytes of the type of an entry
	accountDataBody = 1 << 20 // bytes of one entry; a list of direct chats is longer than an event may be
)

func (a *API) accountDataRoutes() []web.Route {
	const ofUser, ofRoom = "/_matrix/client/v3/user/{userId}/account_data/{type}",
		"/_matrix/client/v3/user/{userId}/rooms/{roomId}/account_data/{type}"
	return []web.Route{
		{Method: "GET", Path: ofUser, Handler: authed(a, a.getAccountData)},
		{Method: "PUT", Path: ofUser, Handler: authed(a, a.putAccountData), MaxBody: accountDataBody},
		{Method: "GET", Path: ofRoom, Handler: authed(a, a.getAccountData)},
		{Method: "PUT", Path: ofRoom, Handler: authed(a, a.putAccountData), MaxBody: accountDataBody},
	}
}

// getAccountData serves GET /_matrix/client/v3/user/{userId}/account_data/{type}
// and …/user/{userId}/rooms/{roomId}/account_data/{type}.
// Client-Server API, "Client Config".
func (a *API) getAccountData(ctx context.Context, c *web.Call, _ web.NoBody) (jsontext.Value, error) {
	d, err := accountDataPath(c)
	if err != nil {
		return nil, err
	}
	err = a.Store.Read(ctx, "get account data", func(rx *storage.Rx) (err error) {
		d, err = rx.AccountData(c.UserNum, d.Room, d.Type)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		err = matrix.Errorf(matrix.NotFound, "no account data of this type was ever set here")
	}
	return d.Content, err
}

// accountDataRequest is a JSON object, kept as it was sent.
type accountDataRequest struct{ raw jsontext.Value }

// UnmarshalJSON implements json.Unmarshaler.
func (r *accountDataRequest) UnmarshalJSON(b []byte) error {
	r.raw = jsontext.Value(b).Clone()
	return r.raw.Compact()
}

// putAccountData serves PUT /_matrix/client/v3/user/{userId}/account_data/{type}
// and …/user/{userId}/rooms/{roomId}/account_data/{type}. Each is told anew to
// the user's clients, the same content too: a client may wait to hear its own.
// The specification knows no deletion; {} is content like any other.
func (a *API) putAccountData(ctx context.Context, c *web.Call, in accountDataRequest) (web.Empty, error) {
	d, err := accountDataPath(c)
	if err != nil {
		return web.Empty{}, err
	}
	switch d.Type {
	case "m.fully_read", "m.push_rules":
		return web.Empty{}, &matrix.Error{
			Status: http.StatusMethodNotAllowed, Code: matrix.BadJSON,
			Message: d.Type + " is kept by the server and has endpoints of its own",
		}
	}
	d.Content = in.raw
	err = a.Store.Write(ctx, "put account data", func(tx *storage.Tx) error {
		if err := a.Accounts.Alive(tx.Rx, c.DeviceNum); err != nil {
			return err
		}
		_, err := tx.SetAccountData(c.UserNum, d, a.Options.AccountData)
		return err
	})
	if errors.Is(err, storage.ErrFull) {
		err = matrix.Errorf(matrix.TooLarge, "your account data would be more than this server keeps, %d entries or %d bytes",
			a.Options.AccountData.Entries, a.Options.AccountData.Bytes)
	}
	return web.Empty{}, err
}

// accountDataPath reads which entry the path names.
func accountDataPath(c *web.Call) (storage.AccountData, error) {
	d := storage.AccountData{Type: c.Vars["type"]}
	if err := ownPath(c); err != nil {
		return d, err
	}
	if room, ok := c.Vars["roomId"]; ok {
		var err error
		if d.Room, err = matrix.ParseRoomID(room); err != nil {
			return d, matrix.Errorf(matrix.InvalidParam, "%s", err)
		}
	}
	if len(d.Type) > maxDataType {
		return d, matrix.Errorf(matrix.InvalidParam, "the type is longer than %d bytes", maxDataType)
	}
	return d, nil
}
