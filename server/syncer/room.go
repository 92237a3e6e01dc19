package syncer

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/view"
	"hearth/storage"
	"hearth/storage/matrix"
)

// news is what a response tells of one room the user is or was a member of.
type news struct {
	span
	timeline timeline
	changes  []storage.StateChange // of the state in the span; of a first sync none
	state    []storage.EventNum
	summary  *summary // nil: not told
	data     []storage.AccountData
}

// tellRoom writes what there is to tell of a room into the section that was
// begun, or nothing.
func (b *builder) tellRoom(sp span) error {
	if sp.kind == kindInvite || sp.kind == kindKnock {
		return b.tellStripped(sp)
	}
	n := news{span: sp}
	switch worth, err := b.read(&n); {
	case err != nil:
		return fmt.Errorf("%s: %w", sp.m.RoomID, err)
	case !worth:
		return nil
	}
	b.began(sp.m.RoomID)
	return b.writeRoom(&n)
}

// read reads all that is told of the room, but the state's events, and tells
// whether it is worth telling.
func (b *builder) read(n *news) (worth bool, err error) {
	if n.timeline, err = b.readTimeline(n.span); err != nil {
		return false, err
	}
	if err = b.addOwn(n.span, &n.timeline); err != nil {
		return false, err
	}
	if n.changes, err = b.changes(n.span, n.upto); err != nil {
		return false, err
	}
	if n.data, err = b.roomData(n.span); err != nil {
		return false, err
	}
	if !b.onlyMessages(n) {
		if err = b.readState(n); err != nil {
			return false, err
		}
	}
	return b.worth(n)
}

// onlyMessages tells whether nothing moved the state, and nothing of it is
// told: what most syncs find in most rooms, and what costs the least.
func (b *builder) onlyMessages(n *news) bool {
	return !n.whole && !n.fresh && len(n.changes) == 0 && len(endings(n.timeline.events)) == 0 &&
		(!b.filter.Room.State.LazyLoadMembers || len(n.timeline.events) == 0)
}

// readState reads the summary and which events make the state.
func (b *builder) readState(n *news) error {
	room, err := b.rx.RoomByNum(n.m.Room)
	if err != nil {
		return err
	}
	if n.summary, err = b.readSummary(n, room); err != nil {
		return err
	}
	return b.stateSection(n, room)
}

// addOwn puts the membership with which the user is out of the room at the end
// of the timeline, if it is new: it is not the one the span ends with where the
// user was banned after leaving, and where there is no span at all.
func (b *builder) addOwn(sp span, t *timeline) error {
	limit := b.timelineLimit()
	if sp.kind != kindLeave || sp.m.Event == 0 || limit == 0 {
		return nil
	}
	e, err := b.rx.EventByNum(sp.m.Event)
	if err != nil {
		return err
	}
	told := slices.ContainsFunc(t.events, func(o storage.Event) bool { return o.Num == e.Num })
	if told || e.Pos <= sp.after && e.Pos > 0 || !b.filter.Room.Timeline.AllowsEvent(e) {
		return nil
	}
	if len(t.events) == limit {
		t.start, t.limited = t.events[0].Pos+1, true
		t.events = t.events[1:]
	}
	t.events = append(t.events, e)
	return nil
}

// worth tells whether there is anything in it for the client.
func (b *builder) worth(n *news) (bool, error) {
	if n.fresh || n.whole || len(n.timeline.events) > 0 || n.timeline.missed || len(n.data) > 0 || n.summary != nil {
		return true, nil
	}
	for left := n.state; len(left) > 0; { // what the filter leaves of it is known only by reading
		page := left[:min(len(left), statePage)]
		left = left[len(page):]
		events, err := b.stateEvents(page)
		if err != nil || len(events) > 0 {
			return true, err
		}
	}
	return false, nil
}

// statePage is how many events of a state are in memory at once.
const statePage = 128

// stateEvents reads those of the events that the state filter lets through.
func (b *builder) stateEvents(nums []storage.EventNum) ([]storage.Event, error) {
	events, err := b.rx.EventsByNum(nums)
	if err != nil {
		return nil, err
	}
	kept := events[:0]
	for _, e := range events {
		if e.Num != 0 && b.filter.Room.State.AllowsEvent(e) {
			kept = append(kept, e)
		}
	}
	return kept, nil
}

// writeRoom writes the object of a joined or left room.
func (b *builder) writeRoom(n *news) error {
	b.out.Text(`{`)
	if n.summary != nil {
		n.summary.write(b.out)
		b.out.Text(`,`)
	}
	if b.req.StateAfter {
		b.out.Text(`"state_after":{"events":[`)
	} else {
		b.out.Text(`"state":{"events":[`)
	}
	if err := b.writeState(n.state); err != nil {
		return err
	}
	b.out.Text(`]},"timeline":{"events":[`)
	if err := b.writeEvents(n.timeline.events, false); err != nil {
		return err
	}
	if !b.req.StateAfter { // who asks for that takes no state from the timeline
		b.members.tell(n.timeline.events)
	}
	b.out.Text(`],"limited":` + strconv.FormatBool(n.timeline.limited || n.gap || b.lost))
	b.out.Text(`,"prev_batch":"` + view.Token{Before: n.timeline.begin()}.String() + `"}`)
	if n.kind == kindJoin {
		b.out.Text(`,"ephemeral":{"events":[]}`)
	}
	b.out.Text(`,"account_data":{"events":[`)
	if err := writeData(b.out, n.data); err != nil {
		return err
	}
	b.out.Text(`]}}`)
	return nil
}

func (b *builder) writeState(nums []storage.EventNum) error {
	for any := false; len(nums) > 0; {
		page := nums[:min(len(nums), statePage)]
		nums = nums[len(page):]
		events, err := b.stateEvents(page)
		if err != nil {
			return err
		}
		if err := b.writeEvents(events, any); err != nil {
			return err
		}
		b.members.tell(events)
		any = any || len(events) > 0
	}
	return nil
}

// writeEvents writes a part of a list; comma tells that it goes on one.
func (b *builder) writeEvents(events []storage.Event, comma bool) error {
	texts, err := b.viewer.ClientEvents(events, view.Format{Federation: b.filter.Federation, Fields: b.filter.Fields})
	if err != nil {
		return err
	}
	for i, text := range texts {
		if i > 0 || comma {
			b.out.Text(`,`)
		}
		if _, err := b.out.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// tellStripped writes an invitation or a knock: all the user may know of the
// room is its stripped state. Client-Server API, "Stripped state".
func (b *builder) tellStripped(sp span) error {
	if sp.kind == kindInvite {
		blocked, err := b.rx.InvitesBlocked(b.req.UserNum)
		if err != nil || blocked {
			return err
		}
		if ignored, err := b.viewer.Ignores(sp.m.Sender); err != nil || ignored {
			return err
		}
	}
	member, err := b.rx.EventByNum(sp.m.Event)
	if err != nil {
		return fmt.Errorf("%s: %w", sp.m.RoomID, err)
	}
	events, err := view.Stripped(b.rx, member)
	if err != nil {
		return fmt.Errorf("%s: %w", sp.m.RoomID, err)
	}
	b.began(sp.m.RoomID)
	b.out.Text(`{"` + sp.kind + `_state":{"events":[`)
	for i, e := range events {
		if i > 0 {
			b.out.Text(`,`)
		}
		if _, err := b.out.Write(e); err != nil {
			return err
		}
	}
	b.out.Text(`]}}`)
	return nil
}

// began writes the key of a room.
func (b *builder) began(id matrix.RoomID) {
	if b.inKind > 0 {
		b.out.Text(`,`)
	}
	b.inKind++
	b.told++
	b.out.Text(quote(string(id)) + `:`)
}

func quote(s string) string {
	q, err := jsontext.AppendQuote(nil, s)
	if err != nil { // not UTF-8: IDs and types are, by parsing
		q, _ = jsontext.AppendQuote(nil, "?")
	}
	return string(q)
}
