package storage_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"hearth/storage"
	"hearth/storage/storagetest"
)

// stateSizes are what the snapshots of a file take.
type stateSizes struct{ snapshots, bytes, largest, depth, table, indexes int64 }

func sizesOf(t testing.TB, s *storage.Store) (z stateSizes) {
	t.Helper()
	within(t, s, func(tx *storage.Tx) (err error) {
		if z.snapshots, z.bytes, z.largest, z.depth, err = tx.StateSizes(); err != nil {
			return err
		}
		if z.table, err = tx.TableBytes("state_snapshots"); err != nil {
			return err
		}
		for _, index := range []string{"state_same", "state_children"} {
			n, err := tx.TableBytes(index)
			if err != nil {
				return err
			}
			z.indexes += n
		}
		return nil
	})
	return z
}

// TestStateSize is the claim of the design: n changes of the state of a room
// take O(n log n), whatever the number of members and however it forks.
func TestStateSize(t *testing.T) {
	t.Parallel()
	const members, changes = 1000, 2000
	for name, fork := range map[string]int{"one line": 0, "a fork every ten": 10, "forks everywhere": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storagetest.Open(t)
			room := newRoom(t, s, "!a:test.example").Num
			r := rand.New(rand.NewPCG(1, 2))
			event, made, last := storage.EventNum(0), 0, make([]storage.EventNum, members)
			child := func(tx *storage.Tx, parent storage.StateNum, who int) storage.StateNum {
				event++
				last[who] = event
				n, err := tx.ChildState(room, parent, []storage.StateKeyed{member(who, event)})
				if err != nil {
					t.Fatal(err)
				}
				if made++; made%64 == 0 {
					if hops, err := tx.StateHops(n); err != nil || hops > 14 {
						t.Errorf("state %d is %d hops away, %v", n, hops, err)
					}
				}
				return n
			}
			at := storage.StateNum(0)
			within(t, s, func(tx *storage.Tx) error {
				for i := range members {
					at = child(tx, at, i)
				}
				return nil
			})
			before := sizesOf(t, s)
			step := func(tx *storage.Tx, i int) {
				who := r.IntN(members)
				if fork == 0 || i%fork > 0 {
					at = child(tx, at, who)
					return
				}
				a, b := child(tx, at, who), child(tx, at, (who+1)%members)
				full := make([]storage.StateKeyed, members)
				for who, e := range last {
					full[who] = member(who, e)
				}
				var err error
				if at, err = tx.StoreState(room, []storage.StateNum{a, b}, full); err != nil {
					t.Fatal(err)
				}
			}
			for i := 0; made < members+changes; {
				within(t, s, func(tx *storage.Tx) error {
					for range 100 {
						step(tx, i)
						i++
					}
					return nil
				})
			}
			z := sizesOf(t, s)
			n := float64(z.snapshots)
			t.Logf("%d members, then %d changes: %d snapshots of depth %d; deltas %d bytes, %.0f each, the largest %d; with rows and indexes %.0f each; the changes alone %.0f each",
				members, changes, z.snapshots, z.depth, z.bytes, float64(z.bytes)/n, z.largest, float64(z.table+z.indexes)/n,
				float64(z.bytes-before.bytes)/float64(z.snapshots-before.snapshots))
			// An entry takes 5 bytes here; a delta of a line of n holds log2(n) / 2
			// of them on average.
			if limit := 5 * n * math.Log2(n) / 2; float64(z.bytes) > 1.25*limit {
				t.Errorf("deltas take %d bytes, want about %.0f", z.bytes, limit)
			}
		})
	}
}

// TestStateSizeOfBranches has many branches begin where a delta is due that
// holds nearly everything.
func TestStateSizeOfBranches(t *testing.T) {
	t.Parallel()
	const members, branches = 1023, 500
	s := storagetest.Open(t)
	room := newRoom(t, s, "!a:test.example").Num
	event := storage.EventNum(0)
	within(t, s, func(tx *storage.Tx) error {
		at := storage.StateNum(0)
		child := func(parent storage.StateNum, who int) storage.StateNum {
			event++
			n, err := tx.ChildState(room, parent, []storage.StateKeyed{member(who, event)})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		for i := range members {
			at = child(at, i)
		}
		_, before, _, _, err := tx.StateSizes()
		if err != nil {
			return err
		}
		for i := range branches {
			n := child(at, i)
			n = child(n, i+1)
			child(n, i+2)
		}
		_, after, _, _, err := tx.StateSizes()
		each := float64(after-before) / branches / 3
		t.Logf("%d branches of 3 changes after %d: %.0f bytes of delta a change", branches, members, each)
		if each > 40 {
			t.Errorf("a change takes %.0f bytes", each)
		}
		return err
	})
}
