package server

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"hearth/federation/keyring"
	"hearth/federation/outbox"
	"hearth/federation/remote"
	"hearth/server/config"
	"hearth/server/fedapi"
	"hearth/server/web"
	"hearth/storage/matrix"
)

// openFederation makes the client of other servers and the keys, which need
// each other: requests are signed, and keys are fetched.
func (s *Server) openFederation(ctx context.Context, opt options, log *zap.Logger) error {
	var err error
	s.remote, err = remote.New(remote.Options{
		Server:       s.store.ServerName(),
		Signer:       func() matrix.Signer { return s.keys.Signer() },
		AllowPrivate: s.cfg.Security.Federation.AllowPrivateAddresses,
		CAFile:       s.cfg.Security.Federation.CAFile,
		LoopbackOnly: opt.loopback,
		UserAgent:    "Hearth/" + Version(),
		Now:          opt.Now,
	})
	if err != nil {
		return fmt.Errorf("security.federation.ca_file: %w", err)
	}
	s.keys, err = keyring.Open(ctx, s.store, s.remote, keyring.Options{Notaries: notaries(s.cfg.Federation), Now: opt.Now}, log)
	return err
}

func notaries(cfg config.Federation) []matrix.ServerName {
	list := make([]matrix.ServerName, len(cfg.TrustedKeyServers))
	for i, name := range cfg.TrustedKeyServers {
		list[i] = matrix.ServerName(name)
	}
	return list
}

// federationRoutes adds the server-server API. Without federation there is
// none: every one of its endpoints is 404 M_UNRECOGNIZED.
func (s *Server) federationRoutes(client, federation *web.Kernel) {
	if !s.cfg.Security.Federation.Enabled {
		return
	}
	api := fedapi.New(fedapi.Deps{
		Server:  s.store.ServerName(),
		Keys:    s.keys,
		Inbound: s.inbound,
		Options: fedapi.Options{Delegate: s.cfg.Server.Delegate, Version: Version()},
		Log:     s.log,
	})
	client.Routes(api.Discovery())
	federation.Routes(api.Discovery())
	federation.Routes(api.Routes())
	if len(s.cfg.Listen.Federation) == 0 {
		client.Routes(api.Routes())
	}
}

// peers authenticates the requests of other servers. One that proves who it is
// is back, if it was away: what waits for it is sent.
type peers struct {
	*keyring.Ring
	queue *outbox.Queue
	log   *zap.Logger
}

// VerifyRequest implements web.Peers.
func (p peers) VerifyRequest(ctx context.Context, x remote.XMatrix, method, uri string, body []byte) error {
	if err := p.Ring.VerifyRequest(ctx, x, method, uri, body); err != nil {
		return err
	}
	if err := p.queue.Wake(ctx, x.Origin); err != nil {
		p.log.Warn("cannot hurry a queue", zap.String("dest", string(x.Origin)), zap.Error(err))
	}
	return nil
}
