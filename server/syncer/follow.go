package syncer

import (
	"context"
	"fmt"

	"hearth/storage"
	"hearth/storage/matrix"
)

// follow subscribes to the user, the device, and the rooms the user is joined
// to, as far as the filter lets them through. A poll does it once: that a user
// joins a room or leaves it is news for the user, which is told and ends the
// poll, unless the filter leaves the room out.
func (s *Syncer) follow(ctx context.Context, r *Request) (*storage.Subscription, error) {
	in := storage.Interest{Device: r.DeviceNum, User: r.UserNum}
	err := s.store.Read(ctx, "rooms to follow", func(rx *storage.Rx) error {
		rooms, err := rx.RoomsIn(r.User, matrix.MembershipJoin)
		for _, id := range rooms {
			if r.Filter.Room.AllowsRoom(id) {
				in.Rooms = append(in.Rooms, id)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	return s.store.Subscribe(in), nil
}
