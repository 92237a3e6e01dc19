package room

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage"
	"hearth/storage/matrix"
)

// BenchmarkSend is one message sent, beside BenchmarkBare, the same row added
// by itself: each many times in one unit, so that COMMIT does not count.
func BenchmarkSend(b *testing.B) {
	w := newWorld(b)
	room := w.create(Creation{Creator: alice})
	b.Run("bare", func(b *testing.B) {
		other := w.create(Creation{Creator: alice})
		ev := w.send(other, message(alice, "hello"))
		w.write(func(tx *storage.Tx) error {
			for b.Loop() {
				t := matrix.Template{
					RoomID: other.ID, Type: "m.room.message", Sender: alice, OriginServerTS: int64(b.N),
					Content: content("body", tx.NextPos()), PrevEvents: []matrix.EventID{ev.ID()},
				}
				e, err := matrix.Build(other.Version, t, w.rooms.signer())
				if err != nil {
					return err
				}
				n := storage.NewEvent{Event: e, Place: storage.Untold, Depth: 10, Generation: 1, SoftFailed: true, StateBefore: other.State}
				if _, err := tx.AddEvent(other, n); err != nil {
					return err
				}
			}
			return nil
		})
	})
	b.Run("send", func(b *testing.B) { benchSend(b, w, room) })
	crowd := w.create(Creation{Creator: alice, PowerLevels: crowdLevels(1000)})
	b.Run("1000 users with power", func(b *testing.B) { benchSend(b, w, crowd) })
}

func benchSend(b *testing.B, w *world, room storage.Room) {
	err := w.store.Write(context.Background(), "bench", func(tx *storage.Tx) error {
		for b.Loop() {
			if _, err := w.rooms.Send(tx, room, message(alice, "hello")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// crowdLevels gives many users a power level.
func crowdLevels(n int) jsontext.Value {
	users := map[matrix.UserID]int{}
	for i := range n {
		users[matrix.NewUserID(fmt.Sprint("user", i), "elsewhere.example")] = 50
	}
	return content("users", users)
}

// BenchmarkReceive receives events of another server in a room of a thousand
// members: one after the other, and each as a fork of the state beside the
// current one, which has to be resolved.
func BenchmarkReceive(b *testing.B) {
	p := newWorld(b).peer()
	room, _ := p.shared("12")
	p.write(func(tx *storage.Tx) error {
		for i := range 1000 {
			key := matrix.NewUserID(fmt.Sprint("m", i), peerName)
			if _, err := p.rooms.Send(tx, room, member(key, key, matrix.MembershipJoin)); err != nil {
				return err
			}
		}
		return nil
	})
	receive := func(ev *matrix.Event) {
		if out, err := p.world.rooms.Receive(context.Background(), ev); err != nil || out.Reason != nil {
			b.Fatal(out, err)
		}
	}
	b.Run("line", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			ev := p.make(room, message(xenia, "hi"), p.leaves(room)...)
			b.StartTimer()
			receive(ev)
		}
	})
	b.Run("fork", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			root := p.send(room, message(bob, "root"))
			p.send(room, setting(alice, typeName, "", content("name", int64(root.Num))))
			ev := p.make(room, setting(xenia, typeTopic, "", content("topic", int64(root.Num))), root)
			b.StartTimer()
			receive(ev)
		}
	})
}
