package inbox

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"hearth/storage"
)

// mirror is what memory knows of the inboxes.
//
// A device is unknown until something asks for its inbox. From then on it is
// either known to be empty, which costs one bit, or has an entry. Every commit
// that touches an inbox hands the mirror a change with a label: a position that
// no earlier commit has reached, and that its own commit has. So a snapshot at
// position p contains exactly the changes whose labels are at most p.
//
// Loading uses that. The first touch makes an entry that is not loaded and
// notes the label of the last change that went by (since); from then on the
// entry keeps every change. A snapshot at p >= since has all changes that went
// by before, and of the kept ones those up to p: the rest is applied to what it
// says. A snapshot older than that answers its own question and loads nothing.
// No lock is held while SQL runs.
type mirror struct {
	mu      sync.Mutex // guards what follows, and the entries
	entries map[int64]*entry
	empty   bitset             // devices known to have no messages, unless they have an entry
	dirty   map[int64]struct{} // devices whose acknowledged rows may still be in the table
	asked   int                // acknowledgements since such rows were last deleted
	label   int64              // of the last change
	bodies  bodyList
	used    int64 // bytes
	budget  int64
}

// entry is one device.
type entry struct {
	device int64
	loaded bool
	since  int64    // not loaded: label before the first kept change
	kept   []change // not loaded: what has changed since

	messages, bytes int64 // in the table, acknowledged ones included
	first, last     int64 // positions in the table; 0: none
	floor           int64 // bodies has every message behind it
	bodies          []*body
	acked           int64 // everything up to it was received
}

// change is what one commit did to one inbox: an arrival, or a removal after
// which the totals are as given.
type change struct {
	label  int64
	body   *body
	totals storage.InboxTotals
	gone   []int64 // removal: positions, ascending; or everything before totals.First
}

// Sizes in bytes that count against the budget beside contents.
const (
	entrySize = 256
	bodySize  = 128
	maxKept   = 64 // changes of an entry that is not loaded
)

// arrival is one content that was put into some inboxes, at positions first,
// first+1 and so on.
type arrival struct {
	Message
	devices []int64
	first   int64
	bytes   int64
}

// arrived applies the messages of one unit.
func (m *mirror) arrived(label int64, all []arrival) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.label = label
	for i := range all {
		a := &all[i]
		owned := false
		for k, device := range a.devices {
			e := m.entries[device]
			if e == nil {
				if !m.empty.has(device) {
					continue // whoever asks first loads it
				}
				e = m.add(device)
				e.loaded = true
				e.floor = a.first + int64(k) - 1
			}
			if !owned { // the request's buffer is larger than one content
				a.Content, owned = bytes.Clone(a.Content), true
			}
			b := &body{Message: a.Message, entry: e, bytes: a.bytes}
			b.Pos = a.first + int64(k)
			m.change(e, change{label: label, body: b})
		}
	}
	m.shrink()
}

// removed applies a removal from one device.
func (m *mirror) removed(label, device int64, totals storage.InboxTotals, gone []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.label = label
	if e := m.entries[device]; e != nil {
		m.change(e, change{label: label, totals: totals, gone: gone})
	}
}

// dropped forgets a device that was deleted. Its number is never used again.
func (m *mirror) dropped(label, device int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.label = label
	if e := m.entries[device]; e != nil {
		m.remove(e)
	}
	m.empty.set(device)
}

func (m *mirror) add(device int64) *entry {
	if m.entries == nil {
		m.entries = map[int64]*entry{}
		m.dirty = map[int64]struct{}{}
	}
	e := &entry{device: device}
	m.entries[device] = e
	m.used += entrySize
	return e
}

func (m *mirror) remove(e *entry) {
	m.trim(e, len(e.bodies))
	m.forgetKept(e)
	m.used -= entrySize
	delete(m.entries, e.device)
	delete(m.dirty, e.device)
}

// change applies c to a loaded entry and keeps it for another.
func (m *mirror) change(e *entry, c change) {
	if e.loaded {
		m.apply(e, c)
		m.settle(e)
		return
	}
	if len(e.kept) == maxKept {
		m.forgetKept(e)
		e.since = c.label
		return
	}
	e.kept = append(e.kept, c)
	m.used += c.size()
}

func (c *change) size() int64 {
	if c.body == nil {
		return bodySize + int64(8*len(c.gone))
	}
	return c.body.size()
}

func (m *mirror) forgetKept(e *entry) {
	for i := range e.kept {
		m.used -= e.kept[i].size()
	}
	e.kept = nil
}

func (m *mirror) apply(e *entry, c change) {
	if c.body != nil {
		if e.messages == 0 {
			e.first = c.body.Pos
		}
		e.messages++
		e.bytes += c.body.bytes
		e.last = c.body.Pos
		e.bodies = append(e.bodies, c.body)
		m.bodies.push(c.body)
		m.used += c.body.size()
		return
	}
	e.messages, e.bytes = c.totals.Messages, c.totals.Bytes
	e.first, e.last = c.totals.First, c.totals.Last
	if c.gone == nil {
		n := len(e.bodies)
		if e.messages > 0 {
			n = e.behind(e.first - 1)
		}
		m.trim(e, n)
		return
	}
	e.bodies = slices.DeleteFunc(e.bodies, func(b *body) bool {
		_, gone := slices.BinarySearch(c.gone, b.Pos)
		if gone {
			m.release(b)
		}
		return gone
	})
}

// settle replaces the entry of an empty inbox by a bit.
func (m *mirror) settle(e *entry) {
	if e.messages == 0 {
		m.remove(e)
		m.empty.set(e.device)
	}
}

// behind is the index of the first body behind a position.
func (e *entry) behind(pos int64) int {
	i, found := slices.BinarySearchFunc(e.bodies, pos, func(b *body, pos int64) int { return cmp.Compare(b.Pos, pos) })
	if found {
		i++
	}
	return i
}

// trim releases the n oldest bodies of an entry.
func (m *mirror) trim(e *entry, n int) {
	if n == 0 {
		return
	}
	for _, b := range e.bodies[:n] {
		m.release(b)
	}
	e.floor = max(e.floor, e.bodies[n-1].Pos)
	e.bodies = slices.Delete(e.bodies, 0, n)
}

func (m *mirror) release(b *body) {
	m.bodies.remove(b)
	m.used -= b.size()
}

// shrink gives up memory beyond the budget: the oldest bodies, which SQLite
// has, and then whole entries, which can be loaded again, but not what the
// table does not know yet.
func (m *mirror) shrink() {
	for m.used > m.budget && m.bodies.oldest() != nil {
		m.trim(m.bodies.oldest().entry, 1)
	}
	if m.used <= m.budget {
		return
	}
	tries := 0
	for device, e := range m.entries {
		if tries++; m.used <= m.budget || tries > 64 {
			return
		}
		if _, dirty := m.dirty[device]; !dirty {
			m.remove(e)
			m.empty.clear(device)
		}
	}
}
