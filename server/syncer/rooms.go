package syncer

import (
	"errors"
	"slices"

	"hearth/server/spill"
	"hearth/server/view"
	"hearth/storage"
	"hearth/storage/matrix"
)

// builder writes what one response tells of rooms and account data, while the
// snapshot is open.
type builder struct {
	rx     *storage.Rx
	req    *Request
	filter *view.Filter
	viewer *view.Viewer
	out    *spill.Buffer
	// members is what the client was told of members before; nil: nothing.
	members *telling

	since int64 // what was told before; 0: nothing
	pos   int64 // of the snapshot
	whole bool  // tell the whole state of every room
	lost  bool  // the client has a history that is not continued: every timeline has a gap

	data map[matrix.RoomID][]storage.AccountData // by room, "" for the account

	told   int // rooms and entries of account data
	inKind int // rooms in the section that is being written
}

// build writes the sections rooms and account_data.
func (b *builder) build() error {
	if err := b.readData(); err != nil {
		return err
	}
	spans, err := b.spans()
	if err != nil {
		return err
	}
	b.out.Text(`"rooms":{`)
	for i, kind := range []string{kindJoin, kindInvite, kindKnock, kindLeave} {
		if i > 0 {
			b.out.Text(`,`)
		}
		b.out.Text(`"` + kind + `":{`)
		b.inKind = 0
		for _, sp := range spans[kind] {
			if err := b.tellRoom(sp); err != nil {
				return err
			}
		}
		b.out.Text(`}`)
	}
	b.out.Text(`},"account_data":{"events":[`)
	b.told += len(b.data[""])
	if err := writeData(b.out, b.data[""]); err != nil {
		return err
	}
	b.out.Text(`]}`)
	return nil
}

// spans finds the rooms that there may be something to tell of, by section.
func (b *builder) spans() (map[string][]span, error) {
	members, err := b.memberships()
	if err != nil {
		return nil, err
	}
	spans := map[string][]span{}
	for _, m := range members {
		if !b.filter.Room.AllowsRoom(m.RoomID) {
			continue
		}
		sp, err := b.spanOf(m)
		if errors.Is(err, errNothing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		spans[sp.kind] = append(spans[sp.kind], sp)
	}
	return spans, nil
}

// memberships lists the rooms with news, by number: all of the user's where all
// is told, otherwise those that moved and those with new account data.
func (b *builder) memberships() ([]storage.Membership, error) {
	if b.whole {
		return b.rx.MembershipsOf(b.req.User)
	}
	members, err := b.rx.RoomsWithNews(b.req.User, b.since)
	if err != nil {
		return nil, err
	}
	listed := map[matrix.RoomID]bool{"": true}
	for _, m := range members {
		listed[m.RoomID] = true
	}
	for id := range b.data {
		if listed[id] {
			continue
		}
		m, err := b.membershipOf(id)
		switch {
		case errors.Is(err, storage.ErrNotFound):
		case err != nil:
			return nil, err
		case m.Membership == matrix.MembershipJoin:
			members = append(members, m)
		}
	}
	slices.SortFunc(members, func(x, y storage.Membership) int { return int(x.Room - y.Room) })
	return members, nil
}

func (b *builder) membershipOf(id matrix.RoomID) (storage.Membership, error) {
	room, err := b.rx.Room(id)
	if err != nil {
		return storage.Membership{}, err
	}
	return b.rx.Membership(room.Num, b.req.User)
}
