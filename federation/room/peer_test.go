package room

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"slices"

	"go.uber.org/zap/zaptest"

	"hearth/storage"
	"hearth/storage/matrix"
)

// Users of another server.
const (
	peerName matrix.ServerName = "peer.example"
	xenia    matrix.UserID     = "@xenia:peer.example"
	yuri     matrix.UserID     = "@yuri:peer.example"
)

// peer makes events as another server would: signed with its own key, on
// whichever parents it likes.
type peer struct {
	*world
	rooms *Rooms
}

func (w *world) peer() *peer {
	w.tb.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		w.tb.Fatal(err)
	}
	signer := matrix.Signer{Server: peerName, KeyID: "ed25519:peer", Key: key}
	return &peer{w, New(w.store, func() matrix.Signer { return signer }, Options{}, zaptest.NewLogger(w.tb))}
}

// make builds an event after some parents, allowed or not.
func (p *peer) make(room storage.Room, d Draft, parents ...storage.Event) (ev *matrix.Event) {
	p.tb.Helper()
	p.read(func(rx *storage.Rx) error {
		before, err := merge(rx, room, branches(parents))
		if err != nil {
			return err
		}
		ev, _, err = p.rooms.build(rx, room, before.view(rx), parents, d)
		if is(err, matrix.Forbidden) {
			err = nil
		}
		return err
	})
	return ev
}

// give makes an event and has it received.
func (p *peer) give(room storage.Room, d Draft, parents ...storage.Event) Outcome {
	p.tb.Helper()
	out, err := p.world.rooms.Receive(context.Background(), p.make(room, d, parents...))
	if err != nil {
		p.tb.Fatal(err)
	}
	return out
}

// accept is give of an event that must be accepted and told.
func (p *peer) accept(room storage.Room, d Draft, parents ...storage.Event) storage.Event {
	p.tb.Helper()
	out := p.give(room, d, parents...)
	if out.Reason != nil || !out.New || out.Event.Pos <= 0 {
		p.tb.Fatalf("%s of %s: %+v", d.Type, d.Sender, out)
	}
	return out.Event
}

// member is a draft of a member event.
func member(from, target matrix.UserID, membership string) Draft {
	return setting(from, matrix.TypeMember, string(target), content("membership", membership))
}

func (w *world) leaves(room storage.Room) (list []storage.Event) {
	w.tb.Helper()
	w.read(func(rx *storage.Rx) (err error) {
		list, err = rx.Extremities(room.Num)
		return err
	})
	return list
}

// sound fails the test where the invariant does not hold.
func (w *world) sound(room storage.Room) {
	w.tb.Helper()
	w.read(func(rx *storage.Rx) error { return sound(rx, room.ID) })
}

func ids(events []storage.Event) (list []matrix.EventID) {
	for _, e := range events {
		list = append(list, e.ID())
	}
	slices.Sort(list)
	return list
}

// shared is a public room with alice, bob and the peer's users, and its last event.
func (p *peer) shared(v matrix.RoomVersion) (storage.Room, storage.Event) {
	p.tb.Helper()
	room := p.create(Creation{Creator: alice, Version: v, Preset: PresetPublic})
	p.mustAct((*Rooms).Join, room, Act{Sender: bob})
	for _, u := range []matrix.UserID{xenia, yuri} {
		p.accept(room, member(u, u, matrix.MembershipJoin), p.leaves(room)...)
	}
	levels := content("users", map[matrix.UserID]int{alice: 100, bob: 50, xenia: 50}, "events", map[string]int{typeTopic: 0})
	if v == "12" {
		levels = content("users", map[matrix.UserID]int{bob: 50, xenia: 50}, "events", map[string]int{typeTopic: 0})
	}
	return room, p.send(room, setting(alice, matrix.TypePowerLevels, "", levels))
}
