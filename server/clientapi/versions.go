package clientapi

import (
	"context"

	"hearth/server/web"
	"hearth/storage/matrix"
)

type versions struct {
	Versions []string        `json:"versions"`
	Unstable map[string]bool `json:"unstable_features"`
}

// getVersions serves GET /_matrix/client/versions.
// Client-Server API, "API Versions".
func (a *API) getVersions(context.Context, *web.Call, web.NoBody) (versions, error) {
	return versions{
		Versions: []string{
			"v1.1", "v1.2", "v1.3", "v1.4", "v1.5", "v1.6", "v1.7", "v1.8", "v1.9", "v1.10",
			"v1.11", "v1.12", "v1.13", "v1.14", "v1.15", "v1.16", "v1.17", "v1.18", "v1.19",
		},
		Unstable: map[string]bool{},
	}, nil
}

type baseURL struct {
	URL string `json:"base_url"`
}

type wellKnown struct {
	Homeserver baseURL `json:"m.homeserver"`
}

// getWellKnown serves GET /.well-known/matrix/client.
// Client-Server API, "Well-known URIs".
func (a *API) getWellKnown(context.Context, *web.Call, web.NoBody) (wellKnown, error) {
	if a.Options.PublicURL == "" {
		return wellKnown{}, matrix.Errorf(matrix.NotFound, "this server announces no address")
	}
	return wellKnown{baseURL{a.Options.PublicURL}}, nil
}

type contact struct {
	MatrixID string `json:"matrix_id,omitempty"`
	Email    string `json:"email_address,omitempty"`
	Role     string `json:"role"`
}

type support struct {
	Contacts []contact `json:"contacts,omitempty"`
	Page     string    `json:"support_page,omitempty"`
}

// getSupport serves GET /.well-known/matrix/support.
func (a *API) getSupport(context.Context, *web.Call, web.NoBody) (support, error) {
	who := a.Options.Support
	out := support{Page: who.Page}
	if who.Email != "" || who.MatrixID != "" {
		out.Contacts = []contact{{MatrixID: who.MatrixID, Email: who.Email, Role: "m.role.admin"}}
	}
	if out.Page == "" && out.Contacts == nil {
		return support{}, matrix.Errorf(matrix.NotFound, "this server names no contact")
	}
	return out, nil
}

type capability struct {
	Enabled bool `json:"enabled"`
}

type roomVersions struct {
	Default   matrix.RoomVersion            `json:"default"`
	Available map[matrix.RoomVersion]string `json:"available"`
}

// knownVersions are all stable. Room Versions, "Complete list of room versions".
func knownVersions() roomVersions {
	v := roomVersions{matrix.DefaultRoomVersion, map[matrix.RoomVersion]string{}}
	for _, id := range matrix.RoomVersions() {
		v.Available[id] = "stable"
	}
	return v
}

type moderationCapability struct {
	Suspend bool `json:"suspend"`
	Lock    bool `json:"lock"`
}

type capabilities struct {
	Capabilities map[string]any `json:"capabilities"`
}

// getCapabilities serves GET /_matrix/client/v3/capabilities. What is not
// there yet is said to be not there.
// Client-Server API, "Capabilities negotiation".
func (a *API) getCapabilities(_ context.Context, c *web.Call, _ web.NoBody) (capabilities, error) {
	out := map[string]any{
		"m.change_password": capability{true},
		"m.get_login_token": capability{true},
		"m.room_versions":   knownVersions(),
		"m.3pid_changes":    capability{false},
		"m.set_displayname": capability{false},
		"m.set_avatar_url":  capability{false},
		"m.profile_fields":  capability{false},
	}
	if c.Admin { // others are not told of it
		out["m.account_moderation"] = moderationCapability{Suspend: true, Lock: true}
	}
	return capabilities{out}, nil
}
