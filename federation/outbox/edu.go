package outbox

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage/matrix"
)

// MaxEDU is the size in bytes that a complete EDU may have, as for a PDU.
const MaxEDU = 65_536

// pack encodes the messages to the users of one server as m.direct_to_device
// EDUs of at most MaxEDU bytes, as few as filling one after the other makes,
// each with a message ID of its own: 130 random bits in 26 characters, where
// receivers accept 32. A content that does not fit even alone is
// M_TOO_LARGE. Server-Server API, "Send-to-device messaging".
//
// What one user gets is parted only where there is no "*" in it. A device that
// is named beside "*" gets its own content and not that of the others, and only
// the receiver knows which devices those are: it must see both at once.
//
// The message ID is never the client's transaction ID: that is unique only per
// device and path, so two users who send "1" would cancel each other's.
func pack(from matrix.UserID, eventType string, users map[matrix.UserID]map[string]jsontext.Value) ([][]byte, error) {
	w, err := newWriter(from, eventType)
	if err != nil {
		return nil, err
	}
	for _, u := range slices.Sorted(maps.Keys(users)) {
		name, err := jsontext.AppendQuote(nil, u)
		if err != nil {
			return nil, fmt.Errorf("encode EDU: %w", err)
		}
		parts, err := encodeDevices(users[u])
		if err != nil {
			return nil, fmt.Errorf("encode EDU: %w", err)
		}
		what := "the content for one device"
		if _, all := users[u]["*"]; all && len(parts) > 1 {
			parts = [][]byte{bytes.Join(parts, []byte(","))}
			what = "the content for all devices and those for named ones, which cannot be sent apart,"
		}
		for _, part := range parts {
			if !w.add(name, part) {
				return nil, matrix.Errorf(matrix.TooLarge, "%s of %s makes more than %d bytes", what, u, MaxEDU)
			}
		}
	}
	w.flush()
	return w.done, nil
}

// encodeDevices makes "device":content of each message to a user.
func encodeDevices(messages map[string]jsontext.Value) ([][]byte, error) {
	var parts [][]byte
	for _, d := range slices.Sorted(maps.Keys(messages)) {
		part, err := jsontext.AppendQuote(nil, d)
		if err != nil {
			return nil, err
		}
		content := messages[d].Clone()
		if err := content.Compact(); err != nil {
			return nil, err
		}
		parts = append(parts, append(append(part, ':'), content...))
	}
	return parts, nil
}

// writer builds EDUs:
// {"content":{"message_id":…,"messages":{user:{device:content,…},…},"sender":…,"type":…},"edu_type":…}.
type writer struct {
	tail []byte // what follows the messages
	buf  []byte // the EDU that is being built; empty: none
	user []byte // whose object is open
	done [][]byte
}

func newWriter(from matrix.UserID, eventType string) (*writer, error) {
	tail := []byte(`}},"sender":`)
	tail, err := jsontext.AppendQuote(tail, from)
	if err == nil {
		tail, err = jsontext.AppendQuote(append(tail, `,"type":`...), eventType)
	}
	if err != nil {
		return nil, fmt.Errorf("encode EDU: %w", err)
	}
	return &writer{tail: append(tail, `},"edu_type":"m.direct_to_device"}`...)}, nil
}

// add puts messages to a user, "device":content,…, into the current EDU, or into
// a new one where they do not fit. It returns false if they do not fit there
// either.
func (w *writer) add(user, messages []byte) bool {
	size := len(messages)
	switch {
	case len(w.buf) > 0 && bytes.Equal(user, w.user) && w.fits(1+size):
		w.buf = append(w.buf, ',')
	case len(w.buf) > 0 && !bytes.Equal(user, w.user) && w.fits(len(`},:{`)+len(user)+size):
		w.buf = append(append(append(w.buf, `},`...), user...), `:{`...)
	default:
		w.flush()
		w.buf = append(w.buf, `{"content":{"message_id":"`...)
		w.buf = append(w.buf, rand.Text()...)
		w.buf = append(append(append(w.buf, `","messages":{`...), user...), `:{`...)
		if !w.fits(size) {
			return false
		}
	}
	w.user = user
	w.buf = append(w.buf, messages...)
	return true
}

// fits tells whether the EDU stays within its size with n bytes more.
func (w *writer) fits(n int) bool { return len(w.buf)+n+len(w.tail) <= MaxEDU }

// flush completes the current EDU.
func (w *writer) flush() {
	if len(w.buf) == 0 {
		return
	}
	w.done = append(w.done, append(w.buf, w.tail...))
	w.buf = nil
}
