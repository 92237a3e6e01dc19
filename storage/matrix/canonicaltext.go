package matrix

import (
	"errors"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// escapedString reads a string that contains an escape.
func (c *canon) escapedString() error {
	c.pos++
	c.dst = append(c.dst, '"')
	for c.pos < len(c.src) {
		switch b := c.src[c.pos]; {
		case b == '"':
			c.pos++
			c.dst = append(c.dst, '"')
			return nil
		case b == '\\':
			r, err := c.escape()
			if err != nil {
				return err
			}
			c.dst = appendEscaped(c.dst, r)
		case b < 0x20:
			return errors.New("control character in a string")
		case b < utf8.RuneSelf:
			c.dst = append(c.dst, b)
			c.pos++
		default:
			r, n := utf8.DecodeRune(c.src[c.pos:])
			if r == utf8.RuneError && n == 1 {
				return errJSONUTF8
			}
			c.dst = append(c.dst, c.src[c.pos:c.pos+n]...)
			c.pos += n
		}
	}
	return errJSONEnd
}

// escape reads one escape sequence, or two that make up a surrogate pair.
func (c *canon) escape() (rune, error) {
	if c.pos+1 >= len(c.src) {
		return 0, errJSONEnd
	}
	kind := c.src[c.pos+1]
	if kind != 'u' {
		c.pos += 2
		switch kind {
		case '"', '\\', '/':
			return rune(kind), nil
		case 'b':
			return '\b', nil
		case 't':
			return '\t', nil
		case 'n':
			return '\n', nil
		case 'f':
			return '\f', nil
		case 'r':
			return '\r', nil
		}
		return 0, errors.New("unknown escape in a string")
	}
	r, err := c.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if c.pos+1 < len(c.src) && c.src[c.pos] == '\\' && c.src[c.pos+1] == 'u' {
		low, err := c.hex4()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, nil
		}
	}
	return 0, errors.New("unpaired surrogate in a string")
}

// hex4 reads \uXXXX.
func (c *canon) hex4() (r rune, err error) {
	if c.pos+6 > len(c.src) {
		return 0, errJSONEnd
	}
	for _, b := range c.src[c.pos+2 : c.pos+6] {
		switch {
		case '0' <= b && b <= '9':
			b -= '0'
		case 'a' <= b && b <= 'f':
			b -= 'a' - 10
		case 'A' <= b && b <= 'F':
			b -= 'A' - 10
		default:
			return 0, errors.New(`illegal digit after \u`)
		}
		r = r<<4 | rune(b)
	}
	c.pos += 6
	return r, nil
}

// appendEscaped appends a character of a string in canonical form.
func appendEscaped(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, '\\', 'b')
	case '\t':
		return append(dst, '\\', 't')
	case '\n':
		return append(dst, '\\', 'n')
	case '\f':
		return append(dst, '\\', 'f')
	case '\r':
		return append(dst, '\\', 'r')
	}
	if r < 0x20 {
		return append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
	}
	return utf8.AppendRune(dst, r)
}

// appendQuoted appends s, valid UTF-8, as a canonical JSON string.
func appendQuoted[S ~string](dst []byte, s S) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		if b := s[i]; b < 0x20 || b == '"' || b == '\\' {
			dst = appendEscaped(dst, rune(b))
		} else {
			dst = append(dst, b)
		}
	}
	return append(dst, '"')
}

// appendUnescaped appends the text of a canonical JSON string, given without its quotes.
func appendUnescaped(dst, s []byte) []byte {
	for len(s) > 0 {
		var b byte
		b, s = unescapeByte(s)
		dst = append(dst, b)
	}
	return dst
}

// unescapeByte reads the first byte of a canonical JSON string's text, and
// returns what follows it. Canonical escapes stand for one byte each.
func unescapeByte(s []byte) (b byte, rest []byte) {
	if s[0] != '\\' {
		return s[0], s[1:]
	}
	switch s[1] {
	case 'b':
		b = '\b'
	case 't':
		b = '\t'
	case 'n':
		b = '\n'
	case 'f':
		b = '\f'
	case 'r':
		b = '\r'
	case 'u': // \u00XX, nothing else is canonical
		return unhex(s[4])<<4 | unhex(s[5]), s[6:]
	default:
		b = s[1]
	}
	return b, s[2:]
}

func unhex(b byte) byte {
	if b >= 'a' {
		return b - 'a' + 10
	}
	return b - '0'
}

// number reads a number.
func (c *canon) number() error {
	start := c.pos
	if c.src[c.pos] == '-' {
		c.pos++
	}
	digits := c.pos
	c.digits()
	if c.pos == digits || c.src[digits] == '0' && c.pos > digits+1 {
		return errors.New("malformed number")
	}
	whole := c.pos
	fraction := c.pos < len(c.src) && c.src[c.pos] == '.'
	if fraction {
		c.pos++
		if !c.digits() {
			return errors.New("malformed number")
		}
	}
	if c.pos < len(c.src) && c.src[c.pos]|0x20 == 'e' {
		c.pos++
		if c.pos < len(c.src) && (c.src[c.pos] == '+' || c.src[c.pos] == '-') {
			c.pos++
		}
		if !c.digits() {
			return errors.New("malformed number")
		}
	}
	text := c.src[start:c.pos]
	if c.pos > whole {
		return c.float(text, fraction)
	}
	return c.integer(text)
}

// digits skips digits and tells whether there was one.
func (c *canon) digits() bool {
	start := c.pos
	for c.pos < len(c.src) && '0' <= c.src[c.pos] && c.src[c.pos] <= '9' {
		c.pos++
	}
	return c.pos > start
}

func (c *canon) integer(text []byte) error {
	negativeZero := len(text) == 2 && text[0] == '-' && text[1] == '0'
	if c.strict && (negativeZero || len(text) > 15 && !safeInteger(text)) {
		return errors.New("number is not an integer of canonical JSON")
	}
	if negativeZero {
		text = text[1:]
	}
	c.dst = append(c.dst, text...)
	return nil
}

// safeInteger tells whether the integer text lies within ±MaxSafeInt.
func safeInteger(text []byte) bool {
	if len(text) > 17 {
		return false
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return err == nil && -MaxSafeInt <= n && n <= MaxSafeInt
}

// float writes a number with a fraction or an exponent as the specification's
// examples and its reference encoder print it: an integral value written
// without a fraction (1e10) becomes an integer, every other one the shortest
// text that reads back as the same float.
func (c *canon) float(text []byte, fraction bool) error {
	if c.strict {
		return errors.New("number is not an integer of canonical JSON")
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return errors.New("number out of range")
	}
	if !fraction && f == math.Trunc(f) && math.Abs(f) <= MaxSafeInt {
		c.dst = strconv.AppendInt(c.dst, int64(f), 10)
		return nil
	}
	c.dst = appendFloat(c.dst, f)
	return nil
}

// appendFloat prints f as Python's repr does, which the reference encoder of
// the specification uses: positional for 1e-4 <= |f| < 1e16.
func appendFloat(dst []byte, f float64) []byte {
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if f == math.Trunc(f) {
		dst = append(dst, ".0"...)
	}
	return dst
}
