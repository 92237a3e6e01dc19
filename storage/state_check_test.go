package storage_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"hearth/storage"
	"hearth/storage/storagetest"
)

// TestCheckStates breaks states in each way that Check knows, behind the
// store's back.
func TestCheckStates(t *testing.T) {
	t.Parallel()
	for want, sql := range map[string]string{
		"":                                        "SELECT 1",
		"hashes to":                               "UPDATE state_snapshots SET hash = hash + 1 WHERE num = 3",
		"have a base that is not there":           "UPDATE state_snapshots SET base = 99 WHERE num = 3",
		"at depth 3 stands on 2":                  "UPDATE state_snapshots SET depth = 5 WHERE num = 2",
		"of room 2 at depth":                      "UPDATE state_snapshots SET room = 2 WHERE num = 3",
		"event 1 has a state that is not there":   "UPDATE events SET state_before = 99 WHERE num = 1",
		"room 1 has a state that is not there":    "UPDATE rooms SET state = 99 WHERE num = 1",
		"the state history of room 1 has a state": "UPDATE room_states SET state = 99 WHERE room = 1",
		"state 3 is of no room":                   "UPDATE state_snapshots SET room = 99 WHERE num = 3",
		"state 3 is of another room than what refers to it": "UPDATE state_snapshots SET room = 2 WHERE num = 3",
		"cannot be decoded":                           "UPDATE state_snapshots SET delta = x'0501' WHERE num = 3",
		"names key 2, which is not there":             "DELETE FROM state_keys WHERE num = 2",
		"state 4 has been forgotten by collection":    "DELETE FROM state_loose",
		"state 5 is stored twice":                     "INSERT INTO state_snapshots SELECT 5, room, base, depth, hash, delta FROM state_snapshots WHERE num = 3",
		"hashes to 0":                                 "UPDATE state_snapshots SET delta = x'00' WHERE num = 1",
		"2 of 4 states have a base that is not there": "UPDATE state_snapshots SET base = 3 WHERE num = 2",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s := storagetest.Open(t)
			room := newRoom(t, s, "!a:test.example")
			newRoom(t, s, "!b:test.example")
			within(t, s, func(tx *storage.Tx) error {
				at := storage.StateNum(0)
				for n := 1; n <= 4; n++ {
					next, err := tx.ChildState(room.Num, at, []storage.StateKeyed{{Type: "m.room.topic", StateKey: strings.Repeat("x", n), Event: storage.EventNum(n)}})
					if err != nil {
						return err
					}
					if n < 4 {
						if err := tx.Refer(room.Num, n, next); err != nil {
							return err
						}
						if _, err := tx.SetCurrentState(room, next, tx.NextPos()); err != nil {
							return err
						}
						room.State, at = next, next
					}
				}
				return nil
			})
			storage.EditRaw(t, s.Path(), sql)
			found := s.Check(context.Background())
			if ok := slices.ContainsFunc(found, func(p storage.Problem) bool { return strings.Contains(string(p), want) }); want == "" && len(found) > 0 || want != "" && !ok {
				t.Errorf("found %q, want %q", found, want)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
