package storage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
)

// stateEntry is one key of a room's state, by number. In a delta event 0 says
// that the key is not there.
type stateEntry struct {
	key   int64
	event EventNum
}

var errBadDelta = errors.New("storage: a state delta cannot be decoded")

// encodeDelta writes entries, which are sorted by key: their count, then for
// each the distance from the key before and the event, all as varints.
func encodeDelta(entries []stateEntry) []byte {
	b := binary.AppendUvarint(make([]byte, 0, 4+5*len(entries)), uint64(len(entries)))
	last := int64(0)
	for _, e := range entries {
		b = binary.AppendUvarint(b, uint64(e.key-last))
		b = binary.AppendUvarint(b, uint64(e.event))
		last = e.key
	}
	return b
}

// varint reads the number at b[i:]; next 0: there is none.
func varint(b []byte, i int) (v uint64, next int) {
	v, n := binary.Uvarint(b[i:])
	if n <= 0 {
		return 0, 0
	}
	return v, i + n
}

// scanDelta calls fn with every entry until it returns false. It is what each
// look-up of a key spends its time in, hence the short numbers by hand.
func scanDelta(b []byte, fn func(stateEntry) bool) error {
	left, i := varint(b, 0)
	if i == 0 {
		return errBadDelta
	}
	key := int64(0)
	for ; left > 0; left-- {
		var gap, event uint64
		if i+1 < len(b) && b[i] < 0x80 {
			gap, i = uint64(b[i]), i+1
		} else if gap, i = varint(b, i); i == 0 {
			return errBadDelta
		}
		if i+1 < len(b) && b[i] >= 0x80 && b[i+1] < 0x80 {
			event, i = uint64(b[i]&0x7f)|uint64(b[i+1])<<7, i+2
		} else if event, i = varint(b, i); i == 0 {
			return errBadDelta
		}
		next := key + int64(gap)
		if next <= key || int64(event) < 0 {
			return errBadDelta
		}
		if key = next; !fn(stateEntry{key, EventNum(event)}) {
			return nil
		}
	}
	if i != len(b) {
		return errBadDelta
	}
	return nil
}

func decodeDelta(b []byte) ([]stateEntry, error) {
	entries := make([]stateEntry, 0, len(b)/4+1)
	err := scanDelta(b, func(e stateEntry) bool {
		entries = append(entries, e)
		return true
	})
	return entries, err
}

// findInDelta looks up one key without decoding what follows it.
func findInDelta(b []byte, key int64) (event EventNum, found bool, err error) {
	err = scanDelta(b, func(e stateEntry) bool {
		if e.key == key {
			event, found = e.event, true
		}
		return e.key < key
	})
	return event, found, err
}

// overlay is older with newer on top; both sorted by key.
func overlay(newer, older []stateEntry) []stateEntry {
	if len(newer) == 0 {
		return older
	}
	out := make([]stateEntry, 0, len(newer)+len(older))
	for len(newer) > 0 && len(older) > 0 {
		switch {
		case older[0].key < newer[0].key:
			out, older = append(out, older[0]), older[1:]
		case older[0].key == newer[0].key:
			older = older[1:]
		default:
			out, newer = append(out, newer[0]), newer[1:]
		}
	}
	return append(append(out, newer...), older...)
}

// withoutRemoved leaves out the entries that say a key is not there, in place.
func withoutRemoved(entries []stateEntry) []stateEntry {
	return slices.DeleteFunc(entries, func(e stateEntry) bool { return e.event == 0 })
}

// diffEntries lists what must change to make b of a: both whole states, or
// both deltas against the same base of which was gives the entries.
func diffEntries(a, b []stateEntry, was func(key int64) (EventNum, error)) ([]stateEntry, error) {
	var out []stateEntry
	add := func(key int64, from, to EventNum) {
		if from != to {
			out = append(out, stateEntry{key, to})
		}
	}
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].key < b[0].key:
			to, err := was(a[0].key)
			if err != nil {
				return nil, err
			}
			add(a[0].key, a[0].event, to)
			a = a[1:]
		case len(a) == 0 || b[0].key < a[0].key:
			from, err := was(b[0].key)
			if err != nil {
				return nil, err
			}
			add(b[0].key, from, b[0].event)
			b = b[1:]
		default:
			add(a[0].key, a[0].event, b[0].event)
			a, b = a[1:], b[1:]
		}
	}
	return out, nil
}

// nothing is what the empty state has for each key.
func nothing(int64) (EventNum, error) { return 0, nil }

// sortedEntries sorts by key; of several with one key the last stays.
func sortedEntries(entries []stateEntry) []stateEntry {
	slices.SortStableFunc(entries, func(a, b stateEntry) int { return cmp.Compare(a.key, b.key) })
	out := entries[:0]
	for i, e := range entries {
		if i+1 == len(entries) || entries[i+1].key != e.key {
			out = append(out, e)
		}
	}
	return out
}

// hashOf is the part of one entry in the hash of a state, which is their sum
// modulo 2^64: a change costs two of these, whatever the size of the state.
// Equal hashes are only a hint, so nothing depends on its strength.
func hashOf(e stateEntry) int64 {
	if e.event == 0 {
		return 0
	}
	return int64(mix(mix(uint64(e.key)) ^ uint64(e.event)))
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func hashOfAll(entries []stateEntry) (hash int64) {
	for _, e := range entries {
		hash += hashOf(e)
	}
	return hash
}
