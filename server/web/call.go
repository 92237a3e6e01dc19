package web

import (
	"context"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"hearth/storage/matrix"
)

// Caller is whom an access token belongs to.
type Caller struct {
	User      matrix.UserID
	UserNum   int64
	Device    matrix.DeviceID
	DeviceNum int64 // the device's incarnation: never reused
	Admin     bool
	Suspended bool  // may neither say nor join anything; endpoints judge
	Locked    error // why the user may only log out, for the client; nil: may do more
}

// Authenticator tells who an access token belongs to. An unknown token is a
// [*matrix.Error] with M_UNKNOWN_TOKEN.
type Authenticator interface {
	Authenticate(ctx context.Context, token matrix.Token) (Caller, error)
}

// Call is what an endpoint knows of its request besides the body. The caller's
// fields are zero for public endpoints. It lives as long as the request.
type Call struct {
	Caller
	Origin    matrix.ServerName // the server that signed the request, of [Federation] endpoints
	Token     matrix.Token      // the access token itself, for logging out
	Vars      map[string]string // path variables, percent-decoded; valid UTF-8 without NUL
	Query     url.Values        // without access_token
	Method    string
	Template  string // the route's path template, for transaction scopes and logs
	RequestID string
	RemoteIP  string // the client's address, as told by a trusted proxy or the connection
	UserAgent string
	Log       *zap.Logger // carries request_id, user and device
	// Closing is closed when the server begins to shut down: a long poll then
	// answers at once with what it has.
	Closing <-chan struct{}

	route  *route
	charge func(n int) error // nil: the route has no rate limit
	waive  func()            // likewise
}

// Charge counts the request against its rate limit n times more, as one that
// does the work of many; or as often as the limit lets through at once, so that
// whoever waits for long enough is let through. Its error is M_LIMIT_EXCEEDED,
// and then none is counted.
func (c *Call) Charge(n int) error {
	if c.charge == nil || n <= 0 {
		return nil
	}
	return c.charge(n)
}

// Waive takes back that the request was counted against its rate limit, for one
// that turns out to do nothing of what the limit is for. It is called once.
func (c *Call) Waive() {
	if c.waive != nil {
		c.waive()
	}
}

// Empty is a response without content: {}.
type Empty struct{}

// NoBody is the In type of endpoints that take no request body. One that is
// sent all the same is not looked at.
type NoBody struct{}

// Stream is an endpoint that reads and writes HTTP itself: media, pages. An
// error it returns before writing becomes an error body.
type Stream func(w http.ResponseWriter, r *http.Request, c *Call) error

// Handler is an endpoint as the kernel runs it. [Authed], [Public],
// [PublicStream] and [Federation] make one.
type Handler struct {
	authed bool
	serve  func(k *Kernel, w *response, r *http.Request, c *Call) error
}

// Authed makes an endpoint that needs an access token. In is decoded from the
// body as [Public] describes.
func Authed[In, Out any](fn func(context.Context, *Call, In) (Out, error)) Handler {
	return Handler{authed: true, serve: typed(fn)}
}

// Public makes an endpoint that anyone may call.
//
// In is decoded from the JSON object of the body: strictly as to duplicate
// keys, encoding, types, size and depth, and ignoring unknown keys. Where In or
// *In has a method Validate() error, it is called next; a plain error of it
// becomes M_BAD_JSON.
//
// Out is encoded as JSON with status 200, except: [Empty] is {}; a
// [jsontext.Value] is written as it is; a [JSONWriter] writes itself; a
// [StatusCoder] sets the status; an [io.Closer] is closed once written. These
// hold for the dynamic type, so Out may be any.
func Public[In, Out any](fn func(context.Context, *Call, In) (Out, error)) Handler {
	return Handler{serve: typed(fn)}
}

// PublicStream makes a streaming endpoint that anyone may call.
func PublicStream(fn Stream) Handler { return Handler{serve: stream(fn)} }

func typed[In, Out any](fn func(context.Context, *Call, In) (Out, error)) func(*Kernel, *response, *http.Request, *Call) error {
	_, noBody := any(*new(In)).(NoBody)
	return func(_ *Kernel, w *response, r *http.Request, c *Call) error {
		var in In
		if !noBody {
			if err := decode(w, r, c.route, &in); err != nil {
				return err
			}
		}
		out, err := fn(r.Context(), c, in)
		if err != nil {
			return err
		}
		return w.answer(out)
	}
}

func stream(fn Stream) func(*Kernel, *response, *http.Request, *Call) error {
	return func(_ *Kernel, w *response, r *http.Request, c *Call) error { return fn(w, r, c) }
}
