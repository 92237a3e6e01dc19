package view

import (
	"fmt"
	"slices"

	"hearth/storage"
	"hearth/storage/matrix"
)

// neighbours are the events that the unsigned data of others tell of: those
// replaced in the state and those that redact.
type neighbours struct {
	events map[storage.EventNum]storage.Event
	hidden map[storage.EventNum]bool // the user may not see them
}

// neighbours reads the neighbours of the events, all at once, and unless they are
// told as state, where they lie in the room's state.
func (v *Viewer) neighbours(events []storage.Event, state bool) (neighbours, error) {
	n := neighbours{events: map[storage.EventNum]storage.Event{}, hidden: map[storage.EventNum]bool{}}
	if !state {
		if err := v.locate(events); err != nil {
			return n, err
		}
	}
	var nums []storage.EventNum
	for _, e := range events {
		for _, num := range [2]storage.EventNum{e.Replaces, e.RedactedBy} {
			if _, asked := n.events[num]; num != 0 && !asked {
				n.events[num] = storage.Event{}
				nums = append(nums, num)
			}
		}
	}
	if len(nums) == 0 {
		return n, nil
	}
	found, err := v.rx.EventsByNum(nums)
	if err != nil {
		return n, fmt.Errorf("neighbours of events: %w", err)
	}
	ask := found
	if state {
		ask = slices.DeleteFunc(slices.Clone(found), func(e storage.Event) bool { return e.Num == 0 || e.Type() != matrix.TypeRedaction })
	}
	may, err := v.CanSee(ask)
	if err != nil {
		return n, err
	}
	for _, e := range found {
		if e.Num != 0 {
			n.events[e.Num] = e
		}
	}
	for i, e := range ask {
		n.hidden[e.Num] = !may[i]
	}
	return n, nil
}

// unsigned writes what this server says beside the event.
func (w *writer) unsigned(e storage.Event, outer bool) error {
	w.raw(`{"age":`)
	w.int(w.v.rx.Now.UnixMilli() - e.OriginServerTS())
	joined := false
	if placed(e) && !w.format.State {
		before, known := w.v.points[e.StateBefore]
		if known {
			joined = w.v.membership(before) == matrix.MembershipJoin
			if err := w.text(`,"membership":`, w.v.membership(before.after(w.v, e))); err != nil {
				return err
			}
		}
	}
	if err := w.replaced(e, joined); err != nil {
		return err
	}
	if redaction, ok := w.near.events[e.RedactedBy]; ok && outer && redaction.Num != 0 {
		if w.near.hidden[redaction.Num] {
			redaction.Event = redaction.Redacted() // that it was redacted shows; by which words does not
		}
		w.raw(`,"redacted_because":`)
		if err := w.event(redaction, false); err != nil {
			return err
		}
	}
	if e.TxnID != "" && e.Device != 0 && e.Device == w.v.user.Device {
		if err := w.text(`,"transaction_id":`, e.TxnID); err != nil {
			return err
		}
	}
	w.raw(`}`)
	return nil
}

// replaced writes what the state event replaced: which event in any case, what
// it said to those who may see it. Who was in the room may see its whole state.
func (w *writer) replaced(e storage.Event, joined bool) error {
	was, ok := w.near.events[e.Replaces]
	if !ok || was.Num == 0 {
		return nil
	}
	if !w.format.State && (joined || !w.near.hidden[was.Num]) {
		w.raw(`,"prev_content":`)
		w.buf = append(w.buf, was.Content()...)
		if err := w.text(`,"prev_sender":`, string(was.Sender())); err != nil {
			return err
		}
	}
	return w.text(`,"replaces_state":`, string(was.ID()))
}
