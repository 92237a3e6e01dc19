package server

import (
	"context"
	"fmt"
	"time"

	"hearth/server/config"
	"hearth/storage"
	"hearth/storage/matrix"
)

// Queue is what waits for another server.
type Queue struct {
	Server      matrix.ServerName `json:"server"`
	Items       int64             `json:"items"`
	Bytes       int64             `json:"bytes"`
	Oldest      config.Duration   `json:"oldest"`       // how long the oldest item has waited; 0: nothing does
	Failures    int64             `json:"failures"`     // attempts in a row
	NextAttempt config.Duration   `json:"next_attempt"` // from now; 0: at once, as soon as something waits
	LastSuccess config.Duration   `json:"last_success"` // ago; 0: never
	LastError   string            `json:"last_error"`   // since the last success
}

// Queues lists what waits for other servers, and those that fail, by name. With
// a name it returns that server alone, also where nothing waits for it.
func (a *Admin) Queues(ctx context.Context, only string) ([]Queue, error) {
	return do[[]Queue](ctx, a, "federation-queue", only, nil)
}

func listQueues(ctx context.Context, s *Server, name string, _ Progress) ([]Queue, error) {
	only, err := s.otherServer(name)
	if name != "" && err != nil {
		return nil, err
	}
	queues, err := s.outbox.Queues(ctx, only)
	if err != nil {
		return nil, err
	}
	out := []Queue{}
	err = s.store.Read(ctx, "what time is it", func(rx *storage.Rx) error {
		for _, q := range queues {
			if only != "" || q.Items > 0 || q.Failures > 0 {
				out = append(out, queueOf(q, rx.Clock(), rx.Now.UnixMilli()))
			}
		}
		return nil
	})
	return out, err
}

// queueOf turns the times of both clocks, in milliseconds, into spans.
func queueOf(q storage.OutboxQueue, clock, wall int64) Queue {
	span := func(ms, least int64) config.Duration {
		return config.Duration(time.Duration(max(ms, least)) * time.Millisecond)
	}
	out := Queue{Server: q.Name, Items: q.Items, Bytes: q.Bytes, Failures: q.Failures, LastError: q.LastError}
	if q.Oldest != 0 {
		out.Oldest = span(clock-q.Oldest, 1)
	}
	if q.RetryMS != 0 {
		out.NextAttempt = span(q.RetryMS-wall, 0)
	}
	if q.SuccessMS != 0 {
		out.LastSuccess = span(wall-q.SuccessMS, 1)
	}
	return out
}

// RetryQueue tries a server that fails again at once, and tells whether it
// does fail.
func (a *Admin) RetryQueue(ctx context.Context, name string) (bool, error) {
	return do[bool](ctx, a, "federation-retry", name, nil)
}

func retryQueue(ctx context.Context, s *Server, name string, _ Progress) (bool, error) {
	server, err := s.otherServer(name)
	if err != nil {
		return false, err
	}
	n, err := s.outbox.Retry(ctx, server)
	return n > 0, err
}

func (s *Server) otherServer(name string) (matrix.ServerName, error) {
	server, err := matrix.ParseServerName(name)
	if err == nil && server == s.store.ServerName() {
		err = fmt.Errorf("%s is this server", server)
	}
	return server, err
}
