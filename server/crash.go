package server

import "hearth/federation/outbox"

// Routes names every endpoint that clients can call, as "METHOD
// /path/{variable}": for tests that must not miss one.
func (s *Server) Routes() []string { return s.kernels[0].List() }

// Abort closes listeners and breaks every connection at once, as a crash would:
// for tests. Run goes on until its context ends.
func (s *Server) Abort() {
	for _, st := range s.sites {
		_ = st.http.Close() // its error is that of a listener that is closed already
	}
}

// Outbox is the queues to other servers, for tests.
func (s *Server) Outbox() *outbox.Queue { return s.outbox }
