package clientapi

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/syncer"
	"hearth/server/view"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

const (
	maxPeekWait = 3 * time.Minute
	peekPage    = 100
)

// getEvents serves GET /_matrix/client/v3/events for one room, which is how
// clients follow a room that everyone may read without joining it. The stream of
// all rooms, which /sync replaced long ago, is not served.
// Client-Server API, "Room Previews".
func (a *API) getEvents(ctx context.Context, c *web.Call, _ web.NoBody) (pieces, error) {
	from, err := queryToken(c, "from")
	wait, err1 := queryMillis(c, "timeout")
	id, err2 := queryRoom(c)
	if err := errors.Join(err, err1, err2); err != nil {
		return pieces{}, err
	}
	sub := a.Store.Subscribe(storage.Interest{Device: c.DeviceNum, Rooms: []matrix.RoomID{id}})
	defer sub.Close()
	timer := time.NewTimer(min(wait, maxPeekWait))
	defer timer.Stop()
	poll := syncer.Request{DeviceNum: c.DeviceNum, Closing: c.Closing}
	start := from
	for nothing := 0; ; nothing++ {
		out := a.newPieces()
		n, more := 0, false
		err := a.openRoom(ctx, c, id, func(r reading) error {
			if from == nil { // from now on, and now is fixed by the first look
				now := view.StreamToken(r.rx.Pos())
				from, start = &now, &now
			}
			page, err := r.view.Page(r.room, view.Query{From: from, Limit: peekPage})
			if err != nil {
				return err
			}
			n, more, from = len(page.Events), page.More, &page.End // what was looked at is not again
			return r.writePeek(out, *start, page)
		})
		if err = out.unless(err); err != nil || n > 0 || wait <= 0 {
			return out, err
		}
		if more { // all that was looked at is hidden from them
			select {
			case <-timer.C:
				return out, nil
			default:
				continue
			}
		}
		again, err := a.Syncer.Wait(ctx, sub, timer.C, poll, nothing)
		if err != nil || !again {
			return out, err
		}
	}
}

func (r reading) writePeek(out pieces, from view.Token, page view.Page) error {
	events, err := r.view.ClientEvents(page.Events, withRoom)
	if err != nil {
		return err
	}
	out.text(`{"start":`, from.String())
	out.text(`,"end":`, page.End.String())
	out.array(`,"chunk":`, events)
	out.Text("}")
	return nil
}

// queryRoom reads the required room.
func queryRoom(c *web.Call) (matrix.RoomID, error) {
	s := c.Query.Get("room_id")
	if s == "" {
		return "", matrix.Errorf(matrix.MissingParam, "room_id is missing")
	}
	id, err := matrix.ParseRoomID(s)
	if err != nil {
		return "", matrix.Errorf(matrix.InvalidParam, "%s", err)
	}
	return id, nil
}

// getOneEvent serves GET /_matrix/client/v3/events/{eventId}: an event of
// whichever room.
func (a *API) getOneEvent(ctx context.Context, c *web.Call, _ web.NoBody) (jsontext.Value, error) {
	var out jsontext.Value
	err := a.Store.Read(ctx, "event", func(rx *storage.Rx) error {
		v := viewer(rx, c)
		e, err := findEvent(rx, v, c, 0)
		if err != nil {
			return err
		}
		out, err = v.ClientEvent(e, withRoom)
		return err
	})
	return out, err
}
