package clientapi

import (
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/room"
	"hearth/storage"
	"hearth/storage/matrix"
)

// relation is what an event says of how it relates to another.
// Client-Server API, "Forming relationships between events".
type relation struct {
	Type  string         `json:"rel_type"`
	Event matrix.EventID `json:"event_id"`
	Key   *string        `json:"key"`
}

// relationIn reads the relation from an event's content; one of no form that
// has a meaning is none.
func relationIn(content jsontext.Value) relation {
	var c struct {
		Relates relation `json:"m.relates_to"`
	}
	if json.Unmarshal(content, &c) != nil || c.Relates.Event == "" {
		return relation{}
	}
	return c.Relates
}

// sendMessage sends an event that is no state, if its relation may be made. That
// is judged last, so that whoever may not send learns nothing of other events.
func (a *API) sendMessage(tx *storage.Tx, in storage.Room, d room.Draft) (storage.Event, error) {
	e, err := a.Rooms.Send(tx, in, d)
	if err != nil {
		return storage.Event{}, err
	}
	switch to := relationIn(d.Content); {
	case to.Type == "m.annotation" && to.Key != nil:
		err = annotate(tx, e, to)
	case to.Type == "m.thread":
		err = checkThread(tx.Rx, in, to.Event)
	}
	return e, err
}

// annotate remembers an annotation, and refuses it if its sender has said the
// same of the event before. Client-Server API, "Avoiding duplicate annotations".
func annotate(tx *storage.Tx, e storage.Event, to relation) error {
	annotation := storage.Annotation{Target: to.Event, Sender: e.Sender(), Type: e.Type(), Key: *to.Key}
	twice, err := tx.Annotated(annotation)
	if err != nil {
		return err
	}
	if twice {
		return matrix.Errorf(matrix.DuplicateAnnotation, "you have said the same of this event before")
	}
	return tx.AddAnnotation(annotation, e.Num)
}

// checkThread refuses a thread that starts off an event which is itself an
// edit, a reaction or of a thread. Client-Server API, "Validation of m.thread
// relationships".
//
// Spec deviation: a mere reply, which has m.relates_to but no rel_type, may
// start one: clients offer that.
func checkThread(rx *storage.Rx, in storage.Room, root matrix.EventID) error {
	e, err := rx.Event(root)
	if errors.Is(err, storage.ErrNotFound) {
		return nil // it may be on its way
	}
	if err == nil && e.Room == in.Num && relationIn(e.Content()).Type != "" {
		err = &matrix.Error{Status: http.StatusBadRequest, Code: matrix.Unknown, Message: "a thread cannot start off an event that relates to another"}
	}
	return err
}
