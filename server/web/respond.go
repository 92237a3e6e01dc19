package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage/matrix"
)

// JSONWriter is a response that writes its own JSON, to append what is stored
// as JSON already. An error before the first 32 KiB becomes a 500; a later one
// cuts the connection, so that the client cannot take the part for the whole.
type JSONWriter interface{ WriteJSON(w io.Writer) error }

// StatusCoder is a response with a status other than 200, such as the 401 of
// user-interactive authentication, whose body is no error body.
type StatusCoder interface{ Status() int }

// response is the ResponseWriter of a request. It knows what was sent and gives
// each piece its own time, so that a slow reader ends but a long poll does not.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration // for each piece of at most pieceSize
	status  int           // 0 until the header is written
	bytes   int64
	err     error // the handler's, for the log
}

const pieceSize = 64 << 10

// Unwrap serves http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter. The deadline moves with every piece.
func (w *response) Write(p []byte) (n int, err error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	for first := true; first || len(p) > 0; first = false {
		piece := p[:min(len(p), pieceSize)]
		_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout)) //nolint:forbidigo // sockets live in real time
		m, err := w.ResponseWriter.Write(piece)
		n += m
		w.bytes += int64(m)
		if err != nil {
			return n, err
		}
		p = p[len(piece):]
	}
	return n, nil
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.control.Flush() }

// closeAfter ends the connection after this response: what is left of the
// request is not worth reading.
func (w *response) closeAfter() { w.Header().Set("Connection", "close") }

// closes tells whether [response.closeAfter] was called.
func (w *response) closes() bool { return w.Header().Get("Connection") == "close" }

var emptyObject = []byte("{}")

// answer sends an endpoint's result.
func (w *response) answer(out any) error {
	status := http.StatusOK
	if s, ok := out.(StatusCoder); ok {
		status = s.Status()
	}
	if c, ok := out.(io.Closer); ok {
		defer func() { _ = c.Close() }() // the result was read to its end or given up
	}
	switch v := out.(type) {
	case Empty:
		return w.send(status, emptyObject)
	case jsontext.Value:
		return w.send(status, v)
	case JSONWriter:
		return w.stream(status, v)
	}
	buf := bodies.Get().(*bytes.Buffer)
	defer freeBody(buf)
	if err := json.MarshalWrite(buf, out); err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	return w.send(status, buf.Bytes())
}

// send writes a whole JSON body. That the client went away is nobody's error.
func (w *response) send(status int, body []byte) error {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body)
	return nil
}

var jsonType = []string{"application/json"}

// errGone marks a write that failed because the client went away.
var errGone = errors.New("client went away")

// stream lets v write itself, holding back the head so that an early error can
// still be answered and a short body has its length.
func (w *response) stream(status int, v JSONWriter) error {
	buf := bodies.Get().(*bytes.Buffer)
	defer freeBody(buf)
	head := &headWriter{w: w, status: status, buf: buf}
	err := v.WriteJSON(head)
	switch {
	case errors.Is(err, errGone):
		return nil
	case err != nil:
		return fmt.Errorf("write response: %w", err)
	case !head.sent:
		return w.send(status, buf.Bytes())
	default:
		return nil
	}
}

// headWriter gathers up to headSize bytes, then sends the header and all that follows.
type headWriter struct {
	w      *response
	status int
	buf    *bytes.Buffer
	sent   bool
}

const headSize = 32 << 10

func (h *headWriter) Write(p []byte) (int, error) {
	if !h.sent {
		if h.buf.Len()+len(p) <= headSize {
			return h.buf.Write(p)
		}
		h.sent = true
		h.w.Header()["Content-Type"] = jsonType
		h.w.WriteHeader(h.status)
		if _, err := h.w.Write(h.buf.Bytes()); err != nil {
			return 0, errors.Join(errGone, err)
		}
	}
	n, err := h.w.Write(p)
	if err != nil {
		return n, errors.Join(errGone, err)
	}
	return n, nil
}

// fail sends the error body of the specification, "Standard error response".
func (w *response) fail(err error) {
	var told *matrix.Error
	if !errors.As(err, &told) {
		told = &matrix.Error{Status: http.StatusInternalServerError, Code: matrix.Unknown, Message: "Internal server error"}
	}
	body := make(map[string]any, len(told.Extra)+3)
	for k, v := range told.Extra {
		body[k] = v
	}
	body["errcode"] = told.Code
	body["error"] = told.Message
	if told.Code == matrix.LimitExceeded {
		wait := max(told.RetryAfter, time.Millisecond)
		body["retry_after_ms"] = (wait + time.Millisecond - 1).Milliseconds()
		w.Header().Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	text, err := json.Marshal(body, json.Deterministic(true))
	if err != nil { // only Extra can do this
		text = []byte(`{"errcode":"M_UNKNOWN","error":"Internal server error"}`)
	}
	status := told.Status
	if status == 0 {
		status = told.Code.Status()
	}
	_ = w.send(status, text)
}
