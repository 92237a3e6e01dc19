package syncer

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
)

// tokenVersion is the format of the tokens made here. A token of another
// format is well-formed but not understood, and is answered by a full sync.
const tokenVersion = 3

// maxTokenLength bounds what is decoded of a since parameter, in bytes. Six
// varints, the version, the nonce and the checksum need far less.
const maxTokenLength = 128

// lostPos stands for a position of nothing where [Token].Lost is set.
const lostPos = -1

// Token says what a client has been told: what its next /sync continues from.
// To clients it is opaque. The zero Token is "nothing yet".
type Token struct {
	Epoch    int64  // the history of the file it was made in
	Pos      int64  // durable streams were told up to here; 0: nothing but to-device messages
	ToDevice int64  // to-device messages were told up to here
	Device   int64  // the device incarnation it was made for
	Live     int64  // streams that die with the process were told up to here
	Answer   int64  // which answer to a client that loads members lazily it came with last; 0: none
	Boot     uint32 // the process whose Live and Answer they are
	// Lost: the client has a history that cannot be continued, and was told
	// nothing since, Pos being 0, but to-device messages. The next response has
	// to tell that there is a gap in every room.
	Lost bool
}

var (
	errMalformed = errors.New("not a sync token")
	errForeign   = errors.New("a token of another format")
)

// String encodes the token: version, varints, nonce and a checksum, in URL-safe
// base64. The checksum finds tokens that were cut or mistyped; it is no
// protection against forgery, which could only harm the forger's own device.
func (t Token) String() string {
	b := make([]byte, 0, 48)
	b = append(b, tokenVersion)
	pos := t.Pos
	if t.Lost {
		pos = lostPos
	}
	for _, v := range []int64{t.Epoch, pos, t.ToDevice - t.Pos, t.Device, t.Live, t.Answer} {
		b = binary.AppendVarint(b, v)
	}
	b = binary.BigEndian.AppendUint32(b, t.Boot)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseToken decodes what [Token.String] made. Only the form is checked; see
// (*Syncer).trust for what a token is good for.
func ParseToken(s string) (Token, error) {
	if len(s) > maxTokenLength || strings.ContainsAny(s, "\r\n") { // the decoder skips line ends
		return Token{}, errMalformed
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) < 9 {
		return Token{}, errMalformed
	}
	b, sum := b[:len(b)-4], b[len(b)-4:]
	if crc32.ChecksumIEEE(b) != binary.BigEndian.Uint32(sum) {
		return Token{}, errMalformed
	}
	if b[0] != tokenVersion {
		return Token{}, errForeign
	}
	b, boot := b[1:len(b)-4], b[len(b)-4:]
	t := Token{Boot: binary.BigEndian.Uint32(boot)}
	for _, v := range []*int64{&t.Epoch, &t.Pos, &t.ToDevice, &t.Device, &t.Live, &t.Answer} {
		n := 0
		if *v, n = binary.Varint(b); n <= 0 {
			return Token{}, errMalformed
		}
		b = b[n:]
	}
	if t.Lost = t.Pos == lostPos; t.Lost {
		t.Pos = 0
	}
	t.ToDevice += t.Pos
	if len(b) != 0 || t.Pos < 0 || t.ToDevice < 0 || t.Live < 0 || t.Answer < 0 {
		return Token{}, errMalformed
	}
	return t, nil
}
