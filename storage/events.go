package storage

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"hearth/storage/matrix"
)

// Event is an event of a room, with what this server knows of it. An event
// that was redacted is its redacted form.
type Event struct {
	*matrix.Event

	Num         EventNum
	Room        RoomNum
	Pos         int64    // place in the room's stream: >0 told live, <0 backfilled, 0 never told
	Depth       int64    // ours: one more than the deepest parent's; 0: an outlier
	Generation  int64    // greater than those of its auth events
	Standing    uint8    // 0 accepted, 1 and 2 rejected: federation/rules.Standing
	SoftFailed  bool     // accepted, yet never told
	Outlier     bool     // not in the graph: its state and parents are unknown
	StateBefore StateNum // 0: unknown, or the empty state before m.room.create
	Replaces    EventNum // state events: the event of the same key in StateBefore; 0: none
	RedactedBy  EventNum // 0: not redacted
	Device      int64    // of the sender, if one of ours; 0: unknown, or forgotten after 14 days
	TxnID       string   // of the request that sent it
}

const (
	eventColumns = `e.num, e.room, e.event_id, e.pos, e.depth, e.generation, e.standing, e.soft_failed, e.outlier,
		e.state_before, e.replaces, e.redacted_by, e.redacted_clock IS NOT NULL,
		ifnull(s.device, 0), ifnull(s.txn_id, ''), e.json`
	eventSender = ` LEFT JOIN event_senders s ON s.event = e.num `
)

// eventRow is a row of eventColumns.
type eventRow struct {
	Event
	id                                             string
	standing, softFailed, outlier, stillUnredacted int64
	json                                           []byte
}

func (e *eventRow) fields() []any {
	return []any{
		(*int64)(&e.Num), (*int64)(&e.Room), &e.id, &e.Pos, &e.Event.Depth, &e.Generation, &e.standing, &e.softFailed, &e.outlier,
		(*int64)(&e.StateBefore), (*int64)(&e.Replaces), (*int64)(&e.RedactedBy), &e.stillUnredacted,
		&e.Device, &e.TxnID, &e.json,
	}
}

// parse makes the event of the row.
func (e *eventRow) parse(v *matrix.Version) (Event, error) {
	ev, err := matrix.ParseStored(v, matrix.EventID(e.id), e.json)
	if err != nil {
		return Event{}, err
	}
	if e.stillUnredacted != 0 {
		ev = ev.Redacted()
	}
	out := e.Event
	out.Event = ev
	out.Standing, out.SoftFailed, out.Outlier = uint8(e.standing), e.softFailed != 0, e.outlier != 0
	return out, nil
}

// eachEvent calls fn with the events of a query. Columns before those of the
// event are scanned into first.
func (rx *Rx) eachEvent(s *statement, args []any, first []any, fn func(Event)) error {
	rows, err := rx.query(s, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var row eventRow
	fields := append(first[:len(first):len(first)], row.fields()...)
	for rows.Next() {
		if err := rows.Scan(fields...); err != nil {
			return err
		}
		v, err := rx.version(row.Room)
		if err != nil {
			return err
		}
		e, err := row.parse(v)
		if err != nil {
			return err
		}
		fn(e)
	}
	return rows.Err()
}

// listEvents is eachEvent into a list.
func (rx *Rx) listEvents(what string, s *statement, args ...any) (list []Event, err error) {
	err = rx.eachEvent(s, args, nil, func(e Event) { list = append(list, e) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return list, nil
}

// oneEvent is eachEvent for one; none is [ErrNotFound].
func (rx *Rx) oneEvent(what string, s *statement, args ...any) (Event, error) {
	var found Event
	err := rx.eachEvent(s, args, nil, func(e Event) { found = e })
	if err == nil && found.Event == nil {
		err = ErrNotFound
	}
	if err != nil {
		return Event{}, fmt.Errorf("%s: %w", what, err)
	}
	return found, nil
}

var (
	eventByID  = stmt(`SELECT ` + eventColumns + ` FROM events e` + eventSender + `WHERE e.event_id = ?`)
	eventByNum = stmt(`SELECT ` + eventColumns + ` FROM events e` + eventSender + `WHERE e.num = ?`)
)

// Event finds an event, told or not, of whichever room: compare Room.
func (rx *Rx) Event(id matrix.EventID) (Event, error) {
	return rx.oneEvent("event", eventByID, string(id))
}

// EventByNum finds an event by its number.
func (rx *Rx) EventByNum(n EventNum) (Event, error) {
	return rx.oneEvent("event by number", eventByNum, int64(n))
}

var (
	eventsByID = stmt(`SELECT j.key, ` + eventColumns + ` FROM json_each(?) j
		CROSS JOIN events e ON e.event_id = j.value` + eventSender)
	eventsByNum = stmt(`SELECT j.key, ` + eventColumns + ` FROM json_each(?) j
		CROSS JOIN events e ON e.num = j.value` + eventSender)
)

// Events finds events in the order of ids; where one is missing the Event has
// Num 0 and no matrix.Event.
func (rx *Rx) Events(ids []matrix.EventID) ([]Event, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(ids)
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return rx.eventsAt(eventsByID, string(text), len(ids))
}

// EventsByNum finds events in the order of nums; where one is missing the
// Event has Num 0 and no matrix.Event.
func (rx *Rx) EventsByNum(nums []EventNum) ([]Event, error) {
	if len(nums) == 0 {
		return nil, nil
	}
	return rx.eventsAt(eventsByNum, numbers(nums), len(nums))
}

func (rx *Rx) eventsAt(s *statement, keys string, n int) ([]Event, error) {
	list := make([]Event, n)
	var at int64
	err := rx.eachEvent(s, []any{keys}, []any{&at}, func(e Event) { list[at] = e })
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return list, nil
}
