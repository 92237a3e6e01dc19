package syncer

import (
	"slices"
	"sync"
	"time"

	"hearth/storage/matrix"
)

// polls bounds how many polls of one device wait at once. Clients poll one at
// a time; more are left over from connections that died unnoticed, or are a
// client gone wild. Beyond the bound the oldest is answered, so a client that
// reconnects is not refused. But where even the oldest has only begun, the new
// one is: polls that end each other at once would never rest.
type polls struct {
	max int

	mu      sync.Mutex // guards waiting
	waiting map[int64][]*poll
}

type poll struct {
	superseded chan struct{}
	begun      time.Time
}

// minPoll is how long a poll waits at least before another takes its place.
const minPoll = time.Second

// enter counts one waiting poll of the device, and ends the oldest if there
// are too many, or refuses with M_LIMIT_EXCEEDED.
func (p *polls) enter(device int64) (*poll, error) {
	one := &poll{superseded: make(chan struct{}), begun: time.Now()} //nolint:forbidigo // polls wait in real time
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = map[int64][]*poll{}
	}
	list := p.waiting[device]
	if len(list) >= p.max {
		if early := minPoll - one.begun.Sub(list[0].begun); early > 0 {
			return nil, &matrix.Error{
				Status: matrix.LimitExceeded.Status(), Code: matrix.LimitExceeded,
				Message: "this device waits too often at once", RetryAfter: early,
			}
		}
		close(list[0].superseded)
		list = slices.Delete(list, 0, 1)
	}
	p.waiting[device] = append(list, one)
	return one, nil
}

// leave takes the poll back out, unless enter already did.
func (p *polls) leave(device int64, one *poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.waiting[device]
	i := slices.Index(list, one)
	switch {
	case i < 0:
	case len(list) == 1:
		delete(p.waiting, device)
	default:
		p.waiting[device] = slices.Delete(list, i, i+1)
	}
}
