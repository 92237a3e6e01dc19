package clientapi

import (
	"context"
	"errors"
	"slices"

	"hearth/server/view"
	"hearth/server/web"
	"hearth/storage"
)

// getMessages serves GET /_matrix/client/v3/rooms/{roomId}/messages.
func (a *API) getMessages(ctx context.Context, c *web.Call, _ web.NoBody) (pieces, error) {
	var q view.Query
	var errs [5]error
	q.Backwards, errs[0] = queryBackwards(c)
	q.From, errs[1] = queryToken(c, "from")
	q.To, errs[2] = queryToken(c, "to")
	q.Limit, errs[3] = queryLimit(c, 10)
	filter, err := queryFilter(c)
	errs[4] = err
	q.Filter, q.Limit = &filter, filter.Limit(q.Limit, q.Limit)
	return a.tellRoom(ctx, c, errors.Join(errs[:]...), func(r reading, out pieces) error {
		page, err := r.view.Page(r.room, q)
		if err != nil {
			return err
		}
		start := c.Query.Get("from")
		if start == "" {
			start = page.Start.String()
		}
		return r.writePage(out, start, page, q)
	})
}

func (r reading) writePage(out pieces, start string, page view.Page, q view.Query) error {
	events, err := r.view.ClientEvents(page.Events, withRoom)
	if err != nil {
		return err
	}
	out.text(`{"start":`, start)
	out.array(`,"chunk":`, events)
	if page.More {
		out.text(`,"end":`, page.End.String())
	}
	if q.Filter.LazyLoadMembers {
		members, err := r.membersFor(page.Events)
		if err != nil {
			return err
		}
		events, err := r.view.ClientEvents(members, asState)
		if err != nil {
			return err
		}
		out.array(`,"state":`, events)
	}
	out.Text("}")
	return nil
}

// membersFor lists the memberships of those who sent the events of a page, as of
// its newest event. All of them are told with every page: what the client was
// told before is not known. Client-Server API, "Lazy-loading room members".
func (r reading) membersFor(events []storage.Event) ([]storage.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	newest := slices.MaxFunc(events, func(a, b storage.Event) int {
		if view.TokenBefore(a).BeforeEvent(b) {
			return -1
		}
		return 1
	})
	return r.view.MembersAt(newest, sendersOf(events))
}

// getRoomInitialSync serves GET /_matrix/client/v3/rooms/{roomId}/initialSync.
func (a *API) getRoomInitialSync(ctx context.Context, c *web.Call, _ web.NoBody) (pieces, error) {
	limit, err := queryLimit(c, 20)
	return a.tellRoom(ctx, c, err, func(r reading, out pieces) error {
		page, err := r.view.Page(r.room, view.Query{Backwards: true, Limit: limit})
		if err != nil {
			return err
		}
		slices.Reverse(page.Events)
		state, err := r.view.State(r.room)
		if err != nil {
			return err
		}
		data, err := r.rx.AccountDataOf(c.UserNum, r.room.ID)
		if err != nil {
			return err
		}
		return r.writeInitialSync(out, page, state, data)
	})
}

func (r reading) writeInitialSync(out pieces, page view.Page, state []storage.EventNum, data []storage.AccountData) error {
	events, err := r.view.ClientEvents(page.Events, withRoom)
	if err != nil {
		return err
	}
	out.text(`{"room_id":`, string(r.room.ID))
	if r.room.Membership != "" {
		out.text(`,"membership":`, r.room.Membership)
	}
	out.text(`,"messages":{"end":`, page.Start.String())
	if page.More {
		out.text(`,"start":`, page.End.String())
	}
	out.array(`,"chunk":`, events)
	if err := r.writeState(out, `},"state":`, state, nil); err != nil {
		return err
	}
	visibility := "private"
	if r.room.Public {
		visibility = "public"
	}
	out.text(`,"visibility":`, visibility)
	out.Text(`,"account_data":[`)
	for i, d := range data {
		if i > 0 {
			out.Text(",")
		}
		out.text(`{"type":`, d.Type)
		out.Text(`,"content":`)
		out.json(d.Content)
		out.Text("}")
	}
	out.Text("]}")
	return nil
}
