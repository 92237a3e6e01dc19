package clientapi

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/spill"
	"hearth/server/syncer"
	"hearth/server/view"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

// roomReadRoutes are the endpoints that read rooms.
func (a *API) roomReadRoutes() []web.Route {
	v1, v3 := "/_matrix/client/v1", "/_matrix/client/v3"
	room := v3 + "/rooms/{roomId}"
	return []web.Route{
		{Method: "GET", Path: v3 + "/joined_rooms", Handler: authed(a, a.getJoinedRooms)},
		{Method: "GET", Path: room + "/joined_members", Handler: authed(a, a.getJoinedMembers)},
		{Method: "GET", Path: room + "/members", Handler: authed(a, a.getMembers)},
		{Method: "GET", Path: room + "/state", Handler: authed(a, a.getState)},
		// With an empty state key the last slash may be left out.
		{Method: "GET", Path: room + "/state/{eventType}", Handler: authed(a, a.getStateEvent)},
		{Method: "GET", Path: room + "/state/{eventType}/", Handler: authed(a, a.getStateEvent)},
		{Method: "GET", Path: room + "/state/{eventType}/{stateKey}", Handler: authed(a, a.getStateEvent)},
		{Method: "GET", Path: room + "/event/{eventId}", Handler: authed(a, a.getRoomEvent)},
		{Method: "GET", Path: room + "/context/{eventId}", Handler: authed(a, a.getContext)},
		{Method: "GET", Path: room + "/messages", Handler: authed(a, a.getMessages)},
		{Method: "GET", Path: room + "/initialSync", Handler: authed(a, a.getRoomInitialSync)},
		{Method: "GET", Path: v1 + "/rooms/{roomId}/timestamp_to_event", Handler: authed(a, a.getTimestampToEvent)},
		{Method: "GET", Path: v3 + "/events", Handler: authed(a, a.getEvents), LongPoll: true},
		{Method: "GET", Path: v3 + "/events/{eventId}", Handler: authed(a, a.getOneEvent)},
	}
}

// reading is one look at a room: the snapshot, the caller's view, and the room
// as far as the caller may read it.
type reading struct {
	rx   *storage.Rx
	view *view.Viewer
	room *view.Room
}

// readRoom runs fn on the room of the path. A room that the caller may not read,
// whether it exists or not, is M_FORBIDDEN; only who may read it is told what is
// wrong with the parameters.
func (a *API) readRoom(ctx context.Context, c *web.Call, wrong error, fn func(reading) error) error {
	id, err := roomVar(c)
	if err != nil {
		return err
	}
	return a.openRoom(ctx, c, id, func(r reading) error {
		if wrong != nil {
			return wrong
		}
		return fn(r)
	})
}

// openRoom is readRoom for a room that something else names.
func (a *API) openRoom(ctx context.Context, c *web.Call, id matrix.RoomID, fn func(reading) error) error {
	return a.Store.Read(ctx, "read room", func(rx *storage.Rx) error {
		r := reading{rx: rx, view: viewer(rx, c)}
		var err error
		if r.room, err = r.view.Room(id); err != nil {
			return hidden(err)
		}
		return fn(r)
	})
}

// viewer is what the caller sees of a snapshot.
func viewer(rx *storage.Rx, c *web.Call) *view.Viewer {
	return view.New(rx, view.User{ID: c.User, Num: c.UserNum, Device: c.DeviceNum})
}

// hidden turns [view.ErrHidden] into the answer for rooms.
func hidden(err error) error {
	if errors.Is(err, view.ErrHidden) {
		return matrix.Errorf(matrix.Forbidden, "you are not in this room, and it shows nothing to those who are not")
	}
	return err
}

// queryToken reads a token to page with: one of ours, or one of /sync. An absent
// one is nil.
func queryToken(c *web.Call, name string) (*view.Token, error) {
	s := c.Query.Get(name)
	if s == "" {
		return nil, nil
	}
	t, err := view.ParseToken(s, func(s string) (int64, error) {
		t, err := syncer.ParseToken(s)
		return t.Pos, err
	})
	if err != nil {
		return nil, matrix.Errorf(matrix.InvalidParam, "%s is not a token of this server", name)
	}
	return &t, nil
}

// maxPage bounds how many events one page has, whatever is asked for.
const maxPage = 1000

// queryLimit reads how many events are asked for.
func queryLimit(c *web.Call, usual int) (int, error) {
	s := c.Query.Get("limit")
	if s == "" {
		return usual, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, matrix.Errorf(matrix.InvalidParam, "limit is not a number of events")
	}
	return int(min(n, maxPage)), nil
}

// queryBackwards reads the required direction.
func queryBackwards(c *web.Call) (bool, error) {
	switch c.Query.Get("dir") {
	case "b":
		return true, nil
	case "f":
		return false, nil
	case "":
		return false, matrix.Errorf(matrix.MissingParam, "dir is missing")
	}
	return false, matrix.Errorf(matrix.InvalidParam, "dir is neither b nor f")
}

// queryFilter reads the filter of a page, JSON in a parameter.
func queryFilter(c *web.Call) (view.RoomEventFilter, error) {
	var f view.RoomEventFilter
	if s := c.Query.Get("filter"); s != "" {
		if err := web.Decode([]byte(s), false, &f); err != nil {
			return f, matrix.Errorf(matrix.InvalidParam, "the filter is not valid: %s", err)
		}
	}
	return f, nil
}

// queryOneOf reads a parameter that has one of a few values, or is absent.
func queryOneOf(c *web.Call, name string, values ...string) (string, error) {
	s := c.Query.Get(name)
	if s == "" {
		return "", nil
	}
	for _, v := range values {
		if s == v {
			return s, nil
		}
	}
	return "", matrix.Errorf(matrix.InvalidParam, "%s has no such value", name)
}

// pieces is a response put together of JSON that is stored as it is sent. It may
// be long: clients read it from where it waits for them.
type pieces struct{ *spill.Buffer }

func (a *API) newPieces() pieces { return pieces{spill.New(a.Options.TempDir)} }

// tellRoom is readRoom for an answer that fn writes.
func (a *API) tellRoom(ctx context.Context, c *web.Call, wrong error, fn func(reading, pieces) error) (pieces, error) {
	out := a.newPieces()
	return out, out.unless(a.readRoom(ctx, c, wrong, func(r reading) error { return fn(r, out) }))
}

// unless gives the response up where there is an error, or it is not whole.
func (p pieces) unless(err error) error {
	if err = cmp.Or(err, p.Err()); err != nil {
		_ = p.Close()
	}
	return err
}

// text adds a key, with whatever comes before it, and a string.
func (p pieces) text(key, s string) {
	quoted, err := jsontext.AppendQuote([]byte(key), s)
	if err != nil { // not of valid UTF-8, as nothing stored is
		quoted = append([]byte(key), `""`...)
	}
	p.json(quoted)
}

func (p pieces) json(v jsontext.Value) { _, _ = p.Write(v) } // unless asks for errors

// array adds a key, with whatever comes before it, and a list.
func (p pieces) array(key string, list []jsontext.Value) {
	p.Text(key + "[")
	p.items(list, false)
	p.Text("]")
}

// items adds a part of a list; more tells that it goes on one.
func (p pieces) items(list []jsontext.Value, more bool) {
	for i, v := range list {
		if i > 0 || more {
			p.Text(",")
		}
		p.json(v)
	}
}

// statePage is how many events of a state are in memory at once.
const statePage = 128

// writeState adds a key, with whatever comes before it, and those of the events
// that are wanted; nil: all. What is lost of them is left out.
func (r reading) writeState(out pieces, key string, nums []storage.EventNum, wanted func(storage.Event) bool) error {
	out.Text(key + "[")
	any := false
	for page := range slices.Chunk(nums, statePage) {
		events, err := r.rx.EventsByNum(page)
		if err != nil {
			return err
		}
		events = slices.DeleteFunc(events, func(e storage.Event) bool { return e.Num == 0 || wanted != nil && !wanted(e) })
		texts, err := r.view.ClientEvents(events, asState)
		if err != nil {
			return err
		}
		out.items(texts, any)
		any = any || len(texts) > 0
	}
	out.Text("]")
	return nil
}

// The formats of events outside of /sync: of what happened, and of what the state is.
var (
	withRoom = view.Format{RoomID: true}
	asState  = view.Format{RoomID: true, State: true}
)
