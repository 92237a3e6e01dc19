package syncer

import (
	"context"
	"fmt"

	"hearth/storage"
	"hearth/storage/matrix"
)

// followed is which of the user's rooms a waiting poll hears of.
type followed struct {
	begun bool
	pos   int64 // of the user's memberships, as they were read
}

// follow subscribes to the rooms the user is joined to, as far as the filter
// lets them through, if they are others than those that are followed; members
// is the position at which they last changed. Otherwise it returns nil.
//
// What happened in a room before it was followed woke nobody: with a new
// subscription the caller looks at the position before it waits.
func (s *Syncer) follow(ctx context.Context, r *Request, f *followed, members int64) (*storage.Subscription, error) {
	if f.begun && f.pos >= members {
		return nil, nil
	}
	in := storage.Interest{Device: r.DeviceNum, User: r.UserNum}
	err := s.store.Read(ctx, "rooms to follow", func(rx *storage.Rx) error {
		rooms, err := rx.RoomsIn(r.User, matrix.MembershipJoin)
		if err != nil {
			return err
		}
		for _, id := range rooms {
			if r.Filter.Room.AllowsRoom(id) {
				in.Rooms = append(in.Rooms, id)
			}
		}
		f.begun = true
		f.pos, err = rx.MembershipsPos(r.User)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	return s.store.Subscribe(in), nil
}
