package clientapi

import (
	"context"
	"net/http"

	"hearth/server/account"
	"hearth/server/web"
	"hearth/storage/matrix"
)

type registerRequest struct {
	Auth *account.Auth `json:"auth"`
	RegisterFields
}

// RegisterFields are what a client says of the account it wants.
type RegisterFields struct {
	Username   string       `json:"username"`
	Password   matrix.Token `json:"password"`
	Inhibit    bool         `json:"inhibit_login"`
	DeviceID   string       `json:"device_id"`
	DeviceName string       `json:"initial_device_display_name"`
	Refresh    bool         `json:"refresh_token"`
}

func (f RegisterFields) size() int {
	return len(f.Username) + len(f.Password) + len(f.DeviceID) + len(f.DeviceName)
}

// session is the answer of whatever logs in.
type session struct {
	User       matrix.UserID     `json:"user_id"`
	Homeserver matrix.ServerName `json:"home_server"` // deprecated, still read
	Device     matrix.DeviceID   `json:"device_id,omitempty"`
	Access     string            `json:"access_token,omitempty"`
	Refresh    string            `json:"refresh_token,omitempty"`
	ExpiresIn  int64             `json:"expires_in_ms,omitzero"`
	WellKnown  *wellKnown        `json:"well_known,omitempty"`
}

func (a *API) session(l account.Login) session {
	return session{
		User: l.User, Homeserver: l.User.Server(), Device: l.Device,
		Access: l.Access.Reveal(), Refresh: l.Refresh.Reveal(), ExpiresIn: l.ExpiresIn.Milliseconds(),
	}
}

// postRegister serves POST /_matrix/client/v3/register.
// Client-Server API, "Account registration".
func (a *API) postRegister(ctx context.Context, c *web.Call, in registerRequest) (any, error) {
	switch kind := c.Query.Get("kind"); kind {
	case "", "user":
	case "guest":
		return nil, matrix.Errorf(matrix.GuestAccessForbidden, "this server has no guest accounts")
	default:
		return nil, matrix.Errorf(matrix.InvalidParam, "kind is neither user nor guest")
	}
	flows, params, err := a.Accounts.RegistrationFlows(ctx)
	if err != nil {
		return nil, err
	}
	// Whatever can be refused is refused before the user is asked to do anything.
	if _, err := a.checkRegistration(ctx, in.RegisterFields, false); err != nil {
		return nil, err
	}
	how := account.Interaction{Auth: in.Auth, Flows: flows, Params: params, Size: in.size()}
	return interact(ctx, a, c, how, in.RegisterFields, func(f RegisterFields, p account.Proven) (session, error) {
		r, err := a.checkRegistration(ctx, f, true)
		if err != nil {
			return session{}, err
		}
		r.Token = p.RegToken
		login, err := a.Accounts.Register(ctx, r)
		return a.session(login), err
	})
}

// checkRegistration turns a client's wishes into a registration. Until the end
// of the authentication they may be incomplete.
func (a *API) checkRegistration(ctx context.Context, f RegisterFields, final bool) (r account.Registration, err error) {
	if f.Username != "" {
		if r.Localpart, err = a.Accounts.CheckName(ctx, f.Username); err != nil {
			return r, err
		}
	}
	device, err := account.CheckDevice(f.DeviceID, f.DeviceName)
	if err != nil {
		return r, err
	}
	r.Password = f.Password
	switch {
	case f.Password != "":
		if err := a.Accounts.CheckNewPassword(f.Password); err != nil {
			return r, err
		}
	case final:
		return r, matrix.Errorf(matrix.MissingParam, "password is missing")
	}
	if !f.Inhibit {
		r.Login = &account.LoginRequest{Device: device, DeviceName: f.DeviceName, Refresh: f.Refresh}
	}
	return r, nil
}

type available struct {
	Available bool `json:"available"`
}

// getAvailable serves GET /_matrix/client/v3/register/available.
func (a *API) getAvailable(ctx context.Context, c *web.Call, _ web.NoBody) (available, error) {
	name, err := queryParam(c, "username")
	if err != nil {
		return available{}, err
	}
	_, err = a.Accounts.CheckName(ctx, name)
	return available{true}, err
}

type validity struct {
	Valid bool `json:"valid"`
}

// getTokenValidity serves GET /_matrix/client/v1/register/m.login.registration_token/validity.
// Client-Server API, "Token-authenticated registration".
func (a *API) getTokenValidity(ctx context.Context, c *web.Call, _ web.NoBody) (validity, error) {
	token, err := queryParam(c, "token")
	if err != nil {
		return validity{}, err
	}
	open, err := a.Accounts.RegistrationOpen(ctx)
	if err != nil {
		return validity{}, err
	}
	if !open {
		return validity{}, matrix.Errorf(matrix.Forbidden, "registration is closed on this server")
	}
	valid, err := a.Accounts.CheckRegToken(ctx, matrix.Token(token))
	return validity{valid}, err
}

// queryParam reads a required query parameter.
func queryParam(c *web.Call, name string) (string, error) {
	if v := c.Query.Get(name); v != "" {
		return v, nil
	}
	return "", matrix.Errorf(matrix.MissingParam, "the query parameter %s is missing", name)
}

type nonce struct {
	Nonce string `json:"nonce"`
}

// getNonce serves GET /_synapse/admin/v1/register.
func (a *API) getNonce(context.Context, *web.Call, web.NoBody) (nonce, error) {
	return nonce{a.Accounts.NewNonce()}, nil
}

type sharedRequest struct {
	Nonce      string       `json:"nonce"`
	Username   string       `json:"username"`
	Password   matrix.Token `json:"password"`
	Admin      bool         `json:"admin"`
	Type       string       `json:"user_type"`
	MAC        string       `json:"mac"`
	Inhibit    bool         `json:"inhibit_login"`
	DeviceID   string       `json:"device_id"`
	DeviceName string       `json:"initial_device_display_name"`
	Refresh    bool         `json:"refresh_token"`
}

// Validate implements [web.Validator].
func (r sharedRequest) Validate() error {
	for _, f := range []struct{ name, value string }{
		{"nonce", r.Nonce}, {"username", r.Username}, {"password", r.Password.Reveal()}, {"mac", r.MAC},
	} {
		if f.value == "" {
			return matrix.Errorf(matrix.MissingParam, "%s is missing", f.name)
		}
	}
	// The MAC separates its parts by NUL: one inside of a part would make two
	// different requests look alike.
	if hasNUL(r.Username) || hasNUL(r.Password.Reveal()) || len(r.Password) > 512 || len(r.Type) > 64 {
		return &matrix.Error{Status: http.StatusBadRequest, Code: matrix.InvalidParam, Message: "username, password or user_type is not usable"}
	}
	return nil
}

// postSharedRegister serves POST /_synapse/admin/v1/register: registration by
// whoever knows the shared secret, as provisioning scripts and test tools
// expect it. The secret is the administrator's, so no further rule is applied
// to the password.
func (a *API) postSharedRegister(ctx context.Context, _ *web.Call, in sharedRequest) (session, error) {
	r := account.SharedRegistration{
		Nonce: in.Nonce, Name: in.Username, Password: in.Password, Admin: in.Admin, Type: in.Type, MAC: in.MAC,
	}
	if err := a.Accounts.CheckShared(r); err != nil {
		return session{}, err
	}
	device, err := account.CheckDevice(in.DeviceID, in.DeviceName)
	if err != nil {
		return session{}, err
	}
	var req *account.LoginRequest
	if !in.Inhibit {
		req = &account.LoginRequest{Device: device, DeviceName: in.DeviceName, Refresh: in.Refresh}
	}
	login, err := a.Accounts.RegisterShared(ctx, r, req)
	return a.session(login), err
}
