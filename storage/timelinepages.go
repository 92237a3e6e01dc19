package storage

var roomStream = stmt(`SELECT ` + eventColumns + ` FROM events e` + eventSender + `WHERE e.room = ? AND e.pos <> 0
	AND e.pos > ? AND e.pos <= ? ORDER BY e.pos LIMIT ?`)

// RoomStream returns the oldest events that were told in (after, upto], oldest
// first and at most limit of them. It is [Rx.RoomNews] from the other end.
func (rx *Rx) RoomStream(room RoomNum, after, upto int64, limit int) ([]Event, error) {
	return rx.listEvents("room stream", roomStream, int64(room), after, upto, limit)
}

var (
	eventsFrom = stmt(`SELECT ` + eventColumns + ` FROM events e` + eventSender + `WHERE e.room = ? AND e.pos <> 0
		AND (e.ts, e.num) > (?, ?) ORDER BY e.ts, e.num LIMIT ?`)
	eventsUpTo = stmt(`SELECT ` + eventColumns + ` FROM events e` + eventSender + `WHERE e.room = ? AND e.pos <> 0
		AND (e.ts, e.num) < (?, ?) ORDER BY e.ts DESC, e.num DESC LIMIT ?`)
)

// EventsByTime pages through what was told of a room by the clocks of the
// events' servers, in milliseconds, from a time and an event of that time on
// and without that event.
func (rx *Rx) EventsByTime(room RoomNum, ts int64, event EventNum, forward bool, limit int) ([]Event, error) {
	s := eventsUpTo
	if forward {
		s = eventsFrom
	}
	return rx.listEvents("events by time", s, int64(room), ts, int64(event), limit)
}
