package clientapi

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/view"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

// filterRequest is a filter as it was uploaded: kept whole, keys that are not
// known included, once those that are known have the right types.
type filterRequest struct {
	filter view.Filter
	raw    jsontext.Value
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *filterRequest) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &f.filter); err != nil {
		return err
	}
	f.raw = jsontext.Value(b).Clone()
	return f.raw.Compact()
}

type filterID struct {
	ID string `json:"filter_id"`
}

// postFilter serves POST /_matrix/client/v3/user/{userId}/filter.
func (a *API) postFilter(ctx context.Context, c *web.Call, in filterRequest) (filterID, error) {
	if err := ownPath(c); err != nil {
		return filterID{}, err
	}
	var out filterID
	find := func(rx *storage.Rx) (err error) {
		out.ID, err = rx.FindFilter(c.UserNum, in.raw)
		return err
	}
	// Clients upload the same filter at every start: that costs no write.
	if err := a.Store.Read(ctx, "find filter", find); !errors.Is(err, storage.ErrNotFound) {
		return out, err
	}
	err := a.Store.Write(ctx, "add filter", func(tx *storage.Tx) (err error) {
		if err := a.Accounts.Alive(tx.Rx, c.DeviceNum); err != nil {
			return err
		}
		if err := find(tx.Rx); !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		out.ID, err = tx.AddFilter(c.UserNum, in.raw)
		return err
	})
	return out, err
}

// getFilter serves GET /_matrix/client/v3/user/{userId}/filter/{filterId}.
func (a *API) getFilter(ctx context.Context, c *web.Call, _ web.NoBody) (jsontext.Value, error) {
	if err := ownPath(c); err != nil {
		return nil, err
	}
	var out jsontext.Value
	err := a.Store.Read(ctx, "get filter", func(rx *storage.Rx) (err error) {
		out, err = rx.Filter(c.UserNum, c.Vars["filterId"])
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		err = matrix.Errorf(matrix.NotFound, "you have no such filter")
	}
	return out, err
}

// ownPath refuses a path that names another user than the caller.
func ownPath(c *web.Call) error {
	if c.Vars["userId"] != string(c.User) {
		return matrix.Errorf(matrix.Forbidden, "the path names another user")
	}
	return nil
}
