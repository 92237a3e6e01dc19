package clientapi

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"hearth/server/syncer"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

// maxFilterID bounds a filter ID, in bytes.
const maxFilterID = 255

// getSync serves GET /_matrix/client/v3/sync.
// Client-Server API, "Syncing".
func (a *API) getSync(ctx context.Context, c *web.Call, _ web.NoBody) (syncer.Response, error) {
	r := syncer.Request{UserNum: c.UserNum, DeviceNum: c.DeviceNum, Since: c.Query.Get("since"), Closing: c.Closing}
	var err, err1, err2 error
	r.FullState, err = queryBool(c, "full_state")
	_, err1 = queryBool(c, "use_state_after") // of rooms, which this server has none of yet
	r.Timeout, err2 = queryMillis(c, "timeout")
	if err := errors.Join(err, err1, err2, checkPresence(c.Query.Get("set_presence")), a.checkFilter(ctx, c)); err != nil {
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

// checkFilter checks the filter, which is either JSON or the ID of one that the
// user uploaded. Nothing that this server tells yet can be filtered.
// Client-Server API, "Filtering".
func (a *API) checkFilter(ctx context.Context, c *web.Call) error {
	filter := c.Query.Get("filter")
	switch {
	case filter == "":
		return nil
	case strings.HasPrefix(filter, "{"):
		var in filterRequest
		if err := web.Decode([]byte(filter), false, &in); err != nil {
			return matrix.Errorf(matrix.InvalidParam, "the filter is not valid: %s", err)
		}
		return nil
	case len(filter) > maxFilterID:
		return matrix.Errorf(matrix.InvalidParam, "there is no such filter")
	}
	err := a.Store.Read(ctx, "filter", func(rx *storage.Rx) error {
		_, err := rx.Filter(c.UserNum, filter)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return matrix.Errorf(matrix.InvalidParam, "there is no such filter")
	}
	return err
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
