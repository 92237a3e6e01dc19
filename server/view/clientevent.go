package view

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage"
	"hearth/storage/matrix"
)

// Format is the shape in which events are told.
type Format struct {
	RoomID     bool    // with room_id; /sync leaves it out
	Federation bool    // as servers know it, with event_id; a filter may ask for that
	Fields     *Fields // only these; nil: all
	// State is for lists of what the state is, rather than of what happened:
	// what is unsigned then does not tell the user's membership at the event nor
	// what it replaced, only which event. Of a room with many members each has a
	// state of its own before it, and looking all of them up is most of the work.
	State bool
}

// ClientEvents is the events in the shape clients get, with what is unsigned.
// They are events the user may see, which the caller has made sure of. The
// results share memory. Client-Server API, "Room event format".
func (v *Viewer) ClientEvents(events []storage.Event, f Format) ([]jsontext.Value, error) {
	near, err := v.neighbours(events, f.State)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, e := range events {
		size += len(e.Content()) + 400
		if f.Federation {
			size += len(e.JSON())
		}
	}
	w := writer{v: v, near: near, format: f, buf: make([]byte, 0, size)}
	ends := make([]int, len(events))
	for i, e := range events {
		if err := w.event(e, true); err != nil {
			return nil, fmt.Errorf("client format of %s: %w", e.ID(), err)
		}
		ends[i] = len(w.buf)
	}
	out := make([]jsontext.Value, len(events))
	for i, end := range ends {
		start := 0
		if i > 0 {
			start = ends[i-1]
		}
		if out[i] = w.buf[start:end:end]; f.Fields != nil {
			if out[i], err = f.Fields.Project(out[i]); err != nil {
				return nil, fmt.Errorf("fields of %s: %w", events[i].ID(), err)
			}
		}
	}
	return out, nil
}

// ClientEvent is ClientEvents for one.
func (v *Viewer) ClientEvent(e storage.Event, f Format) (jsontext.Value, error) {
	list, err := v.ClientEvents([]storage.Event{e}, f)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// writer puts stored JSON and what is unsigned together: nothing that is stored
// as it is sent is decoded.
type writer struct {
	v      *Viewer
	near   neighbours
	format Format
	buf    []byte
}

func (w *writer) raw(s string) { w.buf = append(w.buf, s...) }

func (w *writer) int(n int64) { w.buf = strconv.AppendInt(w.buf, n, 10) }

func (w *writer) text(key, value string) (err error) {
	w.raw(key)
	w.buf, err = jsontext.AppendQuote(w.buf, value)
	return err
}

// event writes one event. outer is false inside of another's unsigned.
func (w *writer) event(e storage.Event, outer bool) error {
	if w.format.Federation {
		return w.federation(e, outer)
	}
	w.raw(`{"content":`)
	if err := w.content(e); err != nil {
		return err
	}
	if err := w.text(`,"event_id":`, string(e.ID())); err != nil {
		return err
	}
	w.raw(`,"origin_server_ts":`)
	w.int(e.OriginServerTS())
	if redacts := e.Redacts(); redacts != "" && e.Type() == matrix.TypeRedaction {
		if err := w.text(`,"redacts":`, string(redacts)); err != nil {
			return err
		}
	}
	if w.format.RoomID {
		if err := w.text(`,"room_id":`, string(e.RoomID())); err != nil {
			return err
		}
	}
	if err := w.text(`,"sender":`, string(e.Sender())); err != nil {
		return err
	}
	if key, ok := e.StateKey(); ok {
		if err := w.text(`,"state_key":`, key); err != nil {
			return err
		}
	}
	if err := w.text(`,"type":`, e.Type()); err != nil {
		return err
	}
	return w.end(e, outer)
}

// content writes the content. That of a redaction names what it redacts in every
// room version, as the top level does: clients look in either place.
// Room Version 11, "Moving the redacts property".
func (w *writer) content(e storage.Event) error {
	content, redacts := e.Content(), e.Redacts()
	if e.Type() != matrix.TypeRedaction || redacts == "" || e.Version().RedactsInContent {
		w.buf = append(w.buf, content...)
		return nil
	}
	var has struct {
		Redacts jsontext.Value `json:"redacts"`
		Rest    jsontext.Value `json:",embed"`
	}
	if err := json.Unmarshal(content, &has); err != nil {
		return err
	}
	if err := w.text(`{"redacts":`, string(redacts)); err != nil {
		return err
	}
	if rest := has.Rest; len(rest) > 2 {
		w.raw(`,`)
		w.buf = append(w.buf, rest[1:]...)
	} else {
		w.raw(`}`)
	}
	return nil
}

// federation writes the event as servers know it, with its ID where the room
// version leaves that out, and with what is unsigned.
func (w *writer) federation(e storage.Event, outer bool) error {
	raw := e.JSON()
	w.buf = append(w.buf, raw[:len(raw)-1]...)
	if e.Version().IDFormat != matrix.IDServer {
		if err := w.text(`,"event_id":`, string(e.ID())); err != nil {
			return err
		}
	}
	return w.end(e, outer)
}

// end closes the event with what is unsigned.
func (w *writer) end(e storage.Event, outer bool) error {
	w.raw(`,"unsigned":`)
	if err := w.unsigned(e, outer); err != nil {
		return err
	}
	w.raw(`}`)
	return nil
}
