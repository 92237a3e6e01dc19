package view

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage"
	"hearth/storage/matrix"
)

// strippedTypes are the state that helps to decide whether to join.
// Client-Server API, "Stripped state".
var strippedTypes = [...]string{
	matrix.TypeCreate, matrix.TypeJoinRules, "m.room.name", "m.room.avatar", "m.room.topic",
	"m.room.canonical_alias", "m.room.encryption",
}

// strippedEvents is the state that is told with an invite or knock: as it was at
// that event, so that nothing shows what the room became since, with the
// membership of whoever sent it, and the event itself at the end. It is empty
// but for the event where this server was not in the room.
func strippedEvents(rx *storage.Rx, member storage.Event) ([]storage.Event, error) {
	if !placed(member) {
		return []storage.Event{member}, nil
	}
	keys := make([]storage.StateKey, 0, len(strippedTypes)+1)
	for _, typ := range strippedTypes {
		keys = append(keys, storage.StateKey{Type: typ})
	}
	if key, _ := member.StateKey(); key != string(member.Sender()) {
		keys = append(keys, storage.StateKey{Type: matrix.TypeMember, StateKey: string(member.Sender())})
	}
	nums, err := rx.StateEvents(member.StateBefore, keys...)
	if err != nil {
		return nil, fmt.Errorf("stripped state: %w", err)
	}
	found := make([]storage.EventNum, 0, len(nums))
	for _, n := range nums {
		if n != 0 {
			found = append(found, n)
		}
	}
	events, err := rx.EventsByNum(found)
	if err != nil {
		return nil, fmt.Errorf("stripped state: %w", err)
	}
	return append(events, member), nil
}

// Stripped is the state that is told with an invite or knock, as clients get it:
// sender, type, state key and content only. It is as it was at that event; where
// this server was not in the room it is what the inviting server sent along, cut
// to these. The membership itself is at its end.
func Stripped(rx *storage.Rx, member storage.Event) ([]jsontext.Value, error) {
	var out []jsontext.Value
	if !placed(member) {
		out = sentAlong(member)
	}
	events, err := strippedEvents(rx, member)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		if e.Event == nil { // lost
			continue
		}
		key, _ := e.StateKey()
		one, err := json.Marshal(strippedEvent{Content: e.Content(), Sender: string(e.Sender()), StateKey: &key, Type: e.Type()})
		if err != nil {
			return nil, fmt.Errorf("stripped state: %w", err)
		}
		out = append(out, one)
	}
	return out, nil
}

type strippedEvent struct {
	Content  jsontext.Value `json:"content"`
	Sender   string         `json:"sender"`
	StateKey *string        `json:"state_key"`
	Type     string         `json:"type"`
}

var errNoStripped = errors.New("not a stripped state event")

// sentAlong reads the stripped state in the unsigned part of a membership that
// another server sent. Nothing vouches for it; what is misshapen is left out,
// and so is any other event that claims to be this membership.
func sentAlong(member storage.Event) []jsontext.Value {
	var unsigned struct {
		Invite []jsontext.Value `json:"invite_room_state"`
		Knock  []jsontext.Value `json:"knock_room_state"`
	}
	if len(member.Unsigned()) == 0 || json.Unmarshal(member.Unsigned(), &unsigned) != nil {
		return nil
	}
	var out []jsontext.Value
	own, _ := member.StateKey()
	for _, raw := range append(unsigned.Invite, unsigned.Knock...) {
		e, err := readStripped(raw)
		if err != nil || e.Type == matrix.TypeMember && *e.StateKey == own {
			continue
		}
		if one, err := json.Marshal(e); err == nil {
			out = append(out, one)
		}
	}
	return out
}

func readStripped(raw jsontext.Value) (strippedEvent, error) {
	var e strippedEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, err
	}
	if e.Content.Kind() != '{' || e.StateKey == nil || e.Type == "" || e.Sender == "" {
		return e, errNoStripped
	}
	return e, nil
}
