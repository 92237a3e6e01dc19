package storage_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"hearth/storage"
	"hearth/storage/storagetest"
)

// benchChain makes a room of 1,000 members, then changes of random ones, and
// returns the last state.
func benchChain(b *testing.B, s *storage.Store, members, changes int) (room storage.RoomNum, at storage.StateNum) {
	room = newRoom(b, s, "!a:test.example").Num
	r := rand.New(rand.NewPCG(1, 2))
	full := make([]storage.StateKeyed, members)
	for i := range full {
		full[i] = member(i, storage.EventNum(1+i))
	}
	within(b, s, func(tx *storage.Tx) (err error) {
		at, err = tx.StoreState(room, nil, full)
		return err
	})
	for done := 0; done < changes; {
		within(b, s, func(tx *storage.Tx) (err error) {
			for range min(500, changes-done) {
				done++
				if at, err = tx.ChildState(room, at, []storage.StateKeyed{member(r.IntN(members), storage.EventNum(members+done))}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return room, at
}

// BenchmarkStateRead reads states of a room of 1,000 members that were made by
// 10, 1,000 and 100,000 changes, turn by turn, so that all three meet the same
// machine: x is how much more the later ones cost.
func BenchmarkStateRead(b *testing.B) {
	lengths := []int{10, 1000, 100_000}
	stores, at := make([]*storage.Store, len(lengths)), make([]storage.StateNum, len(lengths))
	for i, n := range lengths {
		stores[i] = storagetest.Open(b)
		_, at[i] = benchChain(b, stores[i], 1000, n)
	}
	for name, op := range map[string]func(*storage.Rx, storage.StateNum, int) error{
		"StateEvent": func(rx *storage.Rx, at storage.StateNum, i int) error {
			_, err := rx.StateEvent(at, "m.room.member", fmt.Sprintf("@u%d:test.example", i%1000))
			return err
		},
		"State": func(rx *storage.Rx, at storage.StateNum, _ int) error {
			_, err := rx.State(at)
			return err
		},
		"StateNums": func(rx *storage.Rx, at storage.StateNum, _ int) error {
			_, err := rx.StateNums(at)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			took := make([]time.Duration, len(lengths))
			for round := 0; b.Loop(); round++ {
				for i, s := range stores {
					err := s.Read(context.Background(), "bench", func(rx *storage.Rx) error {
						began := time.Now()
						defer func() { took[i] += time.Since(began) }()
						for k := range 10 {
							if err := op(rx, at[i], 10*round+k); err != nil {
								return err
							}
						}
						return nil
					})
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			for i, n := range lengths {
				b.ReportMetric(float64(took[i].Microseconds())/float64(10*b.N), fmt.Sprintf("us/%d", n))
				b.ReportMetric(float64(took[i])/float64(took[0]), fmt.Sprintf("x/%d", n))
			}
		})
	}
}

// BenchmarkStateWrite makes children of a state of 1,000 members, and stores
// whole ones beside it.
func BenchmarkStateWrite(b *testing.B) {
	s := storagetest.Open(b)
	room, at := benchChain(b, s, 1000, 1000)
	event := storage.EventNum(1_000_000)
	b.Run("ChildState", func(b *testing.B) {
		within(b, s, func(tx *storage.Tx) (err error) {
			for i := 0; b.Loop(); i++ {
				event++
				if at, err = tx.ChildState(room, at, []storage.StateKeyed{member(i%1000, event)}); err != nil {
					return err
				}
			}
			return nil
		})
	})
	b.Run("StoreState", func(b *testing.B) {
		within(b, s, func(tx *storage.Tx) error {
			full, err := tx.State(at)
			for i := 0; err == nil && b.Loop(); i++ {
				event++
				full[i%len(full)].Event = event
				at, err = tx.StoreState(room, []storage.StateNum{at}, full)
			}
			return err
		})
	})
}
