package syncer

import (
	"sync"

	"hearth/storage"
	"hearth/storage/matrix"
)

// maxToldMembers bounds how many membership events are remembered as told, of
// all devices together: a few megabytes. What is forgotten is told again.
const maxToldMembers = 100_000

// toldMembers remembers which membership events a device that loads members
// lazily was told, so that not every message comes with its sender's. Memory
// only: after a restart they are told once more.
// Client-Server API, "Lazy-loading room members".
type toldMembers struct {
	mu      sync.Mutex // guards what follows
	devices map[int64]*toldDevice
	size    int   // devices, and what is remembered of them
	answers int64 // that were begun
}

// toldDevice is what one device was told along one chain of tokens. A client
// that goes on from another token is another client for all that is known, such
// as one that was restored from a backup: its chain begins with nothing.
type toldDevice struct {
	has  map[storage.EventNum]struct{} // the client has these
	at   int64                         // and presented the token of this answer
	sent []storage.EventNum            // told in the answer after that, which it may not have got
	last int64                         // that answer
}

// telling is one answer to a device. A nil telling remembers nothing, and
// everything is told.
type telling struct {
	members *toldMembers
	device  int64
	answer  int64              // its number
	told    []storage.EventNum // in it so far
}

// begin begins an answer to a device that presents the token of another; 0: of
// none.
func (m *toldMembers) begin(device, at int64) *telling {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.devices[device]
	switch {
	case d == nil || at == 0 || at != d.at && at != d.last:
		m.drop(device)
		d = &toldDevice{has: map[storage.EventNum]struct{}{}}
		if m.devices == nil {
			m.devices = map[int64]*toldDevice{}
		}
		m.devices[device] = d
		m.size += d.size()
	case at == d.last:
		before := d.size()
		for _, e := range d.sent {
			d.has[e] = struct{}{}
		}
		m.size += d.size() - before
	}
	m.answers++
	m.size -= len(d.sent)
	d.at, d.sent, d.last = at, nil, m.answers
	return &telling{members: m, device: device, answer: m.answers}
}

func (d *toldDevice) size() int { return 1 + len(d.has) + len(d.sent) }

func (m *toldMembers) drop(device int64) {
	if d := m.devices[device]; d != nil {
		m.size -= d.size()
		delete(m.devices, device)
	}
}

// current is the device, unless it was forgotten or is answered anew.
// m.mu is held.
func (t *telling) current() *toldDevice {
	if d := t.members.devices[t.device]; d != nil && d.last == t.answer {
		return d
	}
	return nil
}

// has tells whether the client has the event already.
func (t *telling) has(e storage.EventNum) (ok bool) {
	if t == nil {
		return false
	}
	t.members.mu.Lock()
	defer t.members.mu.Unlock()
	if d := t.current(); d != nil {
		_, ok = d.has[e]
	}
	return ok
}

// tell notes what of events the answer tells of members.
func (t *telling) tell(events []storage.Event) {
	if t == nil {
		return
	}
	for _, e := range events {
		if e.Type() == matrix.TypeMember {
			t.told = append(t.told, e.Num)
		}
	}
}

// again begins the answer anew: what was made so far is not sent.
func (t *telling) again() {
	if t != nil {
		t.told = nil
	}
}

// sent tells that the answer goes to the client.
func (t *telling) sent() {
	m := t.members
	m.mu.Lock()
	defer m.mu.Unlock()
	d := t.current()
	if d == nil {
		return
	}
	d.sent = t.told
	m.size += len(t.told)
	for m.size > maxToldMembers {
		for any := range m.devices { // whichever comes first
			m.drop(any)
			break
		}
	}
}
