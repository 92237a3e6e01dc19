package room

import (
	"bytes"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// repeated finds the event of the state that says, by the same sender, what a
// prepared draft says; Num is 0 where there is none. Whoever may not say it any
// more is refused as if it were sent.
func repeated(state *view, d Draft) (storage.Event, error) {
	if d.StateKey == nil {
		return storage.Event{}, nil
	}
	was := state.get(d.Type, *d.StateKey)
	if state.err != nil || was.Event == nil || was.RedactedBy != 0 || was.Sender() != d.Sender {
		return storage.Event{}, state.err
	}
	same, err := sameContent(was, d)
	if err != nil || !same {
		return storage.Event{}, err
	}
	if err := rules.Authorize(was.Event, state); err != nil {
		return storage.Event{}, refused(err)
	}
	return was, state.err
}

// sameContent compares contents in canonical form. Who vouched for a join to a
// restricted room is left out: whoever is in it needs nobody.
func sameContent(was storage.Event, d Draft) (bool, error) {
	old := was.Content()
	if d.Type == matrix.TypeMember {
		content, err := parseObject("content", old)
		if err != nil {
			return false, err
		}
		delete(content, "join_authorised_via_users_server")
		old = content.json()
	}
	before, err := matrix.CanonicalJSON(old)
	if err != nil {
		return false, err
	}
	now, err := matrix.CanonicalJSON(d.Content)
	if err != nil {
		return false, matrix.Errorf(matrix.BadJSON, "content: %v", err)
	}
	return bytes.Equal(before, now), nil
}
