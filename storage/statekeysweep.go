package storage

import "fmt"

// looseKeysAtOnce bounds the memory of one pass over the keys.
const looseKeysAtOnce = 100_000

var (
	loosenKeys    = stmt(`INSERT INTO state_keys_loose (num) SELECT value FROM json_each(?) WHERE true ON CONFLICT (num) DO UPDATE SET again = 1`)
	looseKeys     = stmt(`SELECT num FROM state_keys_loose ORDER BY num LIMIT ?`)
	looseKeysSeen = stmt(`UPDATE state_keys_loose SET again = 0 WHERE again = 1`)
	deltasAfter   = stmt(`SELECT num, delta FROM state_snapshots WHERE num > ? ORDER BY num LIMIT ?`)
	forgetKeys    = stmt(`DELETE FROM state_keys WHERE num IN (SELECT value FROM json_each(?))`)
	tightenKeys   = stmt(`DELETE FROM state_keys_loose WHERE num IN (SELECT value FROM json_each(?1)) AND (again = 0 OR ?2)`)
)

// loosen notes that perhaps nothing names these keys any more.
func (t *Tx) loosen(keys []int64) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := t.exec(loosenKeys, numbers(keys))
	return err
}

// keySweep is one pass over all deltas in search of keys. It reads them in the
// order of their numbers, over many units: a delta that is new meanwhile, or
// that collection gives the entries of an older one, has a higher number.
type keySweep struct {
	loose map[int64]bool // not found yet
	found []int64
	after int64
}

// collect forgets keys that no snapshot names any more. It looks only
// for those that a deleted snapshot named, and only if there are any: then it
// reads all deltas, about limit in each unit.
func (k *keySweep) collect(t *Tx, limit int) (int, error) {
	n, err := k.step(t, limit)
	if err != nil {
		*k = keySweep{}
		return 0, fmt.Errorf("collect state keys: %w", err)
	}
	return n, nil
}

func (k *keySweep) step(t *Tx, limit int) (int, error) {
	if k.loose == nil {
		if err := k.begin(t); err != nil || len(k.loose) == 0 {
			k.loose = nil
			return 0, err
		}
	}
	more, err := k.read(t, limit)
	if err != nil || more {
		return limit, err
	}
	unused := make([]int64, 0, len(k.loose))
	for key := range k.loose {
		unused = append(unused, key)
	}
	found := k.found
	*k = keySweep{}
	if _, err := t.exec(forgetKeys, numbers(unused)); err != nil {
		return 0, err
	}
	if _, err := t.exec(tightenKeys, numbers(unused), true); err != nil {
		return 0, err
	}
	_, err = t.exec(tightenKeys, numbers(found), false)
	return 0, err
}

func (k *keySweep) begin(t *Tx) error {
	if _, err := t.exec(looseKeysSeen); err != nil {
		return err
	}
	rows, err := t.query(looseKeys, looseKeysAtOnce)
	if err != nil {
		return err
	}
	defer rows.Close()
	k.loose = map[int64]bool{}
	for rows.Next() {
		var key int64
		if err := rows.Scan(&key); err != nil {
			return err
		}
		k.loose[key] = true
	}
	return rows.Err()
}

// read strikes out the keys of further deltas; more: not all were read.
func (k *keySweep) read(t *Tx, limit int) (more bool, err error) {
	rows, err := t.query(deltasAfter, k.after, limit)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	bytes, n := 0, 0
	for rows.Next() {
		var delta []byte
		if err := rows.Scan(&k.after, &delta); err != nil {
			return false, err
		}
		err := scanDelta(delta, func(e stateEntry) bool {
			if k.loose[e.key] {
				delete(k.loose, e.key)
				k.found = append(k.found, e.key)
			}
			return true
		})
		if err != nil {
			return false, err
		}
		if bytes += len(delta); bytes > collectBytes {
			return true, nil
		}
		n++
	}
	return n == limit, rows.Err()
}
