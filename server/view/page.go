package view

import (
	"fmt"
	"math"
	"slices"

	"hearth/storage"
)

// Query asks for a page of a room's timeline.
type Query struct {
	From      *Token // nil: from the first or last event that may be seen
	To        *Token // nil: no end
	Backwards bool
	Limit     int // at most so many events
	Filter    *RoomEventFilter
}

// Page is part of a room's timeline, as one user sees it.
type Page struct {
	Events     []storage.Event // in the order of paging
	Start, End Token
	More       bool // there are events behind End
}

const (
	// maxScan bounds how many events one page looks at, where most of them are
	// hidden or filtered out. The next page goes on behind them.
	maxScan = 2000
	// maxBytes bounds how large the events of one page are together, but for the
	// last: a thousand of the largest would fill a small machine.
	maxBytes = 4 << 20
)

// Page reads one page. A room is paged in topological order, so that what was
// sent meanwhile in another part of the graph stands in its place. Only where a
// client asks for what lies between two answers of /sync, or what came after
// one, is it paged in the order of the stream: that alone leaves nothing out and
// tells nothing twice beside them.
func (v *Viewer) Page(r *Room, q Query) (Page, error) {
	s := newScan(r, q)
	page := Page{Start: s.at, End: s.at, More: q.Filter == nil || q.Filter.AllowsRoom(r.ID)}
	size := 0
	for scanned := 0; len(page.Events) < q.Limit && page.More && scanned < maxScan && size < maxBytes; {
		batch, more, err := s.next(v.rx, min(max(q.Limit-len(page.Events), 20), 200))
		if err != nil {
			return Page{}, fmt.Errorf("page of %s: %w", r.ID, err)
		}
		scanned += len(batch)
		page.More = more
		seen, err := v.Visible(batch)
		if err != nil {
			return Page{}, fmt.Errorf("page of %s: %w", r.ID, err)
		}
		if q.Filter != nil {
			seen = q.Filter.Apply(seen)
		}
		for _, e := range seen {
			page.Events = append(page.Events, e)
			if size += len(e.JSON()); len(page.Events) == q.Limit || size >= maxBytes {
				s.pass(e)
				page.More = more || e.Num != batch[len(batch)-1].Num
				break
			}
		}
		page.End = s.at
	}
	return page, nil
}

// scan goes through the events of a room, whoever may see them.
type scan struct {
	room      storage.RoomNum
	backwards bool
	stream    bool   // in the order of the stream
	at        Token  // the place behind what was passed
	to        *Token // nil: no end
	upto      int64
}

func newScan(r *Room, q Query) *scan {
	s := &scan{room: r.Num, backwards: q.Backwards, to: q.To, upto: r.Upto}
	toStream := q.To != nil && q.To.InStream()
	if toStream && !q.Backwards { // where it lies in the graph is no matter
		s.upto = min(s.upto, q.To.Before-1)
	}
	switch {
	case q.From != nil:
		s.at = *q.From
		s.stream = s.at.InStream() && (!q.Backwards || toStream)
	case q.Backwards:
		s.at, s.stream = StreamToken(r.Upto), toStream
	default:
		s.at = Token{Depth: 1, Pos: math.MinInt64}
	}
	if q.Backwards && (s.at.Before == 0 || s.at.Before > r.Upto+1) {
		s.at.Before = r.Upto + 1
	}
	return s
}

// next reads up to n events and tells whether more follow, up to the end that
// was asked for.
func (s *scan) next(rx *storage.Rx, n int) ([]storage.Event, bool, error) {
	events, err := s.read(rx, n+1)
	if err != nil {
		return nil, false, err
	}
	if s.to != nil {
		if i := slices.IndexFunc(events, func(e storage.Event) bool { return s.to.BeforeEvent(e) != s.backwards }); i >= 0 {
			events = events[:i]
		}
	}
	more := len(events) > n
	if more {
		events = events[:n]
	}
	if len(events) > 0 {
		s.pass(events[len(events)-1])
	}
	return events, more, nil
}

func (s *scan) read(rx *storage.Rx, n int) (events []storage.Event, err error) {
	switch {
	case s.stream && s.backwards:
		events, _, err = rx.RoomNews(s.room, s.to.Before-1, s.at.Before-1, n)
		slices.Reverse(events)
	case s.stream:
		events, err = rx.RoomStream(s.room, s.at.Before-1, s.upto, n)
	case s.backwards:
		events, _, err = rx.Timeline(s.room, storage.Cursor(s.at), true, n)
	default:
		from := storage.Cursor{Before: s.upto + 1, Depth: s.at.Depth, Pos: s.at.Pos}
		if from.Pos > math.MinInt64 {
			from.Pos-- // a cursor lies on an event, a token before it
		}
		events, _, err = rx.Timeline(s.room, from, false, n)
	}
	return events, err
}

// pass moves the place behind an event.
func (s *scan) pass(e storage.Event) {
	switch {
	case s.stream && s.backwards:
		s.at = Token{Before: e.Pos}
	case s.stream:
		s.at = StreamToken(e.Pos)
	case s.backwards:
		s.at.Depth, s.at.Pos = e.Depth, e.Pos
	default:
		s.at = TokenAfter(e)
	}
}
