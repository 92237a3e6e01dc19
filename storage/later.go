package storage

import (
	"time"

	"go.uber.org/zap"
)

const (
	laterDelay = 5 * time.Second // housekeeping waits for company no longer than this
	laterLimit = 4096            // housekeeping units that may wait
)

// Later queues fn as housekeeping: it rides with the next batch, or commits
// with others of its kind within five seconds. A failure is logged and fn is
// lost, so fn must be work that its owner offers again; a crash loses it, too.
// Close flushes what waits. Calls may come from inside a unit or a hook.
func (s *Store) Later(why string, fn func(*Tx) error) {
	if !s.queue.addLater(&unit{why: why, fn: fn, later: true, ran: make(chan struct{}, 1)}) {
		s.log.Warn("housekeeping dropped: too much of it waits, or the store is closed", zap.String("why", why))
		return
	}
	s.queue.after(&s.queue.flush, laterDelay, s.flushLater)
}

func (q *queue) addLater(u *unit) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.later) >= laterLimit {
		return false
	}
	q.later = append(q.later, u)
	return true
}

func (q *queue) laterWaits() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.later) > 0
}

// flushLater commits waiting housekeeping. What does not fit into one batch, or
// cannot be tried because the disk refuses, waits for the next round.
func (s *Store) flushLater() {
	if !s.queue.laterWaits() {
		return
	}
	err := s.Write(background, "housekeeping", func(*Tx) error { return nil })
	if err != nil {
		s.log.Warn("housekeeping waits", zap.Error(err))
	}
	if s.queue.laterWaits() {
		s.queue.after(&s.queue.flush, laterDelay, s.flushLater)
	}
}
