// Package server puts a homeserver together. [Open] wires everything and binds
// the listeners, [Server.Run] serves until it is told to stop, and
// [Server.Close] ends the rest: between them they own every goroutine. The
// same parts without listeners serve the command line, see [Attach].
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"hearth/federation/inbound"
	"hearth/federation/keyring"
	"hearth/federation/outbox"
	"hearth/federation/remote"
	"hearth/federation/room"
	"hearth/server/account"
	"hearth/server/clientapi"
	"hearth/server/config"
	"hearth/server/syncer"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
)

// Server is one homeserver. A process may have several.
type Server struct {
	cfg      config.Config
	log      *zap.Logger
	store    *storage.Store
	inbox    *inbox.Inbox
	inbound  *inbound.Processor
	outbox   *outbox.Queue
	remote   *remote.Client
	keys     *keyring.Ring
	accounts *account.Accounts
	kernels  []*web.Kernel
	sites    []site
	addrs    Addrs
	control  *controlFile
	registry *prometheus.Registry
}

// site is a listener and what serves it.
type site struct {
	listener net.Listener
	http     *http.Server
	tls      bool
}

// Option changes how a test runs a server.
type Option func(*options)

type options struct {
	storage.Options
	loopback bool // no other server is reached but at this machine
	cheap    bool // passwords are hashed at next to no cost
}

// WithClock replaces the wall clock, and the steady clock beside it if mono is
// not nil.
func WithClock(now func() time.Time, mono func() time.Duration) Option {
	return func(o *options) { o.Now, o.Mono = now, mono }
}

// WithVFS carries the database over a SQLite VFS that injects faults.
func WithVFS(name string) Option { return func(o *options) { o.VFS = name } }

// WithLoopback keeps requests to other servers on this machine: no name is
// looked up, and no other address connected to.
func WithLoopback() Option { return func(o *options) { o.loopback = true } }

// WithCheapPasswords makes hashing passwords cost next to nothing, and protect
// as much: tests make many accounts. No configuration reaches it.
func WithCheapPasswords() Option { return func(o *options) { o.cheap = true } }

// Open opens the data directory, which no other process may have open, and
// binds all listeners. Requests wait until [Server.Run].
func Open(ctx context.Context, cfg config.Config, log *zap.Logger, opts ...Option) (*Server, error) {
	s, now, err := openParts(ctx, cfg, log, opts)
	if err != nil {
		return nil, err
	}
	if err := s.openSites(ctx, now); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// openParts opens everything behind HTTP.
func openParts(ctx context.Context, cfg config.Config, log *zap.Logger, opts []Option) (*Server, func() time.Time, error) {
	if err := cfg.Validate(); err != nil {
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}
	if log == nil {
		log = zap.NewNop()
	}
	so := options{Options: storage.Options{
		Dir:        cfg.Server.DataDir,
		ServerName: matrix.ServerName(cfg.Server.Name),
		Now:        time.Now, //nolint:forbidigo // the one real clock, handed down from here
		Log:        log,
	}}
	for _, opt := range opts {
		opt(&so)
	}
	store, err := storage.Open(ctx, so.Options)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", filepath.Clean(cfg.Server.DataDir), err)
	}
	s := &Server{cfg: cfg, log: log.Named("server"), store: store, registry: prometheus.NewRegistry()}
	if err := s.openFederation(ctx, so, log); err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	s.inbox = inbox.New(store, inbox.Options{
		MaxMessages: cfg.ToDevice.MaxMessagesPerDevice,
		MaxBytes:    int64(cfg.ToDevice.MaxBytesPerDevice),
		TTL:         time.Duration(cfg.ToDevice.MessageTTL),
		SyncBatch:   cfg.ToDevice.SyncBatch,
		MirrorBytes: int64(cfg.ToDevice.MirrorBytes),
	}, log)
	s.inbound = inbound.New(store, s.inbox, inbound.Options{
		MaxRemembered:          int64(cfg.Federation.MaxRememberedBytes),
		MaxRememberedPerServer: int64(cfg.Federation.MaxRememberedBytesPerServer),
	}, log)
	s.outbox = outbox.New(store, s.remote, outbox.Options{
		Enabled:                cfg.Security.Federation.Enabled,
		MaxBytesPerDestination: int64(cfg.Federation.MaxQueuedBytesPerServer),
		Now:                    so.Now,
	}, log)
	ao := accountOptions(cfg, so.Now, s.inbox)
	if so.cheap {
		ao.HashTime, ao.HashMemory = 1, 64
	}
	s.accounts = account.New(store, ao, log)
	return s, so.Now, nil
}

func accountOptions(cfg config.Config, now func() time.Time, in *inbox.Inbox) account.Options {
	r := cfg.Registration
	opt := account.Options{
		Registration:      account.Mode(r.Mode),
		SharedSecret:      r.SharedSecret,
		MinPasswordLength: r.MinPasswordLength,
		AccessTokenTTL:    time.Duration(cfg.Sessions.AccessTokenLifetime),
		RefreshTokenTTL:   time.Duration(cfg.Sessions.RefreshTokenLifetime),
		LimitFailures:     cfg.RateLimits.Enabled,
		Now:               now,
		DeviceDeleted:     func(tx *storage.Tx, device int64) error { in.Drop(tx, device); return nil },
	}
	if r.TermsURL != "" {
		opt.Terms = []account.Policy{{ID: "terms_of_service", Version: r.TermsVersion, Language: "en", Name: r.TermsName, URL: r.TermsURL}}
	}
	return opt
}

// openSites makes the kernels and binds their listeners.
func (s *Server) openSites(ctx context.Context, now func() time.Time) error {
	metrics := s.newMetrics()
	client, err := s.newKernel(metrics, now)
	if err != nil {
		return err
	}
	api := clientapi.New(clientapi.Deps{
		Store: s.store, Accounts: s.accounts, Inbox: s.inbox, Outbox: s.outbox,
		Syncer:  syncer.New(s.store, s.inbox, s.log, syncer.Options{TempDir: s.cfg.Server.DataDir}),
		Rooms:   room.New(s.store, s.keys.Signer, room.Options{}, s.log),
		Options: clientOptions(s.cfg),
		Log:     s.log,
	})
	client.Routes(api.Routes())
	federation, err := s.newKernel(metrics, now)
	if err != nil {
		return err
	}
	s.federationRoutes(client, federation)
	if err := s.bind(ctx, now, client, federation); err != nil {
		return err
	}
	s.control, err = s.openControl(ctx)
	return err
}

func clientOptions(cfg config.Config) clientapi.Options {
	return clientapi.Options{
		TempDir:   cfg.Server.DataDir,
		PublicURL: cfg.Server.PublicURL,
		Support:   clientapi.Support{Email: cfg.Support.Email, MatrixID: cfg.Support.MatrixID, Page: cfg.Support.Page},
		Turn: clientapi.Turn{
			URIs:   cfg.VoIP.TurnURIs,
			Secret: cfg.VoIP.TurnSharedSecret,
			TTL:    time.Duration(cfg.VoIP.TurnTTL),
		},
		ToDevice: clientapi.ToDevice{
			MaxRecipients:   cfg.ToDevice.MaxRecipients,
			MaxRequestBytes: int64(cfg.ToDevice.MaxRequestBytes),
		},
		Rooms: clientapi.RoomLimits(cfg.Rooms),
		AccountData: storage.AccountDataLimits{
			Entries: int64(cfg.AccountData.MaxEntriesPerUser),
			Bytes:   int64(cfg.AccountData.MaxBytesPerUser),
		},
	}
}

func (s *Server) newKernel(m *web.Metrics, now func() time.Time) (*web.Kernel, error) {
	proxies := make([]netip.Prefix, 0, len(s.cfg.Listen.TrustedProxies))
	for _, text := range s.cfg.Listen.TrustedProxies {
		p, err := config.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("listen.trusted_proxies: %w", err)
		}
		proxies = append(proxies, p)
	}
	opt := web.Options{
		Auth: s.accounts, Peers: peers{s.keys, s.outbox, s.log}, Log: s.log, Now: now, TrustedProxies: proxies, Metrics: m, Health: s.health,
		// Client-Server API, changes of v1.1: r0 is called v3 from then on.
		Renamed: map[string]string{"/_matrix/client/r0/": "/_matrix/client/v3/"},
	}
	if r := s.cfg.RateLimits; r.Enabled {
		opt.Limits = map[string]web.Limit{
			web.LimitLogin:        web.Limit(r.Login),
			web.LimitRegistration: web.Limit(r.Registration),
			web.LimitSending:      web.Limit(r.Sending),
			web.LimitFederation:   web.Limit(r.Federation),
			web.LimitKeyQueries:   web.Limit(r.KeyQueries),
		}
	}
	k := web.New(opt)
	s.kernels = append(s.kernels, k)
	return k, nil
}

// errDegraded is what /health tells while the disk refuses writes.
var errDegraded = errors.New("the store is read-only: the disk refuses writes")

func (s *Server) health(context.Context) error {
	if s.store.Stats().Degraded {
		return errDegraded
	}
	return nil
}

// bind opens the listeners that the configuration names.
func (s *Server) bind(ctx context.Context, now func() time.Time, client, federation http.Handler) error {
	tc, err := tlsConfig(s.cfg.TLS.Cert, s.cfg.TLS.Key, now)
	if err != nil {
		return err
	}
	open := func(list []string, h http.Handler) ([]string, error) {
		bound := []string{}
		for _, addr := range list {
			l, err := listen(ctx, addr)
			if err != nil {
				return nil, err
			}
			secure := tc != nil && l.Addr().Network() == "tcp"
			srv := newHTTPServer(h, s.log)
			if secure {
				srv.TLSConfig = tc.Clone()
			}
			s.sites = append(s.sites, site{l, srv, secure})
			bound = append(bound, addrOf(l))
		}
		return bound, nil
	}
	if s.addrs.Client, err = open(s.cfg.Listen.Client, client); err != nil {
		return err
	}
	if s.addrs.Federation, err = open(s.cfg.Listen.Federation, federation); err != nil {
		return err
	}
	return s.bindMetrics(ctx)
}

func newHTTPServer(h http.Handler, log *zap.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 20 * time.Second,
		IdleTimeout:       3 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          quietLog(log),
	}
}

// Addrs are the addresses that were bound.
func (s *Server) Addrs() Addrs { return s.addrs }

// Store is the open database, for tests.
func (s *Server) Store() *storage.Store { return s.store }

// Inbox is the to-device queue, for tests.
func (s *Server) Inbox() *inbox.Inbox { return s.inbox }

// FirstRunToken admits the first administrator, as long as there is none;
// then it is empty.
func (s *Server) FirstRunToken(ctx context.Context) (matrix.Token, error) {
	return s.accounts.FirstRunToken(ctx)
}
