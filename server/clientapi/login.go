package clientapi

import (
	"context"
	"net/http"
	"strings"

	"hearth/server/account"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

type loginFlow struct {
	Type     string `json:"type"`
	GetToken bool   `json:"get_login_token,omitzero"`
}

type loginFlows struct {
	Flows []loginFlow `json:"flows"`
}

// getLogin serves GET /_matrix/client/v3/login.
func (a *API) getLogin(context.Context, *web.Call, web.NoBody) (loginFlows, error) {
	return loginFlows{[]loginFlow{{Type: "m.login.password"}, {Type: "m.login.token", GetToken: true}}}, nil
}

type loginRequest struct {
	Type       string              `json:"type"`
	Identifier *account.Identifier `json:"identifier"`
	User       string              `json:"user"`    // deprecated
	Address    string              `json:"address"` // deprecated
	Password   matrix.Token        `json:"password"`
	Token      matrix.Token        `json:"token"`
	DeviceID   string              `json:"device_id"`
	DeviceName string              `json:"initial_device_display_name"`
	Refresh    bool                `json:"refresh_token"`
}

// Validate implements [web.Validator].
func (r loginRequest) Validate() error {
	switch {
	case r.Type == "":
		return matrix.Errorf(matrix.MissingParam, "type is missing")
	case r.Type == "m.login.password" && r.Password == "":
		return matrix.Errorf(matrix.MissingParam, "password is missing")
	case r.Type == "m.login.token" && r.Token == "":
		return matrix.Errorf(matrix.MissingParam, "token is missing")
	}
	return nil
}

// postLogin serves POST /_matrix/client/v3/login.
// Client-Server API, "Login".
func (a *API) postLogin(ctx context.Context, _ *web.Call, in loginRequest) (session, error) {
	device, err := account.CheckDevice(in.DeviceID, in.DeviceName)
	if err != nil {
		return session{}, err
	}
	user, err := a.provenUser(ctx, in)
	if err != nil {
		return session{}, err
	}
	login, err := a.Accounts.Login(ctx, user, account.LoginRequest{Device: device, DeviceName: in.DeviceName, Refresh: in.Refresh})
	if err != nil {
		return session{}, err
	}
	out := a.session(login)
	if a.Options.PublicURL != "" {
		out.WellKnown = &wellKnown{baseURL{a.Options.PublicURL}}
	}
	return out, nil
}

// provenUser finds the user whose password or login token the request holds.
func (a *API) provenUser(ctx context.Context, in loginRequest) (storage.User, error) {
	switch in.Type {
	case "m.login.password":
		local, err := a.loginName(in)
		if err != nil {
			return storage.User{}, err
		}
		return a.Accounts.CheckPassword(ctx, local, in.Password)
	case "m.login.token":
		return a.Accounts.TakeLoginToken(ctx, in.Token)
	}
	return storage.User{}, &matrix.Error{Status: http.StatusBadRequest, Code: matrix.Unknown, Message: "unknown login type"}
}

// loginName reads whom the client wants to log in as.
// Client-Server API, "Identifier types".
func (a *API) loginName(in loginRequest) (string, error) {
	name := in.User
	if id := in.Identifier; id != nil {
		switch id.Type {
		case "m.id.user":
			name = id.User
		case "m.id.thirdparty", "m.id.phone": // no account has such an identifier
			return "", matrix.Errorf(matrix.Forbidden, "no account is known by this identifier")
		case "":
			return "", matrix.Errorf(matrix.MissingParam, "identifier.type is missing")
		default:
			return "", &matrix.Error{Status: http.StatusBadRequest, Code: matrix.Unknown, Message: "unknown identifier type"}
		}
	} else if in.Address != "" {
		return "", matrix.Errorf(matrix.Forbidden, "no account is known by this identifier")
	}
	if name == "" {
		return "", matrix.Errorf(matrix.MissingParam, "the user is missing")
	}
	local, ok := a.Accounts.LocalpartOf(name)
	if !ok {
		return "", matrix.Errorf(matrix.Forbidden, "wrong user name or password")
	}
	return local, nil
}

type refreshRequest struct {
	Refresh matrix.Token `json:"refresh_token"`
}

// Validate implements [web.Validator].
func (r refreshRequest) Validate() error {
	if r.Refresh == "" {
		return matrix.Errorf(matrix.MissingParam, "refresh_token is missing")
	}
	return nil
}

type refreshed struct {
	Access    string `json:"access_token"`
	Refresh   string `json:"refresh_token"`
	ExpiresIn int64  `json:"expires_in_ms"`
}

// postRefresh serves POST /_matrix/client/v3/refresh.
// Client-Server API, "Refreshing access tokens".
func (a *API) postRefresh(ctx context.Context, _ *web.Call, in refreshRequest) (refreshed, error) {
	l, err := a.Accounts.Refresh(ctx, in.Refresh)
	return refreshed{l.Access.Reveal(), l.Refresh.Reveal(), l.ExpiresIn.Milliseconds()}, err
}

type getTokenRequest struct {
	Auth *account.Auth `json:"auth"`
}

type loginToken struct {
	Token     string `json:"login_token"`
	ExpiresIn int64  `json:"expires_in_ms"`
}

// postGetToken serves POST /_matrix/client/v1/login/get_token.
func (a *API) postGetToken(ctx context.Context, c *web.Call, in getTokenRequest) (any, error) {
	how := account.Interaction{Auth: in.Auth, Flows: account.PasswordFlow()}
	return interact(ctx, a, c, how, struct{}{}, func(struct{}, account.Proven) (loginToken, error) {
		t := a.Accounts.NewLoginToken(c.User)
		return loginToken{t.Reveal(), account.LoginTokenTTL.Milliseconds()}, nil
	})
}

// postLogout serves POST /_matrix/client/v3/logout.
func (a *API) postLogout(ctx context.Context, c *web.Call, _ web.NoBody) (web.Empty, error) {
	return web.Empty{}, a.Accounts.Logout(ctx, storage.DeviceRef{Num: c.DeviceNum, ID: c.Device})
}

// postLogoutAll serves POST /_matrix/client/v3/logout/all.
func (a *API) postLogoutAll(ctx context.Context, c *web.Call, _ web.NoBody) (web.Empty, error) {
	return web.Empty{}, a.Accounts.LogoutAll(ctx, c.UserNum)
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }
