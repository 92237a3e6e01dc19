package inbox

import (
	"context"

	"hearth/storage"
)

// Batch is what one response may carry.
type Batch struct {
	Messages []Message
	Next     int64 // presented as since, it acknowledges Messages and all before
	More     bool  // others follow at once
}

// Batch returns the oldest messages of a device behind a position that it has
// not acknowledged, as of the snapshot: at most SyncBatch, and at most
// BatchBytes unless a single one is larger.
func (b *Inbox) Batch(ctx context.Context, rx *storage.Rx, device, after int64) (Batch, error) {
	// The mirror has every change up to the snapshot once it is published.
	if err := b.store.WaitPos(ctx, rx.Pos()); err != nil {
		return Batch{}, err
	}
	v := b.mirror.view(device, after, rx.Pos(), b.opt)
	if v.complete {
		return v.batch, nil
	}
	list, more, err := rx.ToDevice(device, v.batch.Next, b.opt.SyncBatch, int64(b.opt.BatchBytes))
	if err != nil {
		return Batch{}, err
	}
	for _, m := range list {
		v.batch.add(Message{m.Pos, m.Sender, m.Type, m.Content})
	}
	v.batch.More = more
	if v.load != nil {
		totals, err := rx.InboxTotals(device)
		if err != nil {
			return Batch{}, err
		}
		b.mirror.load(v.load, rx.Pos(), totals)
	}
	return v.batch, nil
}

func (b *Batch) add(m Message) {
	b.Messages = append(b.Messages, m)
	b.Next = m.Pos
}

// view is what the mirror can say for a batch.
type view struct {
	batch    Batch
	complete bool   // nothing else need be asked
	load     *entry // to be loaded by whoever reads the table
}

func (m *mirror) view(device, after, snapshot int64, opt Options) view {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := view{batch: Batch{Next: after}}
	e := m.entries[device]
	if e == nil {
		if v.complete = m.empty.has(device); !v.complete {
			e = m.add(device)
			e.since = m.label
			v.load = e
		}
		return v
	}
	v.batch.Next = max(after, e.acked)
	if !e.loaded {
		v.load = e
		return v
	}
	if e.last <= v.batch.Next {
		v.complete = true
		return v
	}
	if max(v.batch.Next, e.first-1) < e.floor {
		return v
	}
	v.complete = true
	var sum int64
	for _, b := range e.bodies[e.behind(v.batch.Next):] {
		if b.Pos > snapshot {
			break
		}
		sum += b.bytes
		if n := len(v.batch.Messages); n == opt.SyncBatch || n > 0 && sum > int64(opt.BatchBytes) {
			v.batch.More = true
			break
		}
		v.batch.add(b.Message)
	}
	return v
}

// load completes an entry with what a snapshot says of it.
func (m *mirror) load(e *entry, snapshot int64, totals storage.InboxTotals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.loaded || m.entries[e.device] != e || snapshot < e.since {
		return
	}
	kept := e.kept
	m.forgetKept(e)
	e.loaded = true
	e.messages, e.bytes = totals.Messages, totals.Bytes
	e.first, e.last, e.floor = totals.First, totals.Last, totals.Last
	for _, c := range kept {
		if c.label > snapshot {
			m.apply(e, c)
		}
	}
	m.settle(e)
	m.shrink()
}
