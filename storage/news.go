package storage

import (
	"sync"

	"hearth/storage/matrix"
)

// News names whom a commit concerns. Any field may be empty.
type News struct {
	Devices []int64         // device numbers with new to-device messages or key counts
	Users   []int64         // user numbers whose account-wide streams moved
	Rooms   []matrix.RoomID // rooms with something new
	Ended   []int64         // device numbers that were deleted: their long polls end
}

// Interest is what a waiter wants to hear of.
type Interest struct {
	Device int64
	User   int64
	Rooms  []matrix.RoomID
}

// Subscription is one waiter. Its channel holds one wake-up, so that none is
// lost between reading and waiting.
type Subscription struct {
	wake  chan struct{}
	ended chan struct{}
	once  sync.Once
	in    Interest
	bus   *bus
}

// C receives after news that concerns the subscription.
func (s *Subscription) C() <-chan struct{} { return s.wake }

// Ended is closed when the subscription's device was deleted.
func (s *Subscription) Ended() <-chan struct{} { return s.ended }

// Close ends the subscription.
func (s *Subscription) Close() {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	delete(s.bus.subs, s)
}

// Subscribe begins listening. Call it before reading what is waited for.
func (s *Store) Subscribe(in Interest) *Subscription {
	sub := &Subscription{wake: make(chan struct{}, 1), ended: make(chan struct{}), in: in, bus: &s.bus}
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	if s.bus.subs == nil {
		s.bus.subs = map[*Subscription]struct{}{}
	}
	s.bus.subs[sub] = struct{}{}
	return sub
}

// Announce wakes waiters for a stream that is not durable.
func (s *Store) Announce(n News) { s.bus.announce(n) }

type bus struct {
	mu   sync.Mutex // guards subs
	subs map[*Subscription]struct{}
}

func (b *bus) announce(n News) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subs {
		for _, d := range n.Ended {
			if d == s.in.Device {
				s.once.Do(func() { close(s.ended) })
			}
		}
		if hits(n, s.in) {
			select {
			case s.wake <- struct{}{}:
			default:
			}
		}
	}
}

func hits(n News, in Interest) bool {
	for _, d := range n.Devices {
		if d == in.Device {
			return true
		}
	}
	for _, u := range n.Users {
		if u == in.User {
			return true
		}
	}
	for _, r := range n.Rooms {
		for _, want := range in.Rooms {
			if r == want {
				return true
			}
		}
	}
	return false
}
