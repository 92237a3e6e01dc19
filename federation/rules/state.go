package rules

import (
	"fmt"
	"strings"

	"hearth/storage/matrix"
)

// Key names one entry of a room's state.
type Key struct {
	Type     string
	StateKey string
}

// AuthState is a room state as the authorization rules see it.
type AuthState interface {
	// Event is the event at a type and state key, nil if there is none.
	Event(typ, stateKey string) *matrix.Event
}

// Events is an [AuthState] held in a map.
type Events map[Key]*matrix.Event

// Event implements [AuthState].
func (s Events) Event(typ, stateKey string) *matrix.Event { return s[Key{typ, stateKey}] }

// Add puts state events at their keys; a later one replaces an earlier one.
// Events that are not state events are passed over.
func (s Events) Add(events ...*matrix.Event) Events {
	for _, ev := range events {
		if key, ok := ev.StateKey(); ok {
			s[Key{ev.Type(), key}] = ev
		}
	}
	return s
}

// StateMap is a room state by the IDs of its events.
type StateMap map[Key]matrix.EventID

// Standing is how an event came through the checks on receipt.
// Server-Server API, "Checks performed on receipt of a PDU".
type Standing uint8

const (
	// Accepted events passed; soft-failed ones are among them.
	Accepted Standing = iota
	// RejectedByState events passed by their own auth events, but not by the
	// state before them. They take part in state resolution like others, so
	// that servers which disagree about the state before an event converge;
	// they are never used as an auth event. Room Version 2, "Rejected events".
	RejectedByState
	// RejectedByAuth events do not even pass by their own auth events. They
	// never enter a resolved state.
	RejectedByAuth
)

// Stored is an event with its standing.
type Stored struct {
	Event    *matrix.Event // nil: not there
	Standing Standing
}

// Source gives state resolution the events of one room.
type Source interface {
	// Events finds events; the result has the order and length of ids. An
	// event that is not there is a zero Stored, not an error.
	Events(ids []matrix.EventID) ([]Stored, error)
}

// Generations is what a [Source] implements that stores how deep each event
// lies in its auth chain. With it, resolution reads only the part of the auth
// chains in which the states differ; without it, all of them.
type Generations interface {
	// Generations finds the generation of each event, in the order of ids: for
	// an event that is there, any positive number that is greater than the
	// generations of all its auth events; 0 for one that is not there. It must
	// come from the events' links, never from the depth they claim.
	Generations(ids []matrix.EventID) ([]int64, error)
}

// MissingError says that a state to be resolved names events that the
// [Source] does not have. (Missing auth events are passed over.)
type MissingError struct {
	IDs []matrix.EventID // sorted
}

// Error implements error.
func (e *MissingError) Error() string {
	const show = 5
	var b strings.Builder
	for i, id := range e.IDs {
		if i == show {
			fmt.Fprintf(&b, " and %d more", len(e.IDs)-show)
			break
		}
		b.WriteString(" " + string(id))
	}
	return "state resolution: events are missing:" + b.String()
}
