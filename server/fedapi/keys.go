package fedapi

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"hearth/federation/keyring"
	"hearth/server/web"
	"hearth/storage/matrix"
)

// Bounds of one query for other servers' keys.
const (
	maxQueriedServers = 100
	queriesAtOnce     = 8
	queryPatience     = 25 * time.Second // then what is there is answered
)

// getServerKeys serves GET /_matrix/key/v2/server.
// Server-Server API, "Publishing Keys".
func (a *API) getServerKeys(context.Context, *web.Call, web.NoBody) (jsontext.Value, error) {
	return a.Keys.ServerKeys()
}

// getKeyQuery serves GET /_matrix/key/v2/query/{serverName}.
// Server-Server API, "Querying Keys Through Another Server".
func (a *API) getKeyQuery(ctx context.Context, c *web.Call, _ web.NoBody) (keyring.QueryAnswer, error) {
	server, err := matrix.ParseServerName(c.Vars["serverName"])
	if err != nil {
		return keyring.QueryAnswer{}, matrix.Errorf(matrix.InvalidParam, "serverName is not a server name")
	}
	var until int64
	if text := c.Query.Get("minimum_valid_until_ts"); text != "" {
		if until, err = strconv.ParseInt(text, 10, 64); err != nil {
			return keyring.QueryAnswer{}, matrix.Errorf(matrix.InvalidParam, "minimum_valid_until_ts is not an integer")
		}
	}
	return a.query(ctx, []wanted{{server, until}})
}

type keyQuery struct{ keyring.Query }

// Validate implements web.Validator.
func (q keyQuery) Validate() error {
	if q.Servers == nil {
		return matrix.Errorf(matrix.MissingParam, "server_keys is missing")
	}
	if len(q.Servers) > maxQueriedServers {
		return matrix.Errorf(matrix.InvalidParam, "server_keys names more than %d servers", maxQueriedServers)
	}
	return nil
}

// postKeyQuery serves POST /_matrix/key/v2/query. What is no server name has no
// keys; the others are answered.
// Server-Server API, "Querying Keys Through Another Server".
func (a *API) postKeyQuery(ctx context.Context, _ *web.Call, in keyQuery) (keyring.QueryAnswer, error) {
	list := make([]wanted, 0, len(in.Servers))
	for name, keys := range in.Servers {
		server, err := matrix.ParseServerName(name)
		if err != nil {
			continue
		}
		w := wanted{server: server}
		for _, c := range keys {
			w.until = max(w.until, c.MinimumValidUntil)
		}
		list = append(list, w)
	}
	return a.query(ctx, list)
}

// wanted is a server whose keys shall be valid until then, in milliseconds.
// Zero means now.
type wanted struct {
	server matrix.ServerName
	until  int64
}

// query gathers statements, of a few servers at a time. A server that fails, or
// is not done when patience ends, is left out.
func (a *API) query(ctx context.Context, list []wanted) (keyring.QueryAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, queryPatience)
	defer cancel()
	found := make([]jsontext.Value, len(list))
	next := make(chan int, len(list))
	for i := range list {
		next <- i
	}
	close(next)
	var workers sync.WaitGroup
	for range min(queriesAtOnce, len(list)) {
		workers.Go(func() {
			for i := range next {
				text, err := a.Keys.Notarize(ctx, list[i].server, list[i].until)
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					a.Log.Warn("keys not notarized", zap.String("origin", string(list[i].server)), zap.Error(err))
				}
				found[i] = text
			}
		})
	}
	workers.Wait()
	return keyring.QueryAnswer{Keys: slices.DeleteFunc(found, func(v jsontext.Value) bool { return v == nil })}, nil
}
