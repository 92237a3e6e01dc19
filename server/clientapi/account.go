package clientapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"hearth/server/account"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

type whoami struct {
	User    matrix.UserID   `json:"user_id"`
	Device  matrix.DeviceID `json:"device_id"`
	IsGuest bool            `json:"is_guest"`
}

// getWhoami serves GET /_matrix/client/v3/account/whoami.
func (a *API) getWhoami(_ context.Context, c *web.Call, _ web.NoBody) (whoami, error) {
	return whoami{User: c.User, Device: c.Device}, nil
}

type passwordRequest struct {
	Auth *account.Auth `json:"auth"`
	PasswordFields
}

// PasswordFields are what a client says when it changes a password.
type PasswordFields struct {
	New    matrix.Token `json:"new_password"`
	Logout *bool        `json:"logout_devices"` // nil: true
}

func (f PasswordFields) logout() bool { return f.Logout == nil || *f.Logout }

// postPassword serves POST /_matrix/client/v3/account/password.
// Client-Server API, "Password management".
func (a *API) postPassword(ctx context.Context, c *web.Call, in passwordRequest) (any, error) {
	if in.New == "" && in.Auth == nil {
		return nil, matrix.Errorf(matrix.MissingParam, "new_password is missing")
	}
	if in.New != "" {
		if err := a.Accounts.CheckNewPassword(in.New); err != nil {
			return nil, err
		}
	}
	how := account.Interaction{
		Auth:    in.Auth,
		Flows:   account.PasswordFlow(),
		Subject: subject(in.New.Reveal(), fmt.Sprint(in.logout())),
		Size:    len(in.New),
	}
	return interact(ctx, a, c, how, in.PasswordFields, func(f PasswordFields, _ account.Proven) (web.Empty, error) {
		if f.New == "" {
			return web.Empty{}, matrix.Errorf(matrix.MissingParam, "new_password is missing")
		}
		return web.Empty{}, a.Accounts.ChangePassword(ctx, c.User, f.New, f.logout(), c.DeviceNum)
	})
}

// subject condenses what the user consents to, so that a session that was
// completed for one thing cannot be used for another.
func subject(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return string(h.Sum(nil))
}

type deactivateRequest struct {
	Auth *account.Auth `json:"auth"`
	DeactivateFields
}

// DeactivateFields are what a client says when it closes an account.
type DeactivateFields struct {
	Erase bool `json:"erase"`
}

type deactivated struct {
	Unbind string `json:"id_server_unbind_result"`
}

// postDeactivate serves POST /_matrix/client/v3/account/deactivate. There is
// nothing to unbind, which counts as success.
// Client-Server API, "Account deactivation".
func (a *API) postDeactivate(ctx context.Context, c *web.Call, in deactivateRequest) (any, error) {
	how := account.Interaction{Auth: in.Auth, Flows: account.PasswordFlow(), Subject: fmt.Sprint(in.Erase)}
	return interact(ctx, a, c, how, in.DeactivateFields, func(f DeactivateFields, _ account.Proven) (deactivated, error) {
		return deactivated{"success"}, a.Accounts.Deactivate(ctx, c.User, f.Erase)
	})
}

type connection struct {
	IP       string `json:"ip,omitempty"`
	LastSeen int64  `json:"last_seen,omitzero"`
	Agent    string `json:"user_agent,omitempty"`
}

type connections struct {
	Connections []connection `json:"connections"`
}

type sessions struct {
	Sessions []connections `json:"sessions"`
}

type whois struct {
	User    matrix.UserID                `json:"user_id"`
	Devices map[matrix.DeviceID]sessions `json:"devices"`
}

// getWhois serves GET /_matrix/client/v3/admin/whois/{userId}, for oneself or
// by an administrator.
func (a *API) getWhois(ctx context.Context, c *web.Call, _ web.NoBody) (whois, error) {
	id, err := matrix.ParseUserID(c.Vars["userId"])
	if !c.Admin && (err != nil || id != c.User) { // before any look-up: names are not for guessing
		return whois{}, matrix.Errorf(matrix.Forbidden, "only an administrator may ask about others")
	}
	if err != nil {
		return whois{}, matrix.Errorf(matrix.InvalidParam, "%s", err)
	}
	out := whois{User: id, Devices: map[matrix.DeviceID]sessions{}}
	err = a.Store.Read(ctx, "whois", func(rx *storage.Rx) error {
		user, err := rx.UserByID(id)
		if errors.Is(err, storage.ErrNotFound) {
			return matrix.Errorf(matrix.NotFound, "there is no such user here")
		}
		if err != nil {
			return err
		}
		devices, err := rx.Devices(user.Num)
		for _, d := range devices {
			one := connection{IP: d.LastSeenIP, LastSeen: d.LastSeenMS, Agent: d.LastSeenAgent}
			out.Devices[d.ID] = sessions{[]connections{{[]connection{one}}}}
		}
		return err
	})
	return out, err
}
