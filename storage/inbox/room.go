package inbox

import (
	"errors"

	"hearth/storage"
	"hearth/storage/matrix"
)

// makeRoom brings every inbox that one more message would push over a limit
// far enough below it. What decides is the table as this unit sees it, not the
// mirror. Nothing of the present request is stored yet, so nothing of it can be
// a victim.
func (b *Inbox) makeRoom(tx *storage.Tx, in incoming, parcels []parcel) error {
	largest := int64(0)
	for _, p := range parcels {
		largest = max(largest, in.overhead+int64(len(p.content)))
	}
	if largest > b.opt.MaxBytes {
		return matrix.Errorf(matrix.TooLarge, "a message of %d bytes fits no inbox", largest)
	}
	full, err := tx.FullInboxes(devicesOf(parcels), int64(b.opt.MaxMessages)-1, b.opt.MaxBytes-largest)
	if err != nil || len(full) == 0 {
		return err
	}
	for _, p := range parcels {
		size := in.overhead + int64(len(p.content))
		for _, device := range p.devices {
			totals, ok := full[device]
			if !ok || b.fits(totals, size) {
				continue
			}
			if err := b.makeRoomFor(tx, device, in, size); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Inbox) fits(s storage.InboxTotals, size int64) bool {
	return s.Messages < int64(b.opt.MaxMessages) && s.Bytes+size <= b.opt.MaxBytes
}

// makeRoomFor deletes what the device has acknowledged, and only if that is not
// enough what fairness gives up.
func (b *Inbox) makeRoomFor(tx *storage.Tx, device int64, in incoming, size int64) error {
	if upTo := b.mirror.acknowledged(device); upTo > 0 {
		totals, err := b.deleteUpTo(tx, device, upTo)
		if err != nil || b.fits(totals, size) {
			return err
		}
	}
	rows, err := tx.InboxRows(device)
	if err != nil {
		return err
	}
	own, err := tx.SenderOfOwner(device)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	strange, err := b.strangers(tx, device, own, rows)
	if err != nil {
		return err
	}
	r := ranking{rows: rows, in: in, size: size, own: own, strange: strange, gone: make([]bool, len(rows))}
	r.choose(int64(b.opt.MaxMessages), func(*storage.InboxRow) int64 { return 1 }, 1)
	r.choose(b.opt.MaxBytes, func(row *storage.InboxRow) int64 { return row.Bytes }, size)
	return b.evict(tx, device, r)
}

// evict deletes the victims and tells the mirror, the counters and the log.
func (b *Inbox) evict(tx *storage.Tx, device int64, r ranking) error {
	positions, bytes := r.victims()
	if err := tx.EvictToDevice(device, positions); err != nil {
		return err
	}
	totals, err := tx.InboxTotals(device)
	if err != nil {
		return err
	}
	label := tx.NextPos()
	tx.AfterCommit(func() {
		b.mirror.removed(label, device, totals, positions)
		b.count.evicted.Add(int64(len(positions)))
		b.count.evictedBytes.Add(bytes)
		select {
		case b.lost <- loss{device, len(positions), bytes}:
		default: // the counters have it
		}
	})
	return nil
}

// deleteUpTo deletes acknowledged messages and returns what remains.
func (b *Inbox) deleteUpTo(tx *storage.Tx, device, upTo int64) (storage.InboxTotals, error) {
	n, err := tx.DeleteToDeviceUpTo(device, upTo)
	if err != nil {
		return storage.InboxTotals{}, err
	}
	totals, err := tx.InboxTotals(device)
	if err != nil {
		return storage.InboxTotals{}, err
	}
	if n > 0 {
		label := tx.NextPos()
		tx.AfterCommit(func() { b.mirror.removed(label, device, totals, nil) })
	}
	return totals, nil
}

// strangers finds the senders who share no room with the device's owner; nil:
// nobody is one, or everybody.
func (b *Inbox) strangers(tx *storage.Tx, device, own int64, rows []storage.InboxRow) (map[int64]bool, error) {
	strange := map[int64]bool{}
	var nums []int64
	for i := range rows {
		if num := rows[i].Sender; num != own && !strange[num] {
			strange[num] = true
			nums = append(nums, num)
		}
	}
	known, err := tx.SendersMet(device, nums)
	if err != nil || len(known) == 0 {
		return nil, err
	}
	for _, num := range known {
		delete(strange, num)
	}
	return strange, nil
}
