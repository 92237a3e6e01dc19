package storage

import (
	"fmt"
	"math"
	"slices"
)

// Cursor is a place between two events of a room, in topological order: by
// Depth, then Pos. Before bounds the stream as well: of an answer of /sync and
// the pages beside it, what one tells the other never does.
type Cursor struct {
	Before     int64 // only events with a smaller Pos; 0: no bound
	Depth, Pos int64 // of the event beside which to begin; both 0: at the room's end, or forwards at its start
}

var (
	timelineBack = stmt(`SELECT ` + eventColumns + ` FROM events e` + eventSender + `WHERE e.room = ? AND e.pos <> 0
		AND (e.depth, e.pos) < (?, ?) AND e.pos < ? ORDER BY e.depth DESC, e.pos DESC LIMIT ?`)
	timelineForth = stmt(`SELECT ` + eventColumns + ` FROM events e` + eventSender + `WHERE e.room = ? AND e.pos <> 0
		AND (e.depth, e.pos) > (?, ?) AND e.pos < ? ORDER BY e.depth, e.pos LIMIT ?`)
)

// Timeline pages through what was told of a room, in topological order, from
// a cursor on and without the event the cursor names. next continues behind the
// last event. Fewer events than limit: there are no more for now.
func (rx *Rx) Timeline(room RoomNum, from Cursor, backwards bool, limit int) (events []Event, next Cursor, err error) {
	s, start := timelineForth, from
	if backwards {
		s = timelineBack
		if start.Depth == 0 && start.Pos == 0 {
			start.Depth, err = rx.deepest(room, start.Before)
			start.Depth, start.Pos = start.Depth+1, math.MinInt64
		}
	}
	if start.Before == 0 {
		start.Before = math.MaxInt64
	}
	if err == nil {
		events, err = rx.listEvents("timeline", s, int64(room), start.Depth, start.Pos, start.Before, limit)
	}
	if err != nil {
		return nil, Cursor{}, err
	}
	next = from
	if n := len(events); n > 0 {
		next.Depth, next.Pos = events[n-1].Depth, events[n-1].Pos
	}
	return events, next, nil
}

var deepestBefore = stmt(`SELECT max(
	ifnull((SELECT top FROM events WHERE room = ?1 AND pos <> 0 AND pos < ?2 ORDER BY pos DESC LIMIT 1), 0),
	ifnull((SELECT max(depth) FROM events WHERE room = ?1 AND pos < 0), 0))`)

// deepest is the greatest depth of what was told before a position (0: of all)
// or backfilled, so that a page that begins there steps over nothing newer.
func (rx *Rx) deepest(room RoomNum, before int64) (depth int64, err error) {
	if before == 0 {
		return math.MaxInt64 - 1, nil
	}
	if err := rx.row(deepestBefore, []any{int64(room), before}, &depth); err != nil {
		return 0, fmt.Errorf("timeline: %w", err)
	}
	return depth, nil
}

var roomNews = stmt(`SELECT ` + eventColumns + ` FROM events e` + eventSender + `WHERE e.room = ? AND e.pos <> 0
	AND e.pos > ? AND e.pos <= ? ORDER BY e.pos DESC LIMIT ?`)

// RoomNews returns the newest events that were told in (after, upto], oldest
// first and at most limit of them, and whether there are more. With after 0 it
// is the end of the room as it was told live: what was backfilled is not in it.
func (rx *Rx) RoomNews(room RoomNum, after, upto int64, limit int) (events []Event, limited bool, err error) {
	events, err = rx.listEvents("room news", roomNews, int64(room), after, upto, limit+1)
	if err != nil {
		return nil, false, err
	}
	if limited = len(events) > limit; limited {
		events = events[:limit]
	}
	slices.Reverse(events)
	return events, limited, nil
}
