package testserver

import (
	"io"
	"log"
	"sync/atomic"
	"testing"

	"hearth/federation/outbox"
	"hearth/server/config"
	"hearth/storage/matrix"
)

// Network starts n servers that federate with each other over TLS on loopback.
// In front of each is a [Link], whose address is the server's name, so that
// the name stays when the server restarts or crashes. A crashed server is not
// heard of on any link until it has started again.
func Network(tb testing.TB, n int, opts ...Option) []*Server {
	tb.Helper()
	a := NewAuthority(tb)
	all := make([]*Server, n)
	byName := map[matrix.ServerName]*Server{}
	for i := range all {
		hs := &Server{}
		fed := &fedSide{authority: a}
		fed.link = NewLink(tb, a, func() string {
			if at := fed.at.Load(); at != nil {
				return *at
			}
			return ""
		})
		fed.link.muted = func(origin matrix.ServerName) bool {
			from := byName[origin]
			return from != nil && from.fed.dead.Load()
		}
		hs.fed = fed
		all[i], byName[fed.link.Name()] = hs, hs
	}
	for _, hs := range all {
		hs.open(tb, hs.fed.link.Name(), opts)
	}
	return all
}

// fedSide is what a server in a network has beside others.
type fedSide struct {
	authority *Authority
	link      *Link
	at        atomic.Pointer[string] // where it listens for other servers; nil: down
	dead      atomic.Bool            // crashing: nothing of it leaves any more
}

// configure makes the server's federation listener and TLS.
func (f *fedSide) configure(c *config.Config) {
	c.Listen.Federation = []string{"127.0.0.1:0"}
	c.TLS.Cert, c.TLS.Key = f.authority.CertFile, f.authority.KeyFile
	c.Security.Federation.AllowPrivateAddresses = true
	c.Security.Federation.CAFile = f.authority.CAFile
}

// Link is the network in front of the server, nil outside of a [Network].
func (hs *Server) Link() *Link {
	if hs.fed == nil {
		return nil
	}
	return hs.fed.link
}

// Authority issued the certificate of the server's network.
func (hs *Server) Authority() *Authority { return hs.fed.authority }

// Outbox is the queues to other servers, for looking at what no endpoint tells.
func (hs *Server) Outbox() *outbox.Queue { return hs.run.hs.Outbox() }

func silent() *log.Logger { return log.New(io.Discard, "", 0) }
