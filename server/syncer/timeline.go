package syncer

import (
	"slices"

	"hearth/storage"
)

const (
	// maxScan bounds how many events of a room one response looks at, for a
	// filter that lets few of them through. Where more were sent, the timeline
	// is limited, and paging finds the rest.
	maxScan = 1000
	// scanPage is how many are read at once, at least.
	scanPage = 20
)

// timeline is what a response tells of a room's stream, oldest first: all that
// the user may see and wants to see from the position start on.
type timeline struct {
	events  []storage.Event
	start   int64
	limited bool
	missed  bool // limited not by how many the client wants, but by a bound of ours
}

// begin is where the timeline begins: with its first event, if it has any. What
// is between start and there is hidden from the client, and may have moved the
// state that the first event stands in.
func (t *timeline) begin() int64 {
	if len(t.events) == 0 {
		return t.start
	}
	return max(t.start, t.events[0].Pos)
}

// readTimeline reads the newest events of the span that the filter lets through
// and the user may see.
func (b *builder) readTimeline(sp span) (timeline, error) {
	limit := b.timelineLimit()
	t := timeline{start: sp.after + 1}
	if sp.outside {
		t.start = sp.m.Pos
		return t, nil
	}
	if !b.filter.Room.Timeline.AllowsRoom(sp.m.RoomID) {
		return t, nil
	}
	upto := sp.upto
	for scanned := 0; ; {
		page, more, err := b.rx.RoomNews(sp.m.Room, sp.after, upto, max(limit+1, scanPage))
		if err != nil {
			return timeline{}, err
		}
		oldest, read := int64(0), len(page)
		if read > 0 {
			oldest = page[0].Pos
		}
		seen, err := b.visible(page)
		if err != nil {
			return timeline{}, err
		}
		for _, e := range slices.Backward(seen) {
			if len(t.events) == limit {
				t.limited = true
				if limit == 0 {
					t.start = sp.upto + 1
				} else {
					t.start = t.events[limit-1].Pos
				}
				slices.Reverse(t.events)
				return t, nil
			}
			t.events = append(t.events, e)
		}
		if !more {
			break
		}
		upto = oldest - 1
		if scanned += read; scanned >= maxScan {
			t.start, t.limited, t.missed = upto+1, true, true
			break
		}
	}
	slices.Reverse(t.events)
	return t, nil
}

// visible is what of a page the filter lets through and the user may see.
func (b *builder) visible(page []storage.Event) ([]storage.Event, error) {
	wanted := b.filter.Room.Timeline.Apply(page)
	if len(wanted) == 0 {
		return nil, nil
	}
	return b.viewer.Visible(wanted)
}

const (
	usualTimeline = 10  // events of a timeline, where the filter does not say
	longTimeline  = 100 // and at most
)

func (b *builder) timelineLimit() int {
	return b.filter.Room.Timeline.Limit(usualTimeline, longTimeline)
}

// cut takes the part of the timeline away that would leave the client with a
// wrong state; see state.go.
func (t *timeline) cut(wrong map[storage.EventNum]bool) {
	n := overruled(t.events, wrong)
	if n == 0 {
		return
	}
	t.start = t.events[n-1].Pos + 1
	t.events = t.events[n:]
	t.limited, t.missed = true, true
}
