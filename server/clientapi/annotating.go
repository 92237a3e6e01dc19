package clientapi

import (
	"github.com/go-json-experiment/json"

	"hearth/federation/room"
	"hearth/storage"
	"hearth/storage/matrix"
)

// annotationOf reads the annotation that an event would be, if it is one.
func annotationOf(d room.Draft) (storage.Annotation, bool) {
	var content struct {
		Relates struct {
			Type  string         `json:"rel_type"`
			Event matrix.EventID `json:"event_id"`
			Key   *string        `json:"key"`
		} `json:"m.relates_to"`
	}
	if json.Unmarshal(d.Content, &content) != nil {
		return storage.Annotation{}, false // of another form, which is nobody's business here
	}
	to := content.Relates
	if to.Type != "m.annotation" || to.Event == "" || to.Key == nil {
		return storage.Annotation{}, false
	}
	return storage.Annotation{Target: to.Event, Sender: d.Sender, Type: d.Type, Key: *to.Key}, true
}

// sendMessage sends an event that is no state. A second annotation that says
// what the sender has said of an event is refused.
// Client-Server API, "Avoiding duplicate annotations".
func (a *API) sendMessage(tx *storage.Tx, in storage.Room, d room.Draft) (storage.Event, error) {
	annotation, is := annotationOf(d)
	if !is {
		return a.Rooms.Send(tx, in, d)
	}
	twice, err := tx.Annotated(annotation)
	if err != nil {
		return storage.Event{}, err
	}
	e, err := a.Rooms.Send(tx, in, d) // first, so that who may not send is told that
	switch {
	case err != nil:
		return storage.Event{}, err
	case twice:
		return storage.Event{}, matrix.Errorf(matrix.DuplicateAnnotation, "you have said the same of this event before")
	}
	return e, tx.AddAnnotation(annotation, e.Num)
}
