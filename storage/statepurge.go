package storage

import "fmt"

var (
	roomUsesState = stmt(`SELECT EXISTS (SELECT 1 FROM rooms WHERE num = ?1 AND purging = 0)
		OR EXISTS (SELECT 1 FROM events WHERE room = ?1 AND pos <> 0)
		OR EXISTS (SELECT 1 FROM events WHERE room = ?1 AND pos = 0)
		OR EXISTS (SELECT 1 FROM room_states WHERE room = ?1)`)
	roomSnapshots = stmt(`SELECT num FROM state_snapshots WHERE room = ? LIMIT ?`)
	dropLooseIn   = stmt(`DELETE FROM state_loose WHERE num IN (SELECT value FROM json_each(?))`)
	dropSnapshots = stmt(`DELETE FROM state_snapshots WHERE num IN (SELECT value FROM json_each(?))`)
)

// PurgeState deletes up to limit snapshots of a room that is being purged and
// whose events and state history are gone, and returns how many; fewer than
// limit: none are left. They go in no order, so that of what is left some
// cannot be read.
func (t *Tx) PurgeState(room RoomNum, limit int) (int, error) {
	var used bool
	if err := t.row(roomUsesState, []any{int64(room)}, &used); err != nil {
		return 0, fmt.Errorf("purge state: %w", err)
	}
	if used {
		return 0, fmt.Errorf("purge state: room %d still has events, or is not being purged", room)
	}
	n, err := t.purgeState(room, limit)
	if err != nil {
		return 0, fmt.Errorf("purge state of room %d: %w", room, err)
	}
	return n, nil
}

func (t *Tx) purgeState(room RoomNum, limit int) (int, error) {
	list, err := t.stateList(roomSnapshots, int64(room), limit)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	keys := map[int64]bool{}
	nums := make([]int64, len(list))
	for i, s := range list {
		nums[i] = int64(s)
		snap, err := t.snapshot(s)
		if err != nil {
			return 0, err
		}
		err = scanDelta(snap.delta, func(e stateEntry) bool {
			keys[e.key] = true
			return true
		})
		if err != nil {
			return 0, err
		}
	}
	loose := make([]int64, 0, len(keys))
	for k := range keys {
		loose = append(loose, k)
	}
	if err := t.loosen(loose); err != nil {
		return 0, err
	}
	if _, err := t.exec(dropLooseIn, numbers(nums)); err != nil {
		return 0, err
	}
	_, err = t.exec(dropSnapshots, numbers(nums))
	return len(list), err
}
