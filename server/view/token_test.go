package view

import (
	"errors"
	"math"
	"strings"
	"testing"

	"hearth/storage"
)

var errSync = errors.New("no sync token")

func noSync(string) (int64, error) { return 0, errSync }

func TestToken(t *testing.T) {
	t.Parallel()
	e := storage.Event{Depth: 7, Pos: -3}
	for _, tok := range []Token{
		StreamToken(0), StreamToken(1 << 40), TokenBefore(e), TokenAfter(e), {Before: 9, Depth: 1, Pos: math.MinInt64},
		{Depth: math.MaxInt64, Pos: math.MaxInt64},
	} {
		got, err := ParseToken(tok.String(), noSync)
		if err != nil || got != tok {
			t.Errorf("%v: got %v, %v", tok, got, err)
		}
		if len(tok.String()) > maxTokenLength {
			t.Errorf("%v: %d bytes", tok, len(tok.String()))
		}
	}
	if got, err := ParseToken("s5", func(string) (int64, error) { return 5, nil }); err != nil || got != (Token{Before: 6}) {
		t.Errorf("sync token: got %v, %v", got, err)
	}
	good := TokenBefore(e).String()
	for _, bad := range []string{
		"", "t", "x" + good[1:], good[:len(good)-1], good + "A", good + "\n", "t" + strings.Repeat("A", 100), good[:3] + "!" + good[4:],
		Token{}.String(), Token{Before: -1}.String(), Token{Depth: -1, Pos: 1}.String(), Token{Before: 1, Pos: 1}.String(),
	} {
		if got, err := ParseToken(bad, noSync); err == nil {
			t.Errorf("%q: got %v", bad, got)
		}
	}
}

func TestTokenBeforeEvent(t *testing.T) {
	t.Parallel()
	e := storage.Event{Depth: 5, Pos: 50}
	for _, test := range []struct {
		tok  Token
		want bool
	}{
		{TokenBefore(e), true}, {TokenAfter(e), false}, {StreamToken(49), true}, {StreamToken(50), false},
		{Token{Depth: 4, Pos: 90}, true}, {Token{Depth: 6, Pos: 1}, false}, {Token{Before: 1, Depth: 4, Pos: 1}, true},
	} {
		if got := test.tok.BeforeEvent(e); got != test.want {
			t.Errorf("%v: got %v", test.tok, got)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(StreamToken(5).String())
	f.Add(Token{Before: 9, Depth: 8, Pos: -7}.String())
	f.Add("t")
	f.Add("AQAAAA")
	f.Fuzz(func(t *testing.T, s string) {
		tok, err := ParseToken(s, noSync)
		if err != nil {
			return
		}
		if again, err := ParseToken(tok.String(), noSync); err != nil || again != tok {
			t.Fatalf("%q is %v, and that is %v, %v", s, tok, again, err)
		}
		if tok.Before < 0 || tok.Depth < 0 || tok == (Token{}) {
			t.Fatalf("%q is no place: %v", s, tok)
		}
	})
}
