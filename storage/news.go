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
	Device int64           // 0: none
	User   int64           // 0: none
	Rooms  []matrix.RoomID // not kept
}

// Subscription is one waiter. Its channel holds one wake-up, so that none is
// lost between reading and waiting.
type Subscription struct {
	wake   chan struct{}
	ended  chan struct{}
	bus    *bus
	places []place // where the bus lists it, and which place is whose
	over   bool    // ended is closed
	round  uint64  // of the last announcement that woke it
	closed bool
}

// C receives after news that concerns the subscription.
func (s *Subscription) C() <-chan struct{} { return s.wake }

// Ended is closed when the subscription's device was deleted.
func (s *Subscription) Ended() <-chan struct{} { return s.ended }

// Close ends the subscription. It may be called more than once.
func (s *Subscription) Close() {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.bus.n--
	for _, p := range s.places {
		s.bus.remove(p)
	}
	s.places = nil
}

// Subscribe begins listening. Call it before reading what is waited for: news
// of a commit that the read does not see is then in the channel.
func (s *Store) Subscribe(in Interest) *Subscription {
	b := &s.bus
	sub := &Subscription{wake: make(chan struct{}, 1), ended: make(chan struct{}), bus: b}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	sub.places = make([]place, 0, 2+len(in.Rooms))
	if in.Device != 0 {
		b.add(sub, topic{device: in.Device})
	}
	if in.User != 0 {
		b.add(sub, topic{user: in.User})
	}
	for _, r := range in.Rooms {
		b.add(sub, topic{room: r})
	}
	return sub
}

// Announce wakes waiters for a stream that is not durable.
func (s *Store) Announce(n News) { s.bus.announce(n) }

// topic is one thing to be interested in; exactly one field is set.
type topic struct {
	device int64
	user   int64
	room   matrix.RoomID
}

// bus finds the waiters of a topic without looking at the others: what news
// cost depends on whom they wake, not on who waits.
type bus struct {
	mu     sync.Mutex // guards everything here and the places of subscriptions
	topics map[topic]*listeners
	n      int    // open subscriptions
	round  uint64 // counts announcements
}

// listeners are the waiters of one topic, in no order.
type listeners struct {
	topic topic
	all   []listener
	round uint64 // of the last announcement that woke them
}

// listener is a waiter and which of its places this is.
type listener struct {
	sub  *Subscription
	slot int
}

// place is where a waiter stands in one topic's list.
type place struct {
	in *listeners
	at int
}

func (b *bus) add(sub *Subscription, t topic) {
	if b.topics == nil {
		b.topics = map[topic]*listeners{}
	}
	l := b.topics[t]
	if l == nil {
		l = &listeners{topic: t}
		b.topics[t] = l
	}
	sub.places = append(sub.places, place{in: l, at: len(l.all)})
	l.all = append(l.all, listener{sub: sub, slot: len(sub.places) - 1})
}

// remove takes a waiter out of a list; the last of the list takes its place.
func (b *bus) remove(p place) {
	l := p.in
	last := len(l.all) - 1
	moved := l.all[last]
	l.all[p.at] = moved
	moved.sub.places[moved.slot].at = p.at
	l.all[last] = listener{}
	l.all = l.all[:last]
	if last == 0 {
		delete(b.topics, l.topic)
	}
}

// announce wakes each waiter that any of the news concern once: what came in
// one commit costs it one look.
func (b *bus) announce(news ...News) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.round++
	for _, n := range news {
		for _, d := range n.Devices {
			b.wake(topic{device: d})
		}
		for _, u := range n.Users {
			b.wake(topic{user: u})
		}
		for _, r := range n.Rooms {
			b.wake(topic{room: r})
		}
		for _, d := range n.Ended {
			b.end(topic{device: d})
		}
	}
}

func (b *bus) wake(t topic) {
	l := b.topics[t]
	if l == nil || l.round == b.round {
		return
	}
	l.round = b.round
	for _, w := range l.all {
		if w.sub.round == b.round {
			continue
		}
		w.sub.round = b.round
		select {
		case w.sub.wake <- struct{}{}:
		default: // it has not yet looked at the last one
		}
	}
}

func (b *bus) end(t topic) {
	l := b.topics[t]
	if l == nil {
		return
	}
	for _, w := range l.all {
		if !w.sub.over {
			w.sub.over = true
			close(w.sub.ended)
		}
	}
}

func (b *bus) waiters() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}
