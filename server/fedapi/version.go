package fedapi

import (
	"context"

	"hearth/server/web"
	"hearth/storage/matrix"
)

type program struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type version struct {
	Server program `json:"server"`
}

// getVersion serves GET /_matrix/federation/v1/version.
// Server-Server API, "API standards".
func (a *API) getVersion(context.Context, *web.Call, web.NoBody) (version, error) {
	return version{program{"Hearth", a.Options.Version}}, nil
}

type wellKnown struct {
	Server string `json:"m.server"`
}

// getWellKnown serves GET /.well-known/matrix/server.
// Server-Server API, "Server discovery".
func (a *API) getWellKnown(context.Context, *web.Call, web.NoBody) (wellKnown, error) {
	if a.Options.Delegate == "" {
		return wellKnown{}, matrix.Errorf(matrix.NotFound, "This server is where its name says")
	}
	return wellKnown{a.Options.Delegate}, nil
}
