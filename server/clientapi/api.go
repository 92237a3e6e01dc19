// Package clientapi serves the client-server API: one file per module of the
// specification, each handler a function from a decoded request to a response.
// It holds no SQL, starts no goroutine and keeps no state of its own.
package clientapi

import (
	"context"
	"time"

	"go.uber.org/zap"

	"hearth/federation/outbox"
	"hearth/federation/room"
	"hearth/server/account"
	"hearth/server/syncer"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
)

// Options are what the operator may say about the surface itself.
type Options struct {
	PublicURL string // what clients reach the server by; "": not announced
	Support   Support
	Turn      Turn
	ToDevice  ToDevice
	// AccountData bounds what one user keeps.
	AccountData storage.AccountDataLimits
	Rooms       RoomLimits
	// TempDir is where long answers wait for slow clients. "": where the system
	// has such files, which may be memory.
	TempDir string
}

// RoomLimits bounds what one request may put into a new room, and how many
// aliases of this server a room has. Zeroes: no bound.
type RoomLimits struct {
	MaxInitialState int // events
	MaxInvites      int // of users
	MaxAliases      int
}

// Support is whom users may turn to. Empty fields are left out.
type Support struct {
	Email    string
	MatrixID string
	Page     string
}

// Turn names the TURN servers that clients are given credentials for.
type Turn struct {
	URIs   []string      // none: there are no such servers
	Secret matrix.Token  // shared with them
	TTL    time.Duration // how long credentials are good for
}

// Deps are what the endpoints call.
type Deps struct {
	Store    *storage.Store
	Accounts *account.Accounts
	Inbox    *inbox.Inbox
	Outbox   *outbox.Queue
	Syncer   *syncer.Syncer
	Rooms    *room.Rooms
	Options  Options
	Log      *zap.Logger
}

// API is the client-server surface.
type API struct {
	Deps
}

// New makes the surface; [API.Routes] is its table.
func New(deps Deps) *API {
	deps.Log = deps.Log.Named("clientapi")
	deps.Options.ToDevice = deps.Options.ToDevice.withDefaults()
	return &API{deps}
}

// authed is [web.Authed] that also notes that the device is in use.
func authed[In, Out any](a *API, fn func(context.Context, *web.Call, In) (Out, error)) web.Handler {
	return web.Authed(func(ctx context.Context, c *web.Call, in In) (Out, error) {
		a.Accounts.Seen(c)
		return fn(ctx, c, in)
	})
}
