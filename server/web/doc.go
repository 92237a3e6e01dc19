// Package web is the HTTP kernel. It turns a request into a call of a typed
// function and the function's result into a response, and it alone knows about
// routing, percent-encoding, access tokens in requests, CORS, body limits,
// rate limits, request IDs, the access log and panics.
//
// Endpoints are functions of a [Call] and a decoded request; they touch no
// header and no status except through this package. It knows nothing of
// accounts or rooms: who a token belongs to is told by an [Authenticator].
package web
