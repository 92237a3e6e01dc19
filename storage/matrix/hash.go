package matrix

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// EncodeBase64 is unpadded standard base64. Appendices, "Unpadded Base64".
func EncodeBase64(b []byte) string { return base64.RawStdEncoding.EncodeToString(b) }

// DecodeBase64 reads standard base64, with or without padding.
func DecodeBase64(s string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
}

// decodeFixed fills dst from standard base64, with or without padding; false
// if text is not base64 of just as many bytes.
func decodeFixed(dst, text []byte) bool {
	text = bytes.TrimRight(text, "=")
	if len(text) != base64.RawStdEncoding.EncodedLen(len(dst)) {
		return false
	}
	n, err := base64.RawStdEncoding.Decode(dst, text)
	return err == nil && n == len(dst)
}

// ContentHash is the content hash of an event given as JSON: SHA-256 of it
// without unsigned, signatures and hashes. Server-Server API, "Calculating the
// content hash for an event".
func ContentHash(v *Version, raw []byte) (sum [32]byte, err error) {
	c := getCanon()
	defer c.release()
	c.src, c.strict = raw, v.StrictJSON
	members, err := c.topObject()
	if err != nil {
		return sum, fmt.Errorf("content hash: %w", err)
	}
	return sha256.Sum256(appendWithout(nil, c.dst, members, "hashes", "signatures", "unsigned")), nil
}

// ReferenceHash is the reference hash of an event given as JSON: SHA-256 of it
// redacted, without signatures. Server-Server API, "Calculating the reference
// hash for an event".
func ReferenceHash(v *Version, raw []byte) (sum [32]byte, err error) {
	c := getCanon()
	defer c.release()
	c.src, c.strict = raw, v.StrictJSON
	members, err := c.topObject()
	if err != nil {
		return sum, fmt.Errorf("reference hash: %w", err)
	}
	return sha256.Sum256(appendRedacted(nil, v, c.dst, members, false)), nil
}

// ReferenceHash is the event's reference hash, which other events of room
// versions 1 and 2 name beside its ID.
func (e *Event) ReferenceHash() [32]byte {
	return sha256.Sum256(e.signingBytes())
}

// signingBytes is what is signed and what the reference hash covers: the
// redacted event without signatures.
func (e *Event) signingBytes() []byte {
	return e.appendRedacted(nil, appendMembers(nil, e.json), false)
}

// appendSigningBytes is signingBytes in the buffers of c.
func (e *Event) appendSigningBytes(c *canon) []byte {
	c.members = appendMembers(c.members[:0], e.json)
	return e.appendRedacted(c.dst[:0], c.members, false)
}

// appendWithout appends the object whose members lie in b, without some of them.
func appendWithout(dst, b []byte, members []member, without ...string) []byte {
	n := 0
	for _, m := range members {
		if slices.Contains(without, string(m.key(b))) {
			continue
		}
		dst = append(dst, separator(n))
		n++
		dst = append(dst, m.segment(b)...)
	}
	if n == 0 {
		dst = append(dst, '{')
	}
	return append(dst, '}')
}
