package clientapi

import "hearth/server/web"

const (
	smallBody  = 16 << 10 // credentials and the like
	filterBody = 64 << 10
	deviceBody = 512 << 10 // a list of all devices
)

// Routes is the table of the surface.
func (a *API) Routes() []web.Route {
	v1, v3 := "/_matrix/client/v1", "/_matrix/client/v3"
	routes := []web.Route{
		{Method: "GET", Path: "/.well-known/matrix/client", Handler: web.Public(a.getWellKnown)},
		{Method: "GET", Path: "/.well-known/matrix/support", Handler: web.Public(a.getSupport)},
		{Method: "GET", Path: "/_matrix/client/versions", Handler: web.Public(a.getVersions)},
		{Method: "GET", Path: v3 + "/capabilities", Handler: authed(a, a.getCapabilities)},

		{Method: "POST", Path: v3 + "/register", Handler: web.Public(a.postRegister), Limit: web.LimitRegistration, MaxBody: smallBody},
		{Method: "GET", Path: v3 + "/register/available", Handler: web.Public(a.getAvailable), Limit: web.LimitRegistration},
		{Method: "GET", Path: v1 + "/register/m.login.registration_token/validity", Handler: web.Public(a.getTokenValidity), Limit: web.LimitRegistration},

		{Method: "GET", Path: v3 + "/login", Handler: web.Public(a.getLogin)},
		{Method: "POST", Path: v3 + "/login", Handler: web.Public(a.postLogin), Limit: web.LimitLogin, MaxBody: smallBody},
		{Method: "GET", Path: "/_matrix/static/client/login/", Handler: web.PublicStream(a.getLoginPage)},
		{Method: "POST", Path: v1 + "/login/get_token", Handler: authed(a, a.postGetToken), Limit: web.LimitLogin, MaxBody: smallBody, BodyOptional: true},
		// A refresh token cannot be guessed, and a household behind one
		// address refreshes all at once after an outage: the generous limit.
		{Method: "POST", Path: v3 + "/refresh", Handler: web.Public(a.postRefresh), Limit: web.LimitSending, MaxBody: smallBody},
		{Method: "POST", Path: v3 + "/logout", Handler: authed(a, a.postLogout), Locked: true},
		{Method: "POST", Path: v3 + "/logout/all", Handler: authed(a, a.postLogoutAll), Locked: true},
		{Method: "GET", Path: v3 + "/auth/{type}/fallback/web", Handler: web.PublicStream(a.getFallback)},
		{Method: "POST", Path: v3 + "/auth/{type}/fallback/web", Handler: web.PublicStream(a.postFallback), Limit: web.LimitLogin},

		{Method: "GET", Path: v3 + "/account/whoami", Handler: authed(a, a.getWhoami)},
		{Method: "POST", Path: v3 + "/account/password", Handler: authed(a, a.postPassword), Limit: web.LimitLogin, MaxBody: smallBody},
		{Method: "POST", Path: v3 + "/account/deactivate", Handler: authed(a, a.postDeactivate), Limit: web.LimitLogin, MaxBody: smallBody, BodyOptional: true},
		{Method: "GET", Path: v3 + "/admin/whois/{userId}", Handler: authed(a, a.getWhois)},

		{Method: "GET", Path: v3 + "/devices", Handler: authed(a, a.getDevices)},
		{Method: "GET", Path: v3 + "/devices/{deviceId}", Handler: authed(a, a.getDevice)},
		{Method: "PUT", Path: v3 + "/devices/{deviceId}", Handler: authed(a, a.putDevice), MaxBody: smallBody},
		{Method: "DELETE", Path: v3 + "/devices/{deviceId}", Handler: authed(a, a.deleteDevice), Limit: web.LimitLogin, MaxBody: smallBody, BodyOptional: true},
		{Method: "POST", Path: v3 + "/delete_devices", Handler: authed(a, a.postDeleteDevices), Limit: web.LimitLogin, MaxBody: deviceBody},

		{Method: "POST", Path: v3 + "/user/{userId}/filter", Handler: authed(a, a.postFilter), MaxBody: filterBody},
		{Method: "GET", Path: v3 + "/user/{userId}/filter/{filterId}", Handler: authed(a, a.getFilter)},
		{Method: "PUT", Path: v3 + "/sendToDevice/{eventType}/{txnId}", Handler: authed(a, a.putSendToDevice), Limit: web.LimitSending, MaxBody: a.Options.ToDevice.MaxRequestBytes},
		{Method: "GET", Path: v3 + "/sync", Handler: authed(a, a.getSync), LongPoll: true},
		{Method: "GET", Path: v3 + "/voip/turnServer", Handler: authed(a, a.getTurnServer)},
	}
	routes = append(routes, a.accountDataRoutes()...)
	routes = append(routes, a.moderationRoutes()...)
	routes = append(routes, a.roomWriteRoutes()...)
	routes = append(routes, a.roomReadRoutes()...)
	if a.Accounts.SharedSecretSet() {
		routes = append(routes,
			web.Route{Method: "GET", Path: "/_synapse/admin/v1/register", Handler: web.Public(a.getNonce)},
			web.Route{Method: "POST", Path: "/_synapse/admin/v1/register", Handler: web.Public(a.postSharedRegister), MaxBody: smallBody},
		)
	}
	return routes
}
