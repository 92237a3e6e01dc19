package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"hearth/storage/matrix"
)

// Options configure [New].
type Options struct {
	Auth           Authenticator
	Log            *zap.Logger
	Now            func() time.Time // nil: time.Now
	Limits         map[string]Limit // by the name routes use; nil: no rate limits
	TrustedProxies []netip.Prefix   // whose X-Forwarded-For is believed
	Metrics        *Metrics         // nil: none
	// BodyTimeout is how long a client may take to send a request body. Zero: 30 s.
	BodyTimeout time.Duration
	// WriteTimeout is how long a client may take to read each 64 KiB of a
	// response. Zero: 30 s.
	WriteTimeout time.Duration
	// Health tells /health whether the server can work. Nil: it can.
	Health func(context.Context) error
}

// Kernel serves routes.
type Kernel struct {
	opt      Options
	log      *zap.Logger
	limiters map[string]*limiter
	routes   []*route
	table    *table
	idPrefix string
	lastID   atomic.Uint64
	closing  chan struct{}
	close    sync.Once
}

// New makes a kernel with one route, GET /health.
func New(opt Options) *Kernel {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = zap.NewNop()
	}
	if opt.BodyTimeout == 0 {
		opt.BodyTimeout = 30 * time.Second
	}
	if opt.WriteTimeout == 0 {
		opt.WriteTimeout = 30 * time.Second
	}
	var id [5]byte
	_, _ = rand.Read(id[:]) // never fails
	k := &Kernel{
		opt:      opt,
		log:      opt.Log.Named("web"),
		limiters: map[string]*limiter{},
		idPrefix: hex.EncodeToString(id[:]) + "-",
		closing:  make(chan struct{}),
	}
	for name, l := range opt.Limits {
		k.limiters[name] = newLimiter(l, maxLimitKeys)
	}
	k.Routes([]Route{{Method: "GET", Path: "/health", Handler: Public(k.getHealth)}})
	return k
}

// Routes adds a table of endpoints. Call it before serving. A route that names
// an unknown rate limit, or exists already, is a programmer error and panics.
func (k *Kernel) Routes(routes []Route) {
	for _, r := range routes {
		if r.Limit != "" && k.opt.Limits != nil && k.limiters[r.Limit] == nil {
			panic(fmt.Sprintf("web: %s %s: no rate limit %q", r.Method, r.Path, r.Limit))
		}
		if r.MaxBody == 0 {
			r.MaxBody = DefaultMaxBody
		}
		k.routes = append(k.routes, &route{Route: r, metrics: k.opt.Metrics.of(r)})
	}
	k.table = newTable(k.routes)
}

// Handler serves all routes.
func (k *Kernel) Handler() http.Handler { return k }

// Close tells running calls that the server shuts down, by [Call.Closing].
func (k *Kernel) Close() { k.close.Do(func() { close(k.closing) }) }

// ServeHTTP implements http.Handler.
func (k *Kernel) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	start := k.opt.Now()
	w := &response{
		ResponseWriter: rw,
		control:        http.NewResponseController(rw),
		timeout:        k.opt.WriteTimeout,
		now:            k.opt.Now,
	}
	k.setDeadlines(w, r, start)
	c := &Call{
		Method:    r.Method,
		RequestID: k.requestID(r),
		RemoteIP:  remoteIP(r, k.opt.TrustedProxies),
		UserAgent: r.UserAgent(),
		Closing:   k.closing,
	}
	setHeaders(w.Header(), c.RequestID)
	defer k.finish(w, r, c, start)
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if err := k.serve(w, r, c); err != nil {
		w.err = err
		if w.status != 0 {
			panic(http.ErrAbortHandler) // half a response must not pass for a whole one
		}
		w.fail(err)
	}
}

// setDeadlines bounds how long the body may take, and lifts the write deadline
// that the last response on the connection left behind.
func (k *Kernel) setDeadlines(w *response, r *http.Request, now time.Time) {
	if r.ContentLength != 0 {
		_ = w.control.SetReadDeadline(now.Add(k.opt.BodyTimeout)) // unsupported only by test recorders
	}
	_ = w.control.SetWriteDeadline(time.Time{})
}

// serve finds the route and runs it.
func (k *Kernel) serve(w *response, r *http.Request, c *Call) error {
	pinPath(r)
	rt, vars, allow := k.table.find(r)
	switch {
	case rt == nil && len(allow) > 0:
		w.Header().Set("Allow", strings.Join(allow, ", "))
		return &matrix.Error{Status: http.StatusMethodNotAllowed, Code: matrix.Unrecognized, Message: "Wrong method for this endpoint"}
	case rt == nil:
		return matrix.Errorf(matrix.Unrecognized, "Unrecognized request")
	}
	c.route, c.Template, c.Vars = rt, rt.Path, vars
	if err := unescapeVars(vars); err != nil {
		return err
	}
	var err error
	if c.Query, err = parseQuery(r.URL.RawQuery); err != nil {
		return err
	}
	if err := k.authenticate(r, c); err != nil {
		return err
	}
	if l := k.limiters[rt.Limit]; l != nil {
		if err := l.take(limitKey(c), k.opt.Now()); err != nil {
			return err
		}
	}
	return rt.Handler.serve(k, w, r, c)
}

// authenticate reads the access token in either form that v1.19 has, and asks
// whose it is. A public endpoint sees no token.
func (k *Kernel) authenticate(r *http.Request, c *Call) error {
	token := matrix.Token(c.Query.Get("access_token"))
	delete(c.Query, "access_token")
	if h := r.Header.Get("Authorization"); h != "" {
		scheme, value, _ := strings.Cut(h, " ")
		if strings.EqualFold(scheme, "Bearer") {
			token = matrix.Token(strings.TrimSpace(value))
		}
	}
	if !c.route.Handler.authed {
		c.Log = k.log.WithLazy(zap.String("request_id", c.RequestID))
		return nil
	}
	if token == "" {
		return matrix.Errorf(matrix.MissingToken, "Missing access token")
	}
	who, err := k.opt.Auth.Authenticate(r.Context(), token)
	if err != nil {
		return err
	}
	c.Caller, c.Token = who, token
	c.Log = k.log.WithLazy(
		zap.String("request_id", c.RequestID),
		zap.String("user", string(who.User)),
		zap.String("device", string(who.Device)))
	return nil
}

func parseQuery(raw string) (url.Values, error) {
	if raw == "" {
		return url.Values{}, nil
	}
	q, err := url.ParseQuery(raw)
	if err != nil {
		return nil, matrix.Errorf(matrix.InvalidParam, "The query string is malformed")
	}
	for name, values := range q {
		for _, v := range append(values[:len(values):len(values)], name) {
			if !utf8.ValidString(v) || strings.IndexByte(v, 0) >= 0 {
				return nil, matrix.Errorf(matrix.InvalidParam, "The query string is not text")
			}
		}
	}
	return q, nil
}

// finish recovers a panic, which fails this request alone, and writes the
// access log. Deferred, so that recover works.
func (k *Kernel) finish(w *response, r *http.Request, c *Call, start time.Time) {
	p := recover()
	aborted := p == http.ErrAbortHandler //nolint:errorlint // net/http compares it so
	if p != nil && !aborted {
		k.log.Error("panic in a request",
			zap.String("request_id", c.RequestID), zap.String("route", c.Method+" "+c.Template),
			zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		if w.status == 0 {
			w.fail(nil)
		} else {
			aborted = true
		}
	}
	took := k.opt.Now().Sub(start)
	k.opt.Metrics.observe(c.route, w.status, took)
	k.logAccess(w, r, c, took)
	if aborted {
		panic(http.ErrAbortHandler)
	}
}

// requestID takes over a proxy's request ID if it is harmless, else makes one.
func (k *Kernel) requestID(r *http.Request) string {
	if v := r.Header["X-Request-Id"]; len(v) == 1 && harmlessID(v[0]) {
		return v[0]
	}
	return k.idPrefix + strconv.FormatUint(k.lastID.Add(1), 36)
}

func harmlessID(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.:", c) >= 0) {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// Headers of every response. Client-Server API, "Web Browser Clients".
var (
	corsOrigin  = []string{"*"}
	corsMethods = []string{"GET, HEAD, POST, PUT, DELETE, OPTIONS"}
	corsHeaders = []string{"X-Requested-With, Content-Type, Authorization"}
	corsExpose  = []string{"Retry-After, X-Request-Id"}
	noSniff     = []string{"nosniff"}
	noStore     = []string{"no-store"}
)

func setHeaders(h http.Header, requestID string) {
	h["Access-Control-Allow-Origin"] = corsOrigin
	h["Access-Control-Allow-Methods"] = corsMethods
	h["Access-Control-Allow-Headers"] = corsHeaders
	h["Access-Control-Expose-Headers"] = corsExpose
	h["X-Content-Type-Options"] = noSniff
	h["Cache-Control"] = noStore
	h["X-Request-Id"] = []string{requestID}
}

// health is the answer of /health.
type health struct {
	State string `json:"status"`
}

// Status implements [StatusCoder].
func (h health) Status() int {
	if h.State != "ok" {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

func (k *Kernel) getHealth(ctx context.Context, c *Call, _ NoBody) (health, error) {
	if k.opt.Health != nil {
		if err := k.opt.Health(ctx); err != nil {
			c.Log.Debug("unwell", zap.Error(err))
			return health{"degraded"}, nil
		}
	}
	return health{"ok"}, nil
}
