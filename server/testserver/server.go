package testserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"hearth/server"
	"hearth/server/config"
	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// Server is a homeserver in this process. Its methods fail the test when
// something goes wrong. Restart, Crash and the like may run while clients talk
// to it: their connections break.
type Server struct {
	Site

	opt  settings
	root string // everything of this server lies in it
	dirs int    // data directories made in it: each crash leaves one
	dir  string
	run  *running
	base atomic.Pointer[string] // the URL; stays while the server is down
	fed  *fedSide               // nil: not in a network
}

// running is one life of the server.
type running struct {
	hs   *server.Server
	stop context.CancelFunc
	done chan error
}

type settings struct {
	config []func(*config.Config)
	server []server.Option
	log    *zap.Logger
}

// Option changes the server that [New] starts.
type Option func(*settings)

// Config changes the configuration. Unless it says otherwise, registration is
// open and there are no rate limits.
func Config(change func(*config.Config)) Option {
	return func(s *settings) { s.config = append(s.config, change) }
}

// Clock replaces the wall clock, and with mono the steady one beside it.
func Clock(now func() time.Time, mono func() time.Duration) Option {
	return func(s *settings) { s.server = append(s.server, server.WithClock(now, mono)) }
}

// VFS carries the database over a SQLite VFS that injects faults.
func VFS(name string) Option {
	return func(s *settings) { s.server = append(s.server, server.WithVFS(name)) }
}

// QuietLog drops what the server logs, where a test makes it complain.
func QuietLog() Option {
	return func(s *settings) { s.log = zap.NewNop() }
}

// New starts a server named "hs.test". It ends with the test, after a check of
// all that must hold.
func New(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	hs := &Server{}
	hs.open(tb, "hs.test", opts)
	return hs
}

// open starts the server for the first time.
func (hs *Server) open(tb testing.TB, name matrix.ServerName, opts []Option) {
	tb.Helper()
	hs.Site = *NewSite(tb, name, func() string { return *hs.base.Load() })
	if hs.fed != nil {
		hs.fed.authority.Trust(&hs.Site)
	}
	hs.opt.server = []server.Option{server.WithLoopback(), server.WithCheapPasswords()}
	for _, o := range opts {
		o(&hs.opt)
	}
	if hs.opt.log == nil {
		hs.opt.log = zaptest.NewLogger(tb, zaptest.Level(zap.WarnLevel))
	}
	root, err := os.MkdirTemp("", "hearth")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(root) })
	hs.root = root
	hs.dir = hs.newDir()
	tb.Cleanup(hs.end)
	hs.start()
}

// Store is the open database, for looking at what no endpoint tells.
func (hs *Server) Store() *storage.Store { return hs.run.hs.Store() }

// Inbox is the to-device queue, for looking at what no endpoint tells.
func (hs *Server) Inbox() *inbox.Inbox { return hs.run.hs.Inbox() }

// Routes lists every endpoint as "METHOD /path/{variable}".
func (hs *Server) Routes() []string { return hs.run.hs.Routes() }

// Dir is the data directory.
func (hs *Server) Dir() string { return hs.dir }

// Restart stops the server as an operator does and starts it again.
func (hs *Server) Restart() {
	hs.tb.Helper()
	hs.halt()
	hs.start()
}

// newDir names a new directory inside the test's own. Its path is short,
// because sockets live in it.
func (hs *Server) newDir() string {
	hs.dirs++
	return filepath.Join(hs.root, strconv.Itoa(hs.dirs))
}

// start opens the server on hs.dir.
func (hs *Server) start() {
	hs.tb.Helper()
	cfg := config.Default()
	cfg.Server.Name = string(hs.name)
	cfg.Server.DataDir = hs.dir
	cfg.Listen.Client = []string{"127.0.0.1:0"}
	cfg.Registration.Mode = "open"
	cfg.RateLimits.Enabled = false
	if hs.fed != nil {
		hs.fed.configure(&cfg)
	}
	for _, change := range hs.opt.config {
		change(&cfg)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(hs.tb.Context()))
	s, err := server.Open(ctx, cfg, hs.opt.log, hs.opt.server...)
	if err != nil {
		stop()
		hs.tb.Fatalf("open: %v", err)
	}
	hs.run = &running{hs: s, stop: stop, done: make(chan error, 1)}
	base := "http://" + s.Addrs().Client[0]
	if cfg.TLS.Cert != "" {
		base = "https://" + s.Addrs().Client[0]
	}
	hs.base.Store(&base)
	if hs.fed != nil {
		hs.fed.at.Store(&s.Addrs().Federation[0])
		hs.fed.dead.Store(false)
	}
	go func(r *running) { r.done <- r.hs.Run(ctx) }(hs.run)
}

// halt ends the running server cleanly.
func (hs *Server) halt() {
	hs.tb.Helper()
	r := hs.run
	hs.run = nil
	if hs.fed != nil {
		hs.fed.at.Store(nil)
	}
	r.stop()
	if err := errors.Join(<-r.done, r.hs.Close()); err != nil {
		hs.tb.Errorf("stop: %v", err)
	}
	hs.http.CloseIdleConnections()
}

// end checks the invariants of memory and database, and stops the server.
func (hs *Server) end() {
	if hs.run == nil {
		return
	}
	storagetest.Check(hs.tb, hs.Store(), hs.Inbox().Check)
	hs.halt()
}
