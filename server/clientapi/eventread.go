package clientapi

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/view"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

// noEvent answers for an event that is not there and for one that the caller may
// not see: nobody can tell which.
func noEvent() error {
	return matrix.Errorf(matrix.NotFound, "there is no such event, or you may not see it")
}

// findEvent is the event that the path names, if the caller may see it and it is
// in the room; 0 is any room.
func findEvent(rx *storage.Rx, v *view.Viewer, c *web.Call, room storage.RoomNum) (storage.Event, error) {
	e, err := rx.Event(matrix.EventID(c.Vars["eventId"]))
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return storage.Event{}, noEvent()
	case err != nil:
		return storage.Event{}, err
	case room != 0 && e.Room != room:
		return storage.Event{}, noEvent()
	}
	seen, err := v.Visible([]storage.Event{e})
	if err == nil && len(seen) == 0 {
		err = noEvent()
	}
	if err != nil {
		return storage.Event{}, err
	}
	return seen[0], nil
}

// getRoomEvent serves GET /_matrix/client/v3/rooms/{roomId}/event/{eventId}.
func (a *API) getRoomEvent(ctx context.Context, c *web.Call, _ web.NoBody) (jsontext.Value, error) {
	id, err := roomVar(c)
	if err != nil {
		return nil, err
	}
	var out jsontext.Value
	err = a.Store.Read(ctx, "event", func(rx *storage.Rx) error {
		room, err := rx.Room(id)
		if errors.Is(err, storage.ErrNotFound) {
			return noEvent()
		} else if err != nil {
			return err
		}
		v := viewer(rx, c)
		e, err := findEvent(rx, v, c, room.Num)
		if err != nil {
			return err
		}
		out, err = v.ClientEvent(e, withRoom)
		return err
	})
	return out, err
}

// getContext serves GET /_matrix/client/v3/rooms/{roomId}/context/{eventId}.
func (a *API) getContext(ctx context.Context, c *web.Call, _ web.NoBody) (pieces, error) {
	limit, err := queryLimit(c, 10)
	filter, err1 := queryFilter(c)
	limit = filter.Limit(limit, limit)
	return a.tellRoom(ctx, c, errors.Join(err, err1), func(r reading, out pieces) error {
		e, err := findEvent(r.rx, r.view, c, r.room.Num)
		if err != nil {
			return err
		}
		from, after := view.TokenBefore(e), view.TokenAfter(e)
		older, err := r.view.Page(r.room, view.Query{From: &from, Backwards: true, Limit: limit / 2, Filter: &filter})
		if err != nil {
			return err
		}
		newer, err := r.view.Page(r.room, view.Query{From: &after, Limit: limit - limit/2, Filter: &filter})
		if err != nil {
			return err
		}
		return r.writeContext(out, e, older, newer, filter)
	})
}

func (r reading) writeContext(out pieces, e storage.Event, older, newer view.Page, filter view.RoomEventFilter) error {
	all := slices.Concat([]storage.Event{e}, older.Events, newer.Events)
	last := e
	if n := len(newer.Events); n > 0 {
		last = newer.Events[n-1]
	}
	state, err := r.view.StateAfter(last)
	if err != nil {
		return err
	}
	senders := sendersOf(all)
	wanted := func(s storage.Event) bool {
		key, _ := s.StateKey()
		return filter.AllowsEvent(s) &&
			(!filter.LazyLoadMembers || s.Type() != matrix.TypeMember || slices.Contains(senders, matrix.UserID(key)))
	}
	events, err := r.view.ClientEvents(all, withRoom)
	if err != nil {
		return err
	}
	n := 1 + len(older.Events)
	out.Text(`{"event":`)
	out.json(events[0])
	out.array(`,"events_before":`, events[1:n])
	out.array(`,"events_after":`, events[n:])
	if err := r.writeState(out, `,"state":`, state, wanted); err != nil {
		return err
	}
	out.text(`,"start":`, older.End.String())
	out.text(`,"end":`, newer.End.String())
	out.Text("}")
	return nil
}

// sendersOf lists who sent the events, each once.
func sendersOf(events []storage.Event) []matrix.UserID {
	var senders []matrix.UserID
	known := map[matrix.UserID]bool{}
	for _, e := range events {
		if !known[e.Sender()] {
			known[e.Sender()] = true
			senders = append(senders, e.Sender())
		}
	}
	return senders
}

type eventAtTime struct {
	Event matrix.EventID `json:"event_id"`
	TS    int64          `json:"origin_server_ts"`
}

// maxNearby bounds how many events are looked at for one that the caller sees.
const maxNearby = 10_000

// getTimestampToEvent serves GET /_matrix/client/v1/rooms/{roomId}/timestamp_to_event.
func (a *API) getTimestampToEvent(ctx context.Context, c *web.Call, _ web.NoBody) (eventAtTime, error) {
	backwards, err := queryBackwards(c)
	ts, err1 := queryTime(c, "ts")
	var out eventAtTime
	err = a.readRoom(ctx, c, errors.Join(err, err1), func(r reading) error {
		e, err := r.nearest(ts, !backwards)
		if err != nil {
			return err
		}
		out = eventAtTime{e.ID(), e.OriginServerTS()}
		return nil
	})
	return out, err
}

// queryTime reads a required time, in milliseconds since 1970.
func queryTime(c *web.Call, name string) (int64, error) {
	text := c.Query.Get(name)
	if text == "" {
		return 0, matrix.Errorf(matrix.MissingParam, "%s is missing", name)
	}
	ts, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, matrix.Errorf(matrix.InvalidParam, "%s is not a number of milliseconds", name)
	}
	return ts, nil
}

// nearest is the event nearest to a time that the caller may see.
func (r reading) nearest(ts int64, forward bool) (storage.Event, error) {
	const batch = 50
	at := storage.EventNum(0) // before every event of the time
	if !forward {
		at = 1<<63 - 1
	}
	for n := 0; n < maxNearby; n += batch {
		events, err := r.rx.EventsByTime(r.room.Num, ts, at, forward, batch)
		if err != nil {
			return storage.Event{}, err
		}
		seen, err := r.view.Visible(events)
		if err != nil {
			return storage.Event{}, err
		}
		if len(seen) > 0 {
			return seen[0], nil
		}
		if len(events) < batch {
			break
		}
		last := events[batch-1]
		ts, at = last.OriginServerTS(), last.Num
	}
	return storage.Event{}, matrix.Errorf(matrix.NotFound, "there is no event in that direction")
}
