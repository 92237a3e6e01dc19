package storage_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

func woken(s *storage.Subscription) bool {
	select {
	case <-s.C():
		return true
	default:
		return false
	}
}

func ended(s *storage.Subscription) bool {
	select {
	case <-s.Ended():
		return true
	default:
		return false
	}
}

// TestNewsReachWhomTheyConcern opens and closes subscriptions in random order
// and compares each announcement with a plain search of all of them.
func TestNewsReachWhomTheyConcern(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	room := func() matrix.RoomID { return matrix.RoomID(fmt.Sprint("!", rnd.IntN(8), ":x")) }
	type waiter struct {
		sub *storage.Subscription
		in  storage.Interest
	}
	var open []waiter
	for range storagetest.Scale(3000) {
		switch k := rnd.IntN(4); {
		case k < 2 && len(open) < 60:
			in := storage.Interest{Device: rnd.Int64N(10), User: rnd.Int64N(6)}
			for range rnd.IntN(4) {
				in.Rooms = append(in.Rooms, room())
			}
			open = append(open, waiter{s.Subscribe(in), in})
		case k == 2 && len(open) > 0:
			i := rnd.IntN(len(open))
			open[i].sub.Close()
			open[i].sub.Close() // twice is allowed
			open = append(open[:i], open[i+1:]...)
		default:
			n := storage.News{Devices: []int64{1 + rnd.Int64N(9)}, Users: []int64{1 + rnd.Int64N(5)}, Rooms: []matrix.RoomID{room()}}
			s.Announce(n)
			s.Announce(n) // wake-ups do not pile up
			for _, w := range open {
				want := w.in.Device == n.Devices[0] || w.in.User == n.Users[0]
				for _, r := range w.in.Rooms {
					want = want || r == n.Rooms[0]
				}
				if woken(w.sub) != want || woken(w.sub) {
					t.Fatalf("%+v: woken is not %v by %+v", w.in, want, n)
				}
			}
		}
	}
	for _, w := range open {
		w.sub.Close()
	}
	if st := s.Stats(); st.Waiters != 0 || s.Topics() != 0 {
		t.Errorf("%d waiters and %d topics are left", st.Waiters, s.Topics())
	}
}

func TestEndedDevice(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	gone := s.Subscribe(storage.Interest{Device: 1, User: 9})
	other := s.Subscribe(storage.Interest{Device: 2, User: 9})
	s.Announce(storage.News{Ended: []int64{1}})
	s.Announce(storage.News{Ended: []int64{1}})
	if !ended(gone) || ended(other) || woken(other) {
		t.Error("the wrong poll ended")
	}
	gone.Close()
	other.Close()
}

// TestNoWakeUpIsLost has readers that subscribe, read and wait, beside writers:
// a reader must see the last row without looking a second time on its own.
func TestNoWakeUpIsLost(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	rows := int64(storagetest.Scale(100))
	var wg sync.WaitGroup
	for d := range int64(8) {
		wg.Go(func() {
			for seen := int64(0); seen < rows; {
				sub := s.Subscribe(storage.Interest{Device: 1, User: 100 + d})
				var n, pos int64
				err := s.Read(context.Background(), "look", func(rx *storage.Rx) (err error) {
					pos = rx.Pos()
					n, err = rx.Count()
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.WaitPos(context.Background(), pos); err != nil || s.Pos() < pos {
					t.Errorf("published %d, snapshot %d, %v", s.Pos(), pos, err)
				}
				if n == seen {
					<-sub.C()
				}
				seen = n
				sub.Close()
			}
		})
	}
	for i := range rows {
		err := s.Write(context.Background(), "put", func(tx *storage.Tx) error {
			tx.NextPos()
			tx.News(storage.News{Devices: []int64{1}})
			return tx.Put(i, "v")
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

// BenchmarkAnnounce wakes one of many idle waiters; its cost must not depend on
// their number, and their memory is reported.
func BenchmarkAnnounce(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n, " idle"), func(b *testing.B) {
			s := storagetest.Open(b)
			rooms := []matrix.RoomID{"!a:x", "!b:x", "!c:x"}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			subs := make([]*storage.Subscription, n)
			for i := range subs {
				subs[i] = s.Subscribe(storage.Interest{Device: int64(i + 1), User: int64(i/2 + 1), Rooms: rooms})
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			for b.Loop() {
				s.Announce(storage.News{Devices: []int64{7}})
				<-subs[6].C()
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/waiter")
			for _, sub := range subs {
				sub.Close()
			}
		})
	}
}
