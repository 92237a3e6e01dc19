package server

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// grace is how long running requests may take to finish when the server stops.
const grace = 20 * time.Second

// runner is a part that works in the background until its context ends.
type runner interface {
	Run(ctx context.Context) error
}

// Run serves until ctx ends or a part fails. Then it ends long polls, lets
// other running requests finish within 20 seconds, and stops the background
// work. After it only Close may be called.
func (s *Server) Run(ctx context.Context) error {
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()
	failed := make(chan error, len(s.sites)+8)
	var serving, working sync.WaitGroup
	for _, st := range s.sites {
		serving.Go(func() {
			if err := st.serve(); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve %s: %w", addrOf(st.listener), err)
			}
		})
	}
	for _, part := range s.background() {
		working.Go(func() {
			if err := part.Run(background); err != nil && background.Err() == nil {
				failed <- err
			}
		})
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.log.Info("stopping")
	s.shutdown()
	serving.Wait()
	stopBackground()
	working.Wait()
	return err
}

func (st site) serve() error {
	if st.tls {
		return st.http.ServeTLS(st.listener, "", "")
	}
	return st.http.Serve(st.listener)
}

// background lists the parts that work without being asked.
func (s *Server) background() []runner { return []runner{s.store, s.inbox, s.outbox} }

// shutdown ends HTTP: gracefully, then by force, and returns once no request runs.
func (s *Server) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	for _, k := range s.kernels {
		k.Close()
	}
	var all sync.WaitGroup
	for _, st := range s.sites {
		all.Go(func() {
			if err := st.http.Shutdown(ctx); err != nil {
				s.log.Warn("requests cut off", zap.String("listener", addrOf(st.listener)), zap.Error(err))
				_ = st.http.Close() // ends the contexts of what still runs
			}
		})
	}
	all.Wait()
	for _, k := range s.kernels {
		k.Wait()
	}
}

// Close closes listeners and the store. If Run was called, it must have returned.
func (s *Server) Close() error {
	var errs []error
	for _, st := range s.sites {
		if err := st.http.Close(); err != nil {
			errs = append(errs, err)
		}
		// The HTTP server closes only listeners that it has begun to serve.
		_ = st.listener.Close()
	}
	if s.control != nil {
		errs = append(errs, s.control.remove())
	}
	if s.keys != nil {
		s.keys.Close()
	}
	if s.remote != nil {
		s.remote.Close()
	}
	return errors.Join(append(errs, s.store.Close())...)
}

// quietLog takes what net/http has to say: of single connections, such as
// handshakes that fail, which anybody can cause, and of listeners that cannot
// accept, which somebody must look at.
func quietLog(l *zap.Logger) *log.Logger { return log.New(httpLog{l.Named("http")}, "", 0) }

type httpLog struct{ log *zap.Logger }

func (h httpLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if strings.Contains(text, "Accept error") {
		h.log.Error(text)
	} else {
		h.log.Debug(text)
	}
	return len(line), nil
}
