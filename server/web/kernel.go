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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"hearth/storage/matrix"
)

// Options configure [New].
type Options struct {
	Auth           Authenticator
	Peers          Peers // for [Federation] endpoints
	Log            *zap.Logger
	Now            func() time.Time // for rate limits; nil: time.Now
	Limits         map[string]Limit // by the name routes use; nil: no rate limits
	TrustedProxies []netip.Prefix   // whose X-Forwarded-For is believed
	Metrics        *Metrics         // nil: none
	// BodyTimeout is how long a client may take to send a request body. Zero: 30 s.
	BodyTimeout time.Duration
	// WriteTimeout is how long a client may take to read each 64 KiB of a
	// response. Zero: 30 s.
	WriteTimeout time.Duration
	// LargeBodies is how many bytes of other servers' large request bodies may be
	// in memory at once, one address having a third at most. Zero: 48 MiB.
	LargeBodies int64
	// Renamed are beginnings of paths that clients may still use, and what they
	// are called now.
	Renamed map[string]string
	// Health tells /health whether the server can work. Nil: it can.
	Health func(context.Context) error
}

// Kernel serves routes.
type Kernel struct {
	opt      Options
	log      *zap.Logger
	limiters map[string]*limiter
	memory   *bodyMemory
	failures *limiter     // of lines that say that the server failed
	unsaid   atomic.Int64 // failures since the last such line
	routes   []*route
	table    *table
	idPrefix string
	lastID   atomic.Uint64
	closing  chan struct{}
	close    sync.Once
	gate     gate
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
		memory:   newBodyMemory(opt.LargeBodies),
		failures: newLimiter(Limit{PerSecond: 1, Burst: 20}, 1),
		idPrefix: hex.EncodeToString(id[:]) + "-",
		closing:  make(chan struct{}),
		gate:     gate{empty: make(chan struct{})},
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

// Wait lets no new request in, and returns once none runs any more.
func (k *Kernel) Wait() { k.gate.shut() }

// ServeHTTP implements http.Handler.
func (k *Kernel) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if !k.gate.enter() {
		panic(http.ErrAbortHandler) // the server is gone
	}
	defer k.gate.leave()
	start := time.Now() //nolint:forbidigo // deadlines of sockets are in real time
	w := &response{
		ResponseWriter: rw,
		control:        http.NewResponseController(rw),
		timeout:        k.opt.WriteTimeout,
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
	body := r.Body // endpoints may wrap it
	if err := k.serve(w, r, c); err != nil {
		w.err = err
		if w.status != 0 {
			panic(http.ErrAbortHandler) // half a response must not pass for a whole one
		}
		w.drain(r, body)
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

// rename gives a path its name of today.
func (k *Kernel) rename(u *url.URL) {
	for was, is := range k.opt.Renamed {
		if rest, ok := strings.CutPrefix(u.EscapedPath(), was); ok {
			u.Path, u.RawPath = is+strings.TrimPrefix(u.Path, was), is+rest
			return
		}
	}
}

// serve finds the route and runs it.
func (k *Kernel) serve(w *response, r *http.Request, c *Call) error {
	pinPath(r)
	k.rename(r.URL)
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
		c.charge = func(n int) error { return l.takeN(limitKey(c), k.opt.Now(), n) }
		c.waive = func() { l.giveBack(limitKey(c), k.opt.Now()) }
	}
	return rt.Handler.serve(k, w, r, c)
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
	took := time.Since(start)
	if w.status >= 500 && clientLeft(r, w.err) {
		w.status = statusClientLeft
	}
	k.opt.Metrics.observe(c.route, w.status, took)
	k.logAccess(w, r, c, took)
	if aborted {
		panic(http.ErrAbortHandler)
	}
}
