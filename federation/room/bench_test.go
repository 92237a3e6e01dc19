package room

import (
	"context"
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
		users[matrix.UserID("@user"+string(rune('a'+i%26))+jsontext.Int(int64(i)).String()+":elsewhere.example")] = 50
	}
	return content("users", users)
}
