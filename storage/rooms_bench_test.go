package storage_test

import (
	"fmt"
	"testing"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// BenchmarkSendMessage is one message in a unit of its own; so is, as a
// measure, a unit that writes one row.
func BenchmarkSendMessage(b *testing.B) {
	s := storagetest.Open(b)
	r := newRoomTest(b, s, "11")
	b.Run("message", func(b *testing.B) {
		for b.Loop() {
			within(b, s, func(tx *storage.Tx) error {
				_, err := r.sendIn(tx, "m.room.message", nil, alice, `{"body":"a message of some length, as people write","msgtype":"m.text"}`)
				return err
			})
		}
	})
	b.Run("messages by 100", func(b *testing.B) {
		for n := 0; n < b.N; n += 100 {
			within(b, s, func(tx *storage.Tx) error {
				for range 100 {
					if _, err := r.sendIn(tx, "m.room.message", nil, alice, `{"body":"a message of some length, as people write","msgtype":"m.text"}`); err != nil {
						return err
					}
				}
				return nil
			})
		}
	})
	b.Run("build", func(b *testing.B) {
		parents := []storage.Event{r.message(alice, "x")}
		for b.Loop() {
			r.draft("m.room.message", nil, alice, `{"body":"a message of some length, as people write","msgtype":"m.text"}`, parents)
		}
	})
	n := int64(0)
	b.Run("one row", func(b *testing.B) {
		for b.Loop() {
			n++
			put(b, s, n)
		}
	})
}

// largeRoom is a room with so many members who joined at once, as a join of a
// room of another server brings them.
func largeRoom(b *testing.B, s *storage.Store, members int) *roomTest {
	b.Helper()
	r := newRoomTest(b, s, "11")
	var list []storage.StateKeyed
	for n := 0; n < members; {
		within(b, s, func(tx *storage.Tx) error {
			room := must[storage.Room](b)(tx.RoomByNum(r.num))
			for range 1000 {
				user := fmt.Sprintf("@u%d:server%d.example", n, n%100)
				e := r.draft(matrix.TypeMember, &user, matrix.UserID(user), `{"membership":"join","displayname":"Somebody"}`, nil)
				stored, err := tx.AddEvent(room, storage.NewEvent{Event: e, Outlier: true})
				if err != nil {
					return err
				}
				list = append(list, storage.StateKeyed{Type: matrix.TypeMember, StateKey: user, Event: stored.Num})
				n++
			}
			return nil
		})
	}
	within(b, s, func(tx *storage.Tx) error {
		room := must[storage.Room](b)(tx.RoomByNum(r.num))
		next := must[storage.StateNum](b)(tx.ChildState(r.num, room.State, list))
		_, err := tx.SetCurrentState(room, next, tx.NextPos())
		return err
	})
	return r
}

// BenchmarkSetCurrentState is a join of a room of 10,000, and what follows in it.
func BenchmarkLargeRoom(b *testing.B) {
	s := storagetest.Open(b)
	r := largeRoom(b, s, 10_000)
	var full, one storage.StateNum
	within(b, s, func(tx *storage.Tx) (err error) {
		room := must[storage.Room](b)(tx.RoomByNum(r.num))
		full = room.State
		one = must[storage.StateNum](b)(tx.CurrentStateAt(r.num, room.LatestPos-1))
		return nil
	})
	b.Run("move 10000 members", func(b *testing.B) {
		to := one
		for b.Loop() {
			within(b, s, func(tx *storage.Tx) error {
				room := must[storage.Room](b)(tx.RoomByNum(r.num))
				changes, err := tx.SetCurrentState(room, to, tx.NextPos())
				if len(changes) != 10_000 {
					b.Errorf("%d changes", len(changes))
				}
				return err
			})
			to = full + one - to
		}
	})
	within(b, s, func(tx *storage.Tx) error {
		room := must[storage.Room](b)(tx.RoomByNum(r.num))
		_, err := tx.SetCurrentState(room, full, tx.NextPos())
		return err
	})
	b.Run("one more member", func(b *testing.B) {
		for b.Loop() {
			r.member(bob, bob, "join")
		}
	})
	reads := func(name string, fn func(*storage.Rx) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.read(fn)
			}
		})
	}
	reads("members", func(rx *storage.Rx) error { _, err := rx.Members(r.num, "join", "", -1); return err })
	reads("member events", func(rx *storage.Rx) error { _, err := rx.CurrentStateOf(r.num, matrix.TypeMember); return err })
	reads("joined servers", func(rx *storage.Rx) error { _, err := rx.JoinedServers(r.num); return err })
	reads("heroes", func(rx *storage.Rx) error { _, err := rx.Heroes(r.num, alice, 5); return err })
}

// BenchmarkManyRooms looks for news of a user in 2,000 rooms, of which 3 have some.
func BenchmarkManyRooms(b *testing.B) {
	for _, n := range []int{10, 500, 2000} {
		s := storagetest.Open(b)
		rooms := make([]*roomTest, n)
		for i := range rooms {
			rooms[i] = newRoomTest(b, s, "11")
		}
		since := s.Pos()
		for i := range 3 {
			rooms[i].message(alice, "news")
		}
		b.Run(fmt.Sprint("news in 3 of ", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rooms[0].read(func(rx *storage.Rx) error {
					list, err := rx.RoomsWithNews(alice, since)
					if len(list) != 3 {
						b.Errorf("%d rooms", len(list))
					}
					return err
				})
			}
		})
		b.Run(fmt.Sprint("list of ", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rooms[0].read(func(rx *storage.Rx) error { _, err := rx.RoomsIn(alice, "join"); return err })
			}
		})
	}
}

// BenchmarkTimeline pages back in a room of 100,000.
func BenchmarkTimeline(b *testing.B) {
	s := storagetest.Open(b)
	r := newRoomTest(b, s, "11")
	const total = 100_000
	for n := 0; n < total; n += 1000 {
		within(b, s, func(tx *storage.Tx) error {
			for range 1000 {
				if _, err := r.sendIn(tx, "m.room.message", nil, alice, `{"body":"a message of some length, as people write","msgtype":"m.text"}`); err != nil {
					return err
				}
			}
			return nil
		})
	}
	b.Logf("%s bytes, %d events", s.Texts(b, `SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`), total)
	b.Log(s.Texts(b, `SELECT name || ' ' || sum(pgsize) FROM dbstat GROUP BY name ORDER BY sum(pgsize) DESC LIMIT 12`))
	page := func(name string, from storage.Cursor, limit int) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.read(func(rx *storage.Rx) error {
					events, _, err := rx.Timeline(r.num, from, true, limit)
					if len(events) != limit {
						b.Errorf("%d events", len(events))
					}
					return err
				})
			}
		})
	}
	page("the last 100", storage.Cursor{}, 100)
	page("100 from the middle", storage.Cursor{Depth: total / 2, Pos: 1}, 100)
	page("1000", storage.Cursor{}, 1000)
	page("100 before an old position", storage.Cursor{Before: 10_000}, 100)
	b.Run("news of 20", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.read(func(rx *storage.Rx) error { _, _, err := rx.RoomNews(r.num, 0, rx.Pos(), 20); return err })
		}
	})
	b.Run("one event", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.read(func(rx *storage.Rx) error { _, err := rx.EventByNum(50_000); return err })
		}
	})
}
