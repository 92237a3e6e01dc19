package syncer

import (
	"slices"
	"sync"
)

// polls bounds how many polls of one device wait at once. Clients poll one at
// a time; more are left over from connections that died unnoticed, or are a
// client gone wild. Beyond the bound the oldest is answered, so a client that
// reconnects is never refused.
type polls struct {
	max int

	mu      sync.Mutex // guards waiting
	waiting map[int64][]*poll
}

type poll struct{ superseded chan struct{} }

// enter counts one waiting poll of the device, and ends the oldest if there
// are too many.
func (p *polls) enter(device int64) *poll {
	one := &poll{superseded: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = map[int64][]*poll{}
	}
	list := append(p.waiting[device], one)
	if len(list) > p.max {
		close(list[0].superseded)
		list = slices.Delete(list, 0, 1)
	}
	p.waiting[device] = list
	return one
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
