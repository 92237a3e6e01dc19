package syncer

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTokenRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Token{
			Epoch:    rapid.Int64().Draw(t, "epoch"),
			Pos:      rapid.Int64Min(0).Draw(t, "pos"),
			ToDevice: rapid.Int64Min(0).Draw(t, "toDevice"),
			Device:   rapid.Int64().Draw(t, "device"),
			Live:     rapid.Int64Min(0).Draw(t, "live"),
			Boot:     rapid.Uint32().Draw(t, "boot"),
		}
		if rapid.Bool().Draw(t, "lost") {
			want.Pos, want.Lost = 0, true
		}
		s := want.String()
		got, err := ParseToken(s)
		if err != nil || got != want {
			t.Fatalf("%q: got %+v, %v, want %+v", s, got, err, want)
		}
		if len(s) > maxTokenLength {
			t.Fatalf("token of %d bytes", len(s))
		}
	})
}

// A token is short: a year of 100 positions a second still fits in 44 characters.
func TestTokenShort(t *testing.T) {
	t.Parallel()
	s := Token{Epoch: 1<<48 - 1, Pos: 3_000_000_000, ToDevice: 3_000_000_000, Device: 100_000, Live: 1 << 30, Boot: math.MaxUint32}.String()
	if len(s) > 44 {
		t.Fatalf("%q has %d characters", s, len(s))
	}
}

func TestTokenDamaged(t *testing.T) {
	t.Parallel()
	good := Token{Epoch: 1, Pos: 1000, ToDevice: 900, Device: 7, Live: 3, Boot: 42}.String()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := range len(good) {
		if _, err := ParseToken(good[:i]); err == nil {
			t.Errorf("cut to %d characters: accepted", i)
		}
		c := alphabet[(strings.IndexByte(alphabet, good[i])+1)%64]
		if _, err := ParseToken(good[:i] + string(c) + good[i+1:]); err == nil {
			t.Errorf("character %d changed: accepted", i)
		}
	}
	for _, s := range []string{"", "s72594_4483_1934", "\x00", good + "A", good + "\n", strings.Repeat("A", 1<<20), "%" + good} {
		if _, err := ParseToken(s); !errors.Is(err, errMalformed) {
			t.Errorf("%.20q: got %v, want malformed", s, err)
		}
	}
}

// sealed puts a right checksum behind b.
func sealed(b []byte) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

// Another format is told apart from damage: one is our own, of another release.
func TestTokenForeign(t *testing.T) {
	t.Parallel()
	if _, err := ParseToken(sealed([]byte{tokenVersion + 1, 1, 2, 3, 4})); !errors.Is(err, errForeign) {
		t.Errorf("another version: got %v, want foreign", err)
	}
	// Whole but impossible: negative positions, and bytes left over.
	if _, err := ParseToken(Token{Pos: 5, ToDevice: -1}.String()); !errors.Is(err, errMalformed) {
		t.Errorf("negative position: got %v, want malformed", err)
	}
	if _, err := ParseToken(sealed([]byte{tokenVersion, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0})); !errors.Is(err, errMalformed) {
		t.Errorf("bytes left over: got %v, want malformed", err)
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(Token{Epoch: 1, Pos: 1000, ToDevice: 900, Device: 7, Live: 3, Boot: 42}.String())
	f.Add(Token{}.String())
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		tok, err := ParseToken(s)
		if err != nil {
			return
		}
		if again, err := ParseToken(tok.String()); err != nil || again != tok {
			t.Fatalf("%+v became %+v, %v", tok, again, err)
		}
	})
}
