package matrix

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"
)

// maxJSONDepth bounds how deep arrays and objects may nest. The specification
// names no bound; common servers refuse at about this depth or earlier.
const maxJSONDepth = 1000

var (
	errJSONEnd   = errors.New("unexpected end of JSON")
	errJSONDepth = errors.New("JSON nested too deep")
	errJSONUTF8  = errors.New("invalid UTF-8 in a string")
)

// CanonicalJSON returns the canonical encoding of one JSON value: shortest
// form, keys sorted by code point. Duplicate keys, invalid UTF-8, unpaired
// surrogates, and nesting deeper than 1,000 are refused.
//
// Numbers are taken as room versions 1 to 5 need them: integers of any size as
// they are, others as the float of that value prints. [StrictCanonicalJSON]
// refuses what canonical JSON has no form for. Appendices, "Canonical JSON".
func CanonicalJSON(in []byte) ([]byte, error) {
	return AppendCanonicalJSON(make([]byte, 0, len(in)), in, false)
}

// StrictCanonicalJSON is [CanonicalJSON] as room versions 6 and later enforce
// it: every number is an integer within ±[MaxSafeInt], without exponent or
// fraction, and not "-0".
func StrictCanonicalJSON(in []byte) ([]byte, error) {
	return AppendCanonicalJSON(make([]byte, 0, len(in)), in, true)
}

// AppendCanonicalJSON appends the canonical encoding of in to dst. After an
// error the result is nil. dst and in must not overlap.
func AppendCanonicalJSON(dst, in []byte, strict bool) ([]byte, error) {
	c := getCanon()
	defer c.release()
	own := c.dst
	c.src, c.dst, c.strict = in, dst, strict
	err := c.document()
	dst, c.dst = c.dst, own
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// canon rewrites src canonically into dst. Members of the objects that are
// open lie on one stack.
type canon struct {
	src     []byte
	pos     int
	dst     []byte
	strict  bool
	depth   int
	members []member
	scratch []byte
}

var canonPool = sync.Pool{New: func() any { return new(canon) }}

func getCanon() *canon { return canonPool.Get().(*canon) }

// release gives c back for reuse, without buffers that an unusual input made large.
func (c *canon) release() {
	const keep = 256 << 10
	if cap(c.dst) > keep {
		c.dst = nil
	}
	if cap(c.scratch) > keep {
		c.scratch = nil
	}
	if cap(c.members) > 4096 {
		c.members = nil
	}
	*c = canon{dst: c.dst[:0], scratch: c.scratch[:0], members: c.members[:0]}
	canonPool.Put(c)
}

// document reads exactly one value.
func (c *canon) document() error {
	if err := c.value(); err != nil {
		return fmt.Errorf("at byte %d: %w", c.pos, err)
	}
	return c.atEnd()
}

// topObject reads one object and returns where its members lie in dst, in
// canonical order. The result is valid until release.
func (c *canon) topObject() ([]member, error) {
	if c.space(); c.pos >= len(c.src) || c.src[c.pos] != '{' {
		return nil, errors.New("not a JSON object")
	}
	n, err := c.object()
	if err != nil {
		return nil, fmt.Errorf("at byte %d: %w", c.pos, err)
	}
	return c.members[:n], c.atEnd()
}

func (c *canon) atEnd() error {
	if c.space(); c.pos < len(c.src) {
		return fmt.Errorf("at byte %d: text after the JSON value", c.pos)
	}
	return nil
}

// space skips white space.
func (c *canon) space() {
	for c.pos < len(c.src) {
		switch c.src[c.pos] {
		case ' ', '\t', '\n', '\r':
			c.pos++
		default:
			return
		}
	}
}

func (c *canon) value() error {
	c.space()
	if c.pos >= len(c.src) {
		return errJSONEnd
	}
	switch b := c.src[c.pos]; b {
	case '"':
		return c.string()
	case '{':
		n, err := c.object()
		c.members = c.members[:len(c.members)-n]
		return err
	case '[':
		return c.array()
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case 'n':
		return c.literal("null")
	default:
		if b == '-' || '0' <= b && b <= '9' {
			return c.number()
		}
		return fmt.Errorf("unexpected character %q", b)
	}
}

func (c *canon) literal(word string) error {
	if !bytes.HasPrefix(c.src[c.pos:], []byte(word)) {
		return errors.New("unknown literal")
	}
	c.pos += len(word)
	c.dst = append(c.dst, word...)
	return nil
}

func (c *canon) array() error {
	if c.depth++; c.depth > maxJSONDepth {
		return errJSONDepth
	}
	c.pos++
	c.dst = append(c.dst, '[')
	for first := true; ; first = false {
		more, err := c.next(']', first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if !first {
			c.dst = append(c.dst, ',')
		}
		if err := c.value(); err != nil {
			return err
		}
	}
	c.dst = append(c.dst, ']')
	c.depth--
	return nil
}

// next moves to the next element or past the closing bracket.
func (c *canon) next(closing byte, first bool) (more bool, err error) {
	c.space()
	if c.pos >= len(c.src) {
		return false, errJSONEnd
	}
	b := c.src[c.pos]
	if b == closing {
		c.pos++
		return false, nil
	}
	if first {
		return true, nil
	}
	if b != ',' {
		return false, fmt.Errorf("unexpected character %q, want ',' or %q", b, closing)
	}
	c.pos++
	if c.space(); c.pos < len(c.src) && c.src[c.pos] == closing {
		return false, errors.New("comma before a closing bracket")
	}
	return true, nil
}

// string reads a string.
func (c *canon) string() error {
	start := c.pos
	i, ascii := start+1, true
	for i < len(c.src) {
		switch b := c.src[i]; {
		case b == '"':
			if !ascii && !utf8.Valid(c.src[start+1:i]) {
				return errJSONUTF8
			}
			c.pos = i + 1
			c.dst = append(c.dst, c.src[start:c.pos]...)
			return nil
		case b == '\\':
			return c.escapedString()
		case b < 0x20:
			return errors.New("control character in a string")
		case b >= utf8.RuneSelf:
			ascii = false
		}
		i++
	}
	return errJSONEnd
}
