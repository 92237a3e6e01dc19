package storage

import (
	"context"
	"sync"
	"sync/atomic"
)

var (
	readPosition  = stmt(`SELECT pos, epoch, age_ms FROM position WHERE id = 1`)
	raisePosition = stmt(`UPDATE position SET pos = ?, age_ms = ?, wall_ms = ? WHERE id = 1`)
)

// position is the one counter behind every durable stream. What was handed out
// is never handed out again: not after a failed unit or COMMIT (next only
// rises), not after a crash (the row is durable before anything is published),
// not after a restore (the new epoch moves the row far forward).
type position struct {
	next      int64 // the last one handed out; the leader's
	row       int64 // as last written to the file; the leader's
	published atomic.Int64

	mu      sync.Mutex    // guards reached
	reached chan struct{} // closed at the next publication; nil: nobody waits
}

func (p *position) load(pos int64) {
	p.next, p.row = pos, pos
	p.published.Store(pos)
}

func (p *position) publish(pos int64) {
	if pos <= p.published.Load() {
		return
	}
	p.published.Store(pos)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reached != nil {
		close(p.reached)
		p.reached = nil
	}
}

// wait returns a channel that closes at the next publication.
func (p *position) wait() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reached == nil {
		p.reached = make(chan struct{})
	}
	return p.reached
}

// raise writes the counter and the age clock into the open transaction. Every
// batch raises it, also one that handed out no position: a snapshot that sees
// the batch must be tellable from one that does not.
func (s *Store) raise(c *conn) (int64, error) {
	p := &s.position
	p.next = max(p.next, p.row+1)
	age, wall := s.age.read()
	if _, err := c.exec(raisePosition, []any{p.next, age, wall}); err != nil {
		return 0, err
	}
	p.row = p.next // whether or not COMMIT succeeds: never twice
	return p.next, nil
}

// Pos is the published position: everything up to it is committed, and memory
// agrees with it.
func (s *Store) Pos() int64 { return s.position.published.Load() }

// Epoch names this history of the file. A file that was restored from a backup
// begins a new one: positions of the old mean nothing in it.
func (s *Store) Epoch() int64 { return s.epoch }

// WaitPos waits until the published position has reached pos. Call it between
// taking a snapshot and looking at memory beside it.
func (s *Store) WaitPos(ctx context.Context, pos int64) error {
	for s.Pos() < pos {
		ch := s.position.wait()
		if s.Pos() >= pos {
			return nil
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closing:
			return ErrClosed
		}
	}
	return nil
}
