package room

import (
	"context"
	"sync"

	"hearth/storage/matrix"
)

// locks has one lock per room, so that what is planned for a room is planned
// one after the other. It is never held across a call to another server.
type locks struct {
	mu    sync.Mutex // guards rooms
	rooms map[matrix.RoomID]*roomLock
}

type roomLock struct {
	held  chan struct{} // holds one value while the lock is taken
	users int           // who hold it or wait
}

// lock takes a room's lock; unlock gives it back. It waits as long as ctx allows.
func (l *locks) lock(ctx context.Context, room matrix.RoomID) (unlock func(), err error) {
	l.mu.Lock()
	if l.rooms == nil {
		l.rooms = map[matrix.RoomID]*roomLock{}
	}
	one := l.rooms[room]
	if one == nil {
		one = &roomLock{held: make(chan struct{}, 1)}
		l.rooms[room] = one
	}
	one.users++
	l.mu.Unlock()
	select {
	case one.held <- struct{}{}:
		return func() { <-one.held; l.leave(room, one) }, nil
	case <-ctx.Done():
		l.leave(room, one)
		return nil, context.Cause(ctx)
	}
}

func (l *locks) leave(room matrix.RoomID, one *roomLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(l.rooms, room)
	}
}
