package inbox

import (
	"hearth/storage"
)

// ackBatch is how many devices one housekeeping unit cleans.
const ackBatch = 200

// Ack notes that a device has received everything up to a position, which it
// proved by presenting it. From now on nothing up to there is offered to it,
// nor counted against its limits; the rows are deleted as housekeeping. An
// acknowledgement never takes back an earlier one, and never reaches a message
// that is not published yet. That of a deleted device does nothing.
func (b *Inbox) Ack(device, upTo int64) {
	if upTo = min(upTo, b.store.Pos()); upTo <= 0 {
		return
	}
	if b.mirror.ack(device, upTo) {
		b.store.Later("delete acknowledged to-device", b.deleteAcknowledged)
	}
}

// ack returns whether a deletion should be offered.
func (m *mirror) ack(device, upTo int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[device]
	if e == nil {
		if m.empty.has(device) {
			return false
		}
		e = m.add(device)
		e.since = m.label
	}
	if e.loaded && upTo < e.first {
		return false
	}
	if upTo > e.acked {
		e.acked = upTo
		m.trim(e, e.behind(upTo))
		m.dirty[device] = struct{}{}
	}
	return m.offer()
}

// offer tells whether housekeeping should be asked for. It may fail without a
// word, so it is asked again when much has gathered since it last was.
func (m *mirror) offer() bool {
	if len(m.dirty) == 0 {
		return false
	}
	m.asked++
	return m.asked == 1 || m.asked >= 64 && m.asked&(m.asked-1) == 0
}

// acknowledged is the position up to which a device has received everything.
func (m *mirror) acknowledged(device int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[device]; e != nil {
		return e.acked
	}
	return 0
}

// receipt is what one device has acknowledged.
type receipt struct{ device, upTo int64 }

// receipts lists devices whose acknowledged rows may still be in the table.
func (m *mirror) receipts(limit int) []receipt {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []receipt
	for device := range m.dirty {
		if len(list) == limit {
			break
		}
		list = append(list, receipt{device, m.entries[device].acked})
	}
	return list
}

// cleaned notes that the rows of receipts are deleted.
func (m *mirror) cleaned(list []receipt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = 0
	for _, r := range list {
		if e := m.entries[r.device]; e != nil && e.acked <= r.upTo {
			delete(m.dirty, r.device)
		}
	}
}

// deleteAcknowledged deletes rows that devices have acknowledged. It may run
// any number of times.
func (b *Inbox) deleteAcknowledged(tx *storage.Tx) error {
	list := b.mirror.receipts(ackBatch)
	for _, r := range list {
		if _, err := b.deleteUpTo(tx, r.device, r.upTo); err != nil {
			return err
		}
	}
	tx.AfterCommit(func() { b.mirror.cleaned(list) })
	return nil
}
