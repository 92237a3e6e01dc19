package matrix

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
)

// member is where one member of an object lies: the key with its quotes is
// b[start:keyEnd], the value b[keyEnd+1:end].
type member struct{ start, keyEnd, end int }

func (m member) key(b []byte) []byte     { return b[m.start+1 : m.keyEnd-1] }
func (m member) value(b []byte) []byte   { return b[m.keyEnd+1 : m.end] }
func (m member) segment(b []byte) []byte { return b[m.start:m.end] }

// object reads an object. Its members, n of them, are on top of the stack
// afterwards, in canonical order, for the caller to drop.
func (c *canon) object() (n int, err error) {
	base := len(c.members)
	if c.depth++; c.depth > maxJSONDepth {
		return 0, errJSONDepth
	}
	c.pos++
	c.dst = append(c.dst, '{')
	body := len(c.dst)
	sorted := true
	for first := true; ; first = false {
		more, err := c.next('}', first)
		if err != nil {
			return len(c.members) - base, err
		}
		if !more {
			break
		}
		if !first {
			c.dst = append(c.dst, ',')
		}
		m, err := c.member()
		if err != nil {
			return len(c.members) - base, err
		}
		if sorted && !first {
			sorted = compareKeys(c.members[len(c.members)-1].key(c.dst), m.key(c.dst)) < 0
		}
		c.members = append(c.members, m)
	}
	if !sorted {
		if err := c.sort(c.members[base:], body); err != nil {
			return len(c.members) - base, err
		}
	}
	c.dst = append(c.dst, '}')
	c.depth--
	return len(c.members) - base, nil
}

func (c *canon) member() (m member, err error) {
	if c.pos >= len(c.src) || c.src[c.pos] != '"' {
		return m, errors.New("an object's key must be a string")
	}
	m.start = len(c.dst)
	if err := c.string(); err != nil {
		return m, err
	}
	m.keyEnd = len(c.dst)
	if c.space(); c.pos >= len(c.src) || c.src[c.pos] != ':' {
		return m, errors.New("no ':' after an object's key")
	}
	c.pos++
	c.dst = append(c.dst, ':')
	if err := c.value(); err != nil {
		return m, err
	}
	m.end = len(c.dst)
	return m, nil
}

// sort puts the members, which are all that dst holds from body on, in order.
func (c *canon) sort(members []member, body int) error {
	dst := c.dst
	slices.SortFunc(members, func(a, b member) int { return compareKeys(a.key(dst), b.key(dst)) })
	for i := 1; i < len(members); i++ {
		if bytes.Equal(members[i-1].key(dst), members[i].key(dst)) {
			return errors.New("duplicate key in an object")
		}
	}
	c.scratch = append(c.scratch[:0], dst[body:]...)
	dst = dst[:body]
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		at := len(dst)
		dst = append(dst, c.scratch[m.start-body:m.end-body]...)
		members[i] = member{at, at + m.keyEnd - m.start, len(dst)}
	}
	c.dst = dst
	return nil
}

// compareKeys orders two keys in canonical form by code point, which is the
// order of their UTF-8 bytes once escapes are undone.
func compareKeys(a, b []byte) int {
	if bytes.IndexByte(a, '\\') < 0 && bytes.IndexByte(b, '\\') < 0 {
		return bytes.Compare(a, b)
	}
	for len(a) > 0 && len(b) > 0 {
		var x, y byte
		x, a = unescapeByte(a)
		y, b = unescapeByte(b)
		if x != y {
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}
