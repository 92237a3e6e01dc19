package view

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Fields is which fields of events a client wants: event_fields of a filter.
type Fields struct{ root fieldTree }

// fieldTree maps a key to what is wanted below it; nil: all of it.
type fieldTree map[string]fieldTree

// NewFields reads dot-separated paths. Appendices, "Dot-separated property paths".
func NewFields(paths []string) *Fields {
	f := &Fields{root: fieldTree{}}
	for _, path := range paths {
		f.add(splitPath(path))
	}
	return f
}

func (f *Fields) add(keys []string) {
	at := f.root
	for i, key := range keys {
		below, there := at[key]
		switch {
		case there && below == nil: // all of it already
			return
		case i == len(keys)-1:
			at[key] = nil
		case !there:
			below = fieldTree{}
			at[key] = below
		}
		at = below
	}
}

// splitPath splits at dots. A backslash makes a dot or a backslash literal, and
// stands for itself before anything else.
func splitPath(path string) []string {
	var keys []string
	var key strings.Builder
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '\\' && i+1 < len(path) && (path[i+1] == '.' || path[i+1] == '\\'):
			i++
			key.WriteByte(path[i])
		case c == '.':
			keys = append(keys, key.String())
			key.Reset()
		default:
			key.WriteByte(c)
		}
	}
	return append(keys, key.String())
}

// Project is the event with nothing but the fields. An object of which nothing
// is wanted is left out.
func (f *Fields) Project(event jsontext.Value) (jsontext.Value, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(event))
	out, _, err := f.root.project(make([]byte, 0, len(event)), dec)
	return out, err
}

// project appends what is wanted of the object that comes next, and tells
// whether there was anything.
func (t fieldTree) project(dst []byte, dec *jsontext.Decoder) ([]byte, bool, error) {
	if _, err := dec.ReadToken(); err != nil {
		return nil, false, err
	}
	start := len(dst)
	dst = append(dst, '{')
	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		if err != nil {
			return nil, false, err
		}
		name := token.String() // the token itself ends with the next read
		below, wanted := t[name]
		switch {
		case !wanted, below != nil && dec.PeekKind() != '{':
			if err := dec.SkipValue(); err != nil {
				return nil, false, err
			}
		default:
			if dst, err = t.member(dst, len(dst) > start+1, name, below, dec); err != nil {
				return nil, false, err
			}
		}
	}
	_, err := dec.ReadToken()
	return append(dst, '}'), len(dst) > start+1, err
}

// member appends one member, unless nothing of its value is wanted.
func (t fieldTree) member(dst []byte, comma bool, name string, below fieldTree, dec *jsontext.Decoder) ([]byte, error) {
	start := len(dst)
	if comma {
		dst = append(dst, ',')
	}
	dst, err := jsontext.AppendQuote(dst, name)
	if err != nil {
		return nil, err
	}
	dst = append(dst, ':')
	if below == nil {
		v, err := dec.ReadValue()
		return append(dst, v...), err
	}
	dst, some, err := below.project(dst, dec)
	if err == nil && !some {
		dst = dst[:start]
	}
	return dst, err
}
