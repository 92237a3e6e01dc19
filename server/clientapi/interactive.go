package clientapi

import (
	"context"
	"reflect"

	"hearth/server/account"
	"hearth/server/web"
)

// interact performs a request once its caller has proven who they are. A client
// that completed a stage in a browser comes back with the session alone; then
// the request it began with is performed.
// Client-Server API, "User-Interactive Authentication API".
func interact[Fields, Out any](ctx context.Context, a *API, c *web.Call, how account.Interaction, in Fields,
	fn func(Fields, account.Proven) (Out, error)) (any, error) {
	how.Endpoint, how.User = c.Method+" "+c.Template, c.User
	bare := reflect.ValueOf(in).IsZero()
	if !bare {
		how.Request = in
	}
	proven, resume, challenge, err := a.Accounts.Interact(ctx, how)
	if err != nil {
		return nil, err
	}
	if challenge != nil {
		if challenge.Polled {
			c.Waive()
		}
		return challenge, nil
	}
	if first, ok := proven.Request.(Fields); ok && bare {
		in = first
	}
	out, err := fn(in, proven)
	if err != nil {
		resume()
		return nil, err
	}
	return out, nil
}
