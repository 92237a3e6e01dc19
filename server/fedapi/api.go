// Package fedapi serves the server-server API: one file per section of the
// specification, each handler a function from a decoded request to a response.
// It holds no SQL, starts no goroutine that it does not join, and keeps no
// state of its own.
package fedapi

import (
	"go.uber.org/zap"

	"hearth/federation/inbound"
	"hearth/federation/keyring"
	"hearth/storage/matrix"
)

// Options are what the operator may say about the surface itself.
type Options struct {
	Delegate string // where other servers find this one, "matrix.example.org:443"; "": not announced
	Version  string // of the program
}

// Deps are what the endpoints call.
type Deps struct {
	Server  matrix.ServerName // this server's name
	Keys    *keyring.Ring
	Inbound *inbound.Processor
	Options Options
	Log     *zap.Logger
}

// API is the server-server surface.
type API struct {
	Deps
}

// New makes the surface; [API.Routes] is its table.
func New(deps Deps) *API {
	deps.Log = deps.Log.Named("fedapi")
	return &API{deps}
}
