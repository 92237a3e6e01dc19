package view

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"

	"hearth/storage"
)

// Token is a place between two events of a room's timeline, which clients page
// from and to. Which two depends on how events are ordered:
//
// With Depth and Pos it lies before the event there in topological order; going
// backwards, nothing that came at position Before or later is met (0: all is).
// With Before alone it lies before the event at that position of the stream,
// which is the order of /sync. The zero Token is no place.
type Token storage.Cursor

// StreamToken lies after everything up to a position of the stream.
func StreamToken(upto int64) Token { return Token{Before: upto + 1} }

// TokenBefore lies before an event, in topological order.
func TokenBefore(e storage.Event) Token { return Token{Depth: e.Depth, Pos: e.Pos} }

// TokenAfter lies after an event, in topological order.
func TokenAfter(e storage.Event) Token { return Token{Depth: e.Depth, Pos: e.Pos + 1} }

// InStream tells whether the place is one of the stream.
func (t Token) InStream() bool { return t.Depth == 0 && t.Pos == 0 }

// BeforeEvent tells whether the place lies before an event.
func (t Token) BeforeEvent(e storage.Event) bool {
	switch {
	case t.InStream():
		return e.Pos >= t.Before
	case e.Depth != t.Depth:
		return e.Depth > t.Depth
	default:
		return e.Pos >= t.Pos
	}
}

const (
	tokenMark    = 't' // no sync token begins with it
	tokenVersion = 1
	// maxTokenLength bounds what is decoded, in bytes: version, three varints
	// and a checksum need less.
	maxTokenLength = 64
)

var errToken = errors.New("not a token of this server")

// String encodes the place. The checksum finds tokens that were cut or mistyped;
// forging one gains nothing, as it says nothing of what may be seen.
func (t Token) String() string {
	b := make([]byte, 0, 36)
	b = append(b, tokenVersion)
	for _, n := range [...]int64{t.Before, t.Depth, t.Pos} {
		b = binary.AppendVarint(b, n)
	}
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return string(tokenMark) + base64.RawURLEncoding.EncodeToString(b)
}

// ParseToken decodes what [Token.String] made. A token of another kind goes to
// sync, which tells the position of a sync token: up to there the client was
// told everything.
func ParseToken(s string, sync func(string) (int64, error)) (Token, error) {
	text, ok := strings.CutPrefix(s, string(tokenMark))
	if !ok {
		pos, err := sync(s)
		if err != nil {
			return Token{}, err
		}
		return StreamToken(pos), nil
	}
	if len(s) > maxTokenLength || strings.ContainsAny(s, "\r\n") { // the decoder skips line ends
		return Token{}, errToken
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 5 {
		return Token{}, errToken
	}
	b, sum := b[:len(b)-4], b[len(b)-4:]
	if crc32.ChecksumIEEE(b) != binary.BigEndian.Uint32(sum) || b[0] != tokenVersion {
		return Token{}, errToken
	}
	b = b[1:]
	var t Token
	for _, n := range [...]*int64{&t.Before, &t.Depth, &t.Pos} {
		size := 0
		if *n, size = binary.Varint(b); size <= 0 {
			return Token{}, errToken
		}
		b = b[size:]
	}
	if len(b) != 0 || t.Before < 0 || t.Depth < 0 || t.Depth == 0 && (t.Pos != 0 || t.Before == 0) {
		return Token{}, errToken
	}
	return t, nil
}
