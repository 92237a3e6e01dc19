package storage

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomDelta draws numbers of every length that a varint has.
func randomDelta(r *rand.Rand) (entries []stateEntry) {
	key := int64(0)
	for range r.IntN(40) {
		key += 1 + r.Int64N(1<<r.IntN(50))
		entries = append(entries, stateEntry{key, EventNum(r.Int64N(1 << r.IntN(62)))})
	}
	return entries
}

func TestDeltaRoundTrip(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		entries := randomDelta(r)
		b := encodeDelta(entries)
		if got, err := decodeDelta(b); err != nil || !slices.Equal(got, entries) {
			t.Fatalf("%v becomes %v, %v", entries, got, err)
		}
		for _, e := range entries {
			if event, found, err := findInDelta(b, e.key); event != e.event || !found || err != nil {
				t.Fatalf("%v in %v: %d, %v, %v", e, entries, event, found, err)
			}
			if _, found, err := findInDelta(b, e.key+1); err != nil || found != slices.ContainsFunc(entries, func(o stateEntry) bool { return o.key == e.key+1 }) {
				t.Fatalf("%d in %v: %v, %v", e.key+1, entries, found, err)
			}
		}
		for cut := range b {
			if got, err := decodeDelta(b[:cut]); err == nil {
				t.Fatalf("the first %d of %d bytes are %v", cut, len(b), got)
			}
		}
		if got, err := decodeDelta(append(b, 0)); err == nil {
			t.Fatalf("with a byte more it is %v", got)
		}
	}
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	draw := func() []stateEntry {
		m := map[int64]EventNum{}
		for range r.IntN(8) {
			m[1+r.Int64N(9)] = EventNum(r.IntN(4))
		}
		return fromMap(m)
	}
	for range 5000 {
		newer, older := draw(), draw()
		want := map[int64]EventNum{}
		for _, e := range slices.Concat(older, newer) {
			want[e.key] = e.event
		}
		if got := overlay(newer, older); !slices.Equal(got, fromMap(want)) {
			t.Fatalf("%v on %v is %v", newer, older, got)
		}
	}
}

func fromMap(m map[int64]EventNum) (entries []stateEntry) {
	for k, e := range m {
		entries = append(entries, stateEntry{k, e})
	}
	return sortedEntries(entries)
}

// FuzzDelta reads bytes that nobody wrote: there is an error or a delta that
// encodes to what was read.
func FuzzDelta(f *testing.F) {
	f.Add([]byte{0})
	f.Add(encodeDelta([]stateEntry{{1, 5}, {2, 300}, {400, 70000}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := decodeDelta(b)
		if err != nil {
			return
		}
		again, err := decodeDelta(encodeDelta(entries))
		if err != nil || !slices.Equal(again, entries) {
			t.Errorf("%v becomes %v, %v", entries, again, err)
		}
		if e := encodeDelta(entries); len(e) > len(b) || len(e) == len(b) && !bytes.Equal(e, b) {
			t.Errorf("%x was written shorter than %x", b, e)
		}
	})
}
