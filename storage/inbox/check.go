package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"hearth/storage"
)

// checkDevices is how many devices one unit of Check compares.
const checkDevices = 100

// Check compares the mirror with the table, device by device, and the table
// with its own totals. It may run beside anything: each comparison reads the
// table in a unit and the mirror in that unit's hook, with no commit between.
// All differences are reported, joined.
func (b *Inbox) Check(ctx context.Context) error {
	var errs []error
	for after := int64(0); after >= 0; {
		next, found := int64(-1), []error(nil)
		err := b.store.Write(ctx, "check inboxes", func(tx *storage.Tx) error {
			waiting, err := tx.InboxDevices(after, checkDevices)
			if err != nil {
				return err
			}
			devices := merge(waiting, b.mirror.devices(after, checkDevices), checkDevices)
			if len(devices) > 0 {
				next = devices[len(devices)-1]
			}
			stored, err := readStored(tx, devices)
			if err != nil {
				return err
			}
			tx.AfterCommit(func() { found = b.mirror.compare(stored) })
			return nil
		})
		if err != nil {
			return fmt.Errorf("check inboxes: %w", err)
		}
		after, errs = next, append(errs, found...)
	}
	err := b.store.Read(ctx, "check inboxes", func(rx *storage.Rx) error {
		n, err := rx.OrphanedToDevice()
		if n > 0 {
			errs = append(errs, fmt.Errorf("%d messages without device, inbox or sender", n))
		}
		return err
	})
	return errors.Join(append(errs, err)...)
}

// merge joins two ascending lists and keeps the first n.
func merge(a, b []int64, n int) []int64 {
	all := append(a, b...)
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(n, len(all))]
}

// stored is one inbox as the table has it.
type stored struct {
	device int64
	totals storage.InboxTotals
	rows   []storage.ToDevice
}

func readStored(tx *storage.Tx, devices []int64) ([]stored, error) {
	list := make([]stored, 0, len(devices))
	for _, device := range devices {
		s := stored{device: device}
		var err error
		if s.totals, err = tx.InboxTotals(device); err == nil {
			s.rows, _, err = tx.ToDevice(device, 0, 1<<30, 1<<62)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// devices lists devices that have an entry, ascending.
func (m *mirror) devices(after int64, limit int) []int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []int64
	for device := range m.entries {
		if device > after {
			list = append(list, device)
		}
	}
	slices.Sort(list)
	return list[:min(limit, len(list))]
}

func (m *mirror) compare(list []stored) []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for i := range list {
		s := &list[i]
		if err := s.countsUp(); err != nil {
			errs = append(errs, err)
		}
		e := m.entries[s.device]
		switch {
		case e == nil && m.empty.has(s.device) && len(s.rows) > 0:
			errs = append(errs, fmt.Errorf("device %d: %d messages, but the mirror says empty", s.device, len(s.rows)))
		case e != nil && e.loaded:
			if err := e.compare(s); err != nil {
				errs = append(errs, fmt.Errorf("device %d: %w", s.device, err))
			}
		}
	}
	return errs
}

// countsUp checks the table's totals against its rows.
func (s *stored) countsUp() error {
	var bytes int64
	for _, r := range s.rows {
		bytes += r.Bytes
	}
	if int64(len(s.rows)) != s.totals.Messages || bytes != s.totals.Bytes {
		return fmt.Errorf("device %d: %d messages of %d bytes, but the totals say %d of %d",
			s.device, len(s.rows), bytes, s.totals.Messages, s.totals.Bytes)
	}
	return nil
}

func (e *entry) compare(s *stored) error {
	have := storage.InboxTotals{Messages: e.messages, Bytes: e.bytes, Evicted: s.totals.Evicted, First: e.first, Last: e.last}
	if have != s.totals {
		return fmt.Errorf("mirror has %+v, table %+v", have, s.totals)
	}
	behind := s.rows
	for len(behind) > 0 && behind[0].Pos <= max(e.floor, e.acked) {
		behind = behind[1:]
	}
	if len(behind) != len(e.bodies) {
		return fmt.Errorf("mirror has %d bodies behind %d, table %d", len(e.bodies), e.floor, len(behind))
	}
	for i, r := range behind {
		b := e.bodies[i]
		if b.Pos != r.Pos || b.bytes != r.Bytes || b.Sender != r.Sender || b.Type != r.Type || !bytes.Equal(b.Content, r.Content) {
			return fmt.Errorf("body at %d is not the row at %d", b.Pos, r.Pos)
		}
	}
	return nil
}
