package matrix

import (
	"bytes"
	"iter"
	"strconv"
)

// The functions of this file read JSON that is known to be canonical: it came
// from the canonical encoder, or from storage, where only that is kept.

// membersOf yields key (without quotes, still escaped) and value of each
// member of a canonical object; nothing if b is another kind of value.
func membersOf(b []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		for pos := 1; ; {
			m, ok := nextMember(b, pos)
			if !ok || !yield(m.key(b), m.value(b)) {
				return
			}
			pos = m.end + 1
		}
	}
}

// nextMember finds the member of the canonical object b that begins at pos,
// which is 1 for the first and one past the end of the last for the next.
func nextMember(b []byte, pos int) (m member, ok bool) {
	if len(b) < 2 || b[0] != '{' || pos >= len(b) || b[pos] != '"' {
		return m, false
	}
	m.start = pos
	m.keyEnd = skipString(b, pos)
	m.end = skipValue(b, m.keyEnd+1)
	return m, m.end < len(b)
}

// appendMembers appends where the members of the canonical object b lie.
func appendMembers(list []member, b []byte) []member {
	for pos := 1; ; {
		m, ok := nextMember(b, pos)
		if !ok {
			return list
		}
		list = append(list, m)
		pos = m.end + 1
	}
}

// elementsOf yields each element of a canonical array; nothing if b is another kind of value.
func elementsOf(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(b) < 3 || b[0] != '[' {
			return
		}
		for pos := 1; pos < len(b)-1; {
			end := skipValue(b, pos)
			if !yield(b[pos:end]) {
				return
			}
			pos = end + 1
		}
	}
}

// field returns the value of a key of a canonical object, nil if there is
// none or b is no object. The key must need no escapes.
func field(b []byte, key string) []byte {
	for pos := 1; ; {
		m, ok := nextMember(b, pos)
		if !ok {
			return nil
		}
		if string(m.key(b)) == key {
			return m.value(b)
		}
		pos = m.end + 1
	}
}

// skipString returns the position after the string that begins at pos, at most len(b).
func skipString(b []byte, pos int) int {
	for pos++; pos < len(b); pos++ {
		switch b[pos] {
		case '"':
			return pos + 1
		case '\\':
			pos++
		}
	}
	return len(b)
}

// skipValue returns the position after the value that begins at pos, at most len(b).
func skipValue(b []byte, pos int) int {
	if pos >= len(b) {
		return len(b)
	}
	switch b[pos] {
	case '"':
		return skipString(b, pos)
	case '{', '[':
		for depth := 0; pos < len(b); {
			switch b[pos] {
			case '"':
				pos = skipString(b, pos)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			if pos++; depth == 0 {
				return pos
			}
		}
		return len(b)
	}
	for pos < len(b) && b[pos] != ',' && b[pos] != '}' && b[pos] != ']' {
		pos++
	}
	return pos
}

// textOf reads a canonical JSON string; false if v is absent or another kind of value.
func textOf(v []byte) (string, bool) {
	if len(v) < 2 || v[0] != '"' {
		return "", false
	}
	v = v[1 : len(v)-1]
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v), true
	}
	return string(appendUnescaped(nil, v)), true
}

// keyText is the text of a member's key.
func keyText(k []byte) string {
	if bytes.IndexByte(k, '\\') < 0 {
		return string(k)
	}
	return string(appendUnescaped(nil, k))
}

// intOf reads an integer; false if v is absent, another kind of value, has a
// fraction, or does not fit.
func intOf(v []byte) (int64, bool) {
	if len(v) == 0 || v[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	return n, err == nil
}
