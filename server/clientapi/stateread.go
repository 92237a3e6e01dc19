package clientapi

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

// getState serves GET /_matrix/client/v3/rooms/{roomId}/state.
func (a *API) getState(ctx context.Context, c *web.Call, _ web.NoBody) (pieces, error) {
	return a.tellRoom(ctx, c, nil, func(r reading, out pieces) error {
		state, err := r.view.State(r.room)
		if err != nil {
			return err
		}
		return r.writeState(out, "", state, nil)
	})
}

// getStateEvent serves GET /_matrix/client/v3/rooms/{roomId}/state/{eventType}/{stateKey}.
func (a *API) getStateEvent(ctx context.Context, c *web.Call, _ web.NoBody) (jsontext.Value, error) {
	format, err := queryOneOf(c, "format", "content", "event")
	var out jsontext.Value
	err = a.readRoom(ctx, c, err, func(r reading) error {
		e, err := r.view.StateEvent(r.room, c.Vars["eventType"], c.Vars["stateKey"])
		switch {
		case errors.Is(err, storage.ErrNotFound):
			return matrix.Errorf(matrix.NotFound, "the room has no such state")
		case err != nil:
			return err
		case format == "event":
			out, err = r.view.ClientEvent(e, withRoom)
			return err
		}
		out = e.Content()
		return nil
	})
	return out, err
}
