package storage

import (
	"sync"
	"time"
)

// queue is the order of writers: one leads, the others wait behind it.
type queue struct {
	mu      sync.Mutex // guards what follows
	leading bool
	waiting []*unit
	later   []*unit
	flush   *time.Timer // commits later by itself
	healing *time.Timer // tries the fence again
	down    error       // why units are refused for now
	closed  bool
}

// enter adds u and tells whether its caller is the leader.
func (q *queue) enter(u *unit) (leads bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false, ErrClosed
	}
	if q.down != nil && u.fn != nil {
		return false, q.down
	}
	if !q.leading {
		q.leading = true
		return true, nil
	}
	q.waiting = append(q.waiting, u)
	return false, nil
}

// leave removes u unless a leader took it.
func (q *queue) leave(u *unit) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, w := range q.waiting {
		if w == u {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// take removes the next unit that may join a batch; nil where there is none.
func (q *queue) take() *unit {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 || q.waiting[0].alone != nil {
		return nil
	}
	return q.pop()
}

func (q *queue) pop() *unit {
	u := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return u
}

// takeLater removes up to n housekeeping units.
func (q *queue) takeLater(n int) []*unit {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.later))
	us := q.later[:n:n]
	q.later = q.later[n:]
	return us
}

// handOver makes the longest waiting unit the leader.
func (q *queue) handOver() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.waiting = nil
		q.leading = false
		return
	}
	q.pop().signal <- lead
}

// refuse fails new units and those that wait with err; nil accepts again. Work
// between batches is not a unit, and goes on.
func (q *queue) refuse(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.down = err
	if err == nil {
		return
	}
	waiting := q.waiting
	q.waiting = nil
	for _, u := range waiting {
		if u.fn == nil {
			q.waiting = append(q.waiting, u)
			continue
		}
		u.err = err
		u.signal <- done
	}
}

// after arms a timer, unless it is armed or the queue is closed.
func (q *queue) after(timer **time.Timer, wait time.Duration, fn func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || *timer != nil {
		return
	}
	*timer = time.AfterFunc(wait, func() {
		q.mu.Lock()
		*timer = nil
		q.mu.Unlock()
		fn()
	})
}

// close refuses everything from now on and tells whether it was the first to.
// Its caller becomes the leader once those who wait have had their turn: last
// receives then.
func (q *queue) close(last *unit) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.closed = true
	for _, t := range []*time.Timer{q.flush, q.healing} {
		if t != nil {
			t.Stop()
		}
	}
	if q.leading {
		q.waiting = append(q.waiting, last)
	} else {
		q.leading = true
		last.signal <- lead
	}
	return true
}
