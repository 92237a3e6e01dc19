package clientapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/syncer"
	"hearth/server/view"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

// maxFilterID bounds a filter ID, in bytes.
const maxFilterID = 255

// getSync serves GET /_matrix/client/v3/sync.
// Client-Server API, "Syncing".
func (a *API) getSync(ctx context.Context, c *web.Call, _ web.NoBody) (syncer.Response, error) {
	r := syncer.Request{
		User: c.User, UserNum: c.UserNum, DeviceNum: c.DeviceNum,
		Since: c.Query.Get("since"), Closing: c.Closing,
	}
	var err [4]error
	r.FullState, err[0] = queryBool(c, "full_state")
	r.StateAfter, err[1] = queryBool(c, "use_state_after")
	r.Timeout, err[2] = queryMillis(c, "timeout")
	r.Filter, err[3] = a.syncFilter(ctx, c)
	if err := errors.Join(append(err[:], checkPresence(c.Query.Get("set_presence")))...); err != nil {
		return syncer.Response{}, err
	}
	return a.Syncer.Sync(ctx, r)
}

// checkPresence checks set_presence; absent means online.
func checkPresence(s string) error {
	switch s {
	case "", "online", "offline", "unavailable":
		return nil
	}
	return matrix.Errorf(matrix.InvalidParam, "set_presence is neither online, offline nor unavailable")
}

// syncFilter reads the filter, which is either JSON or the ID of one that the
// user uploaded. Client-Server API, "Filtering".
func (a *API) syncFilter(ctx context.Context, c *web.Call) (view.Filter, error) {
	filter := c.Query.Get("filter")
	switch {
	case filter == "":
		return view.Filter{}, nil
	case strings.HasPrefix(filter, "{"):
		var in filterRequest
		if err := web.Decode([]byte(filter), false, &in); err != nil {
			return view.Filter{}, matrix.Errorf(matrix.InvalidParam, "the filter is not valid: %s", err)
		}
		return in.filter, nil
	case len(filter) > maxFilterID:
		return view.Filter{}, matrix.Errorf(matrix.InvalidParam, "there is no such filter")
	}
	var raw jsontext.Value
	err := a.Store.Read(ctx, "filter", func(rx *storage.Rx) (err error) {
		raw, err = rx.Filter(c.UserNum, filter)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return view.Filter{}, matrix.Errorf(matrix.InvalidParam, "there is no such filter")
	}
	if err != nil {
		return view.Filter{}, err
	}
	var f view.Filter
	if err := json.Unmarshal(raw, &f); err != nil { // it was checked when it was uploaded
		return view.Filter{}, fmt.Errorf("stored filter: %w", err)
	}
	return f, nil
}

// queryBool reads a parameter that is true, false or absent.
func queryBool(c *web.Call, name string) (bool, error) {
	switch c.Query.Get(name) {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	}
	return false, matrix.Errorf(matrix.InvalidParam, "%s is neither true nor false", name)
}

// queryMillis reads a parameter that is a time in milliseconds; absent is 0.
func queryMillis(c *web.Call, name string) (time.Duration, error) {
	s := c.Query.Get(name)
	if s == "" {
		return 0, nil
	}
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil || ms < 0 {
		return 0, matrix.Errorf(matrix.InvalidParam, "%s is not a number of milliseconds", name)
	}
	const most = 24 * time.Hour // the syncer has its own, lower limit
	return time.Duration(min(ms, most.Milliseconds())) * time.Millisecond, nil
}
