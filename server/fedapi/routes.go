package fedapi

import "hearth/server/web"

// keyQueryBody is the size of a request for other servers' keys.
const keyQueryBody = 64 << 10

// Routes is the table of the surface.
func (a *API) Routes() []web.Route {
	v1, keys := "/_matrix/federation/v1", "/_matrix/key/v2"
	return []web.Route{
		{Method: "GET", Path: keys + "/server", Handler: web.Public(a.getServerKeys), Limit: web.LimitFederation},
		{Method: "GET", Path: keys + "/query/{serverName}", Handler: web.Public(a.getKeyQuery), Limit: web.LimitKeyQueries},
		{Method: "POST", Path: keys + "/query", Handler: web.Public(a.postKeyQuery), Limit: web.LimitKeyQueries, MaxBody: keyQueryBody},
		{Method: "GET", Path: v1 + "/version", Handler: web.Public(a.getVersion), Limit: web.LimitFederation},
		{Method: "PUT", Path: v1 + "/send/{txnId}", Handler: web.Federation(a.putSend), Limit: web.LimitFederation, MaxBody: transactionBody},
	}
}

// Discovery is where other servers learn where this one is. They ask at port
// 443 of its name, so it is served beside the client-server API.
func (a *API) Discovery() []web.Route {
	return []web.Route{{Method: "GET", Path: "/.well-known/matrix/server", Handler: web.Public(a.getWellKnown)}}
}
