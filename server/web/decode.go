package web

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage/matrix"
)

// MaxDepth is how deep objects and arrays of a request body may nest. What is
// stored as received comes back inside other JSON, and common client parsers
// stop at 128.
const MaxDepth = 100

// Validator is an In type that checks itself after decoding, for example that
// required keys are there. Its error is told to the client.
type Validator interface{ Validate() error }

// bodies holds buffers for request and response bodies.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooled keeps one huge body from staying in memory for ever.
const maxPooled = 64 << 10

func freeBody(b *bytes.Buffer) {
	if b.Cap() <= maxPooled {
		b.Reset()
		bodies.Put(b)
	}
}

// decode reads the body of r into in, a pointer to the endpoint's In.
func decode(w *response, r *http.Request, rt *route, in any) error {
	buf := bodies.Get().(*bytes.Buffer)
	defer freeBody(buf)
	if err := readBody(w, r, rt.MaxBody, buf); err != nil {
		return err
	}
	if err := Decode(buf.Bytes(), rt.BodyOptional, in); err != nil {
		return err
	}
	return validate(in)
}

// readBody reads the whole body, of max bytes at most, within the kernel's time
// for bodies, and then lifts the read deadline so that the handler may take its time.
func readBody(w *response, r *http.Request, max int64, buf *bytes.Buffer) error {
	if r.ContentLength > max {
		return tooLarge(max)
	}
	if r.ContentLength > 0 {
		buf.Grow(int(min(r.ContentLength, maxPooled)) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(r.Body, max+1))
	if n > max {
		return tooLarge(max)
	}
	if err != nil {
		var told *matrix.Error
		if errors.As(err, &told) {
			return told
		}
		w.closeAfter() // it is not known where the next request begins
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return &matrix.Error{Status: http.StatusRequestTimeout, Code: matrix.Unknown, Message: "The request body took too long"}
		default:
			return matrix.Errorf(matrix.NotJSON, "The request body ended early")
		}
	}
	_ = w.control.SetReadDeadline(time.Time{}) // unsupported only by test recorders
	return nil
}

const (
	drainMost = 1 << 20 // bytes of a refused request that are read all the same
	drainTime = 300 * time.Millisecond
)

// drain reads what is left of the body of a request that is refused: a client
// that sends all before it reads anything would else find the connection
// broken, and never learn why. What is longer than drainMost, or slower than
// drainTime, is not waited for, and then the connection ends.
func (w *response) drain(r *http.Request, body io.Reader) {
	switch {
	case r.ContentLength == 0, r.ProtoMajor > 1, w.closes():
		return
	case r.Header.Get("Expect") != "": // it asks before it sends: reading would tell it to
		w.closeAfter()
		return
	}
	_ = w.control.SetReadDeadline(time.Now().Add(drainTime)) //nolint:forbidigo // sockets live in real time
	if _, err := io.CopyN(io.Discard, body, drainMost); !errors.Is(err, io.EOF) {
		w.closeAfter()
		return
	}
	_ = w.control.SetReadDeadline(time.Time{})
}

func tooLarge(max int64) error {
	return matrix.Errorf(matrix.TooLarge, "The request body is larger than %d bytes", max)
}

// Decode decodes the JSON object body into in with the rules of [Public]: no
// duplicate keys, valid UTF-8, nesting of at most [MaxDepth], numbers that a
// float64 can hold. Text that is not JSON is M_NOT_JSON; JSON that is not what in wants is M_BAD_JSON. If optional,
// an empty body counts as {}.
func Decode(body []byte, optional bool, in any) error {
	return decodeWithin(body, optional, MaxDepth, in)
}

func decodeWithin(body []byte, optional bool, depth int, in any) error {
	body = bytes.Trim(body, " \t\r\n")
	if len(body) == 0 {
		if optional {
			return nil
		}
		return matrix.Errorf(matrix.NotJSON, "The request has no body")
	}
	tooDeep, hugeNumber := scan(body, depth)
	if tooDeep {
		return matrix.Errorf(matrix.BadJSON, "The request body nests deeper than %d", depth)
	}
	if hugeNumber {
		return matrix.Errorf(matrix.BadJSON, "The request body has a number out of range")
	}
	err := json.Unmarshal(body, in)
	if err == nil && body[0] != '{' { // null decodes into anything
		return matrix.Errorf(matrix.BadJSON, "The request body is not a JSON object")
	}
	return decodeError(err)
}

func decodeError(err error) error {
	if err == nil {
		return nil
	}
	var told *matrix.Error
	var syntax *jsontext.SyntacticError
	var meaning *json.SemanticError
	switch {
	case errors.As(err, &told):
		return told
	case errors.As(err, &syntax) && errors.Is(syntax.Err, jsontext.ErrDuplicateName):
		return matrix.Errorf(matrix.BadJSON, "Duplicate key at %s", where(syntax.JSONPointer))
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF):
		return matrix.Errorf(matrix.NotJSON, "The request body is not valid JSON")
	case errors.As(err, &meaning):
		return matrix.Errorf(matrix.BadJSON, "Wrong value at %s", where(meaning.JSONPointer))
	default:
		return matrix.Errorf(matrix.BadJSON, "The request body has wrong values")
	}
}

// where prints a place in the body, bounded: the keys in it are the client's.
func where(p jsontext.Pointer) string {
	const most = 120
	switch {
	case p == "":
		return "the top level"
	case len(p) > most:
		return string(bytes.ToValidUTF8([]byte(p[:most]), nil)) + "…"
	default:
		return string(p)
	}
}

func validate(in any) error {
	v, ok := in.(Validator)
	if !ok {
		return nil
	}
	err := v.Validate()
	var told *matrix.Error
	if err == nil || errors.As(err, &told) {
		return err
	}
	return matrix.Errorf(matrix.BadJSON, "%s", err.Error())
}

// scan tells whether objects and arrays nest deeper than max, and whether a
// number is beyond the range of a float64. What is stored as received would
// then have no canonical form, so that its EDU could never be signed, and there
// are client parsers that fail on it: at every sync, for what they cannot read
// they never acknowledge. It looks only outside of strings, so it is right for
// valid JSON and harmless for the rest.
func scan(b []byte, max int) (tooDeep, hugeNumber bool) {
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			if depth++; depth > max {
				return true, false
			}
		case c == '}', c == ']':
			depth--
		case '0' <= c && c <= '9':
			n := numberLen(b[i:])
			hugeNumber = hugeNumber || outOfRange(b[i:i+n])
			i += n - 1
		}
	}
	return false, hugeNumber
}

// numberLen is how many bytes of b belong to the number it begins with.
func numberLen(b []byte) int {
	for i, c := range b {
		if ('0' > c || c > '9') && strings.IndexByte("+-.eE", c) < 0 {
			return i
		}
	}
	return len(b)
}

func outOfRange(number []byte) bool {
	const most = 308 // digits that are always in range
	if len(number) <= most && !bytes.ContainsAny(number, "eE") {
		return false
	}
	_, err := strconv.ParseFloat(string(number), 64)
	return errors.Is(err, strconv.ErrRange)
}
