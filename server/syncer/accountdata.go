package syncer

import (
	"hearth/server/spill"
	"hearth/storage"
	"hearth/storage/matrix"
)

// readData reads what the user's clients keep here and what was set since, of
// the account and of rooms.
func (b *builder) readData() error {
	after := b.since
	if b.whole {
		after = 0
	}
	all, err := b.rx.AccountDataAfter(b.req.UserNum, after, b.pos)
	if err != nil {
		return err
	}
	b.data = map[matrix.RoomID][]storage.AccountData{}
	for _, d := range all {
		if b.wantsData(d) {
			b.data[d.Room] = append(b.data[d.Room], d)
		}
	}
	return nil
}

// roomData is what is told of one room. What was set while the room was not
// theirs was not told then.
func (b *builder) roomData(sp span) ([]storage.AccountData, error) {
	if !sp.fresh || b.whole || sp.outside {
		return b.data[sp.m.RoomID], nil
	}
	all, err := b.rx.AccountDataOf(b.req.UserNum, sp.m.RoomID)
	if err != nil {
		return nil, err
	}
	kept := all[:0]
	for _, d := range all {
		if b.wantsData(d) {
			kept = append(kept, d)
		}
	}
	return kept, nil
}

// wantsData applies the filter. Whoever set it, it is the user's.
func (b *builder) wantsData(d storage.AccountData) bool {
	if d.Room == "" {
		return b.filter.AccountData.Allows(d.Type, b.req.User)
	}
	f := &b.filter.Room.AccountData
	return f.Allows(d.Type, b.req.User) && f.AllowsRoom(d.Room)
}

// writeData writes a list of events.
func writeData(out *spill.Buffer, data []storage.AccountData) error {
	for i, d := range data {
		if i > 0 {
			out.Text(`,`)
		}
		out.Text(`{"type":` + quote(d.Type) + `,"content":`)
		if _, err := out.Write(d.Content); err != nil {
			return err
		}
		out.Text(`}`)
	}
	return nil
}
