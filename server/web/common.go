package web

import (
	"context"
	"net/http"
	"sync"

	"go.uber.org/zap"
)

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

// gate counts the requests that run.
type gate struct {
	mu     sync.Mutex // guards n and closed
	n      int
	closed bool
	empty  chan struct{} // closed when closed and n is 0
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.n++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.closed {
		close(g.empty)
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		if g.n == 0 {
			close(g.empty)
		}
	}
	g.mu.Unlock()
	<-g.empty
}
