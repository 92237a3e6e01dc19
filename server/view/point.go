package view

import (
	"fmt"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// The values of m.room.history_visibility.
const (
	visibleToWorld = "world_readable"
	visibleShared  = "shared"
	visibleInvited = "invited"
	visibleJoined  = "joined"
)

// point is what visibility needs of one snapshot of a room's state: which events
// say the room's history visibility and the user's membership; 0: none does.
type point struct{ visibility, member storage.EventNum }

// after is the point once e has happened.
func (p point) after(v *Viewer, e storage.Event) point {
	switch {
	case e.IsState(matrix.TypeHistoryVisibility, ""):
		p.visibility = e.Num
	case e.IsState(matrix.TypeMember, string(v.user.ID)):
		p.member = e.Num
	}
	return p
}

// placed tells whether the state before the event is known. That of a create
// event is, and is empty.
func placed(e storage.Event) bool {
	return !e.Outlier && (e.StateBefore != 0 || e.IsState(matrix.TypeCreate, ""))
}

// locate reads the points before the events, and what the events that they name
// say. A snapshot is looked up once; and where an event has one parent which is
// among the events, its point follows from the parent's without a look-up.
func (v *Viewer) locate(events []storage.Event) error {
	byID := map[matrix.EventID]storage.Event{}
	for _, e := range events {
		if e.Num != 0 {
			byID[e.ID()] = e
		}
	}
	unread := map[storage.EventNum]struct{}{}
	for _, e := range events {
		if e.Num == 0 || !placed(e) {
			continue
		}
		p, err := v.pointBefore(e, byID)
		if err != nil {
			return fmt.Errorf("state at %s: %w", e.ID(), err)
		}
		for _, num := range [2]storage.EventNum{p.visibility, p.member} {
			if _, known := v.contents[num]; num != 0 && !known {
				unread[num] = struct{}{}
			}
		}
		v.learn(e)
	}
	nums := make([]storage.EventNum, 0, len(unread))
	for num := range unread {
		if _, known := v.contents[num]; !known {
			nums = append(nums, num)
		}
	}
	if len(nums) == 0 {
		return nil
	}
	said, err := v.rx.EventsByNum(nums)
	if err != nil {
		return fmt.Errorf("state at events: %w", err)
	}
	for _, e := range said {
		if e.Num != 0 {
			v.learn(e)
		}
	}
	return nil
}

// pointBefore finds the point before a placed event. It goes back through
// parents in byID to the first point that is known or has to be looked up, and
// comes forward from there.
func (v *Viewer) pointBefore(e storage.Event, byID map[matrix.EventID]storage.Event) (point, error) {
	chain := []storage.Event{e}
	for {
		oldest := chain[len(chain)-1]
		if _, known := v.points[oldest.StateBefore]; known {
			break
		}
		parent, ok := onlyParent(oldest, byID)
		if !ok {
			p, err := v.lookUp(oldest.StateBefore)
			if err != nil {
				return point{}, err
			}
			v.points[oldest.StateBefore] = p
			break
		}
		chain = append(chain, parent)
	}
	for i := len(chain) - 2; i >= 0; i-- {
		parent := chain[i+1]
		v.points[chain[i].StateBefore] = v.points[parent.StateBefore].after(v, parent)
	}
	return v.points[e.StateBefore], nil
}

// onlyParent finds the parent whose state, changed by the parent itself, is the
// state before e. A rejected parent changes nothing, so it does not serve.
func onlyParent(e storage.Event, byID map[matrix.EventID]storage.Event) (storage.Event, bool) {
	prev := e.PrevEvents()
	if len(prev) != 1 {
		return storage.Event{}, false
	}
	parent, ok := byID[prev[0]]
	ok = ok && parent.Room == e.Room && placed(parent) && parent.Standing == uint8(rules.Accepted)
	return parent, ok
}

func (v *Viewer) lookUp(s storage.StateNum) (point, error) {
	nums, err := v.rx.StateEvents(s,
		storage.StateKey{Type: matrix.TypeHistoryVisibility},
		storage.StateKey{Type: matrix.TypeMember, StateKey: string(v.user.ID)})
	if err != nil {
		return point{}, err
	}
	return point{visibility: nums[0], member: nums[1]}, nil
}

// learn keeps what an event says that visibility asks for.
func (v *Viewer) learn(e storage.Event) {
	switch {
	case e.IsState(matrix.TypeHistoryVisibility, ""):
		v.contents[e.Num] = visibilityOf(e)
	case e.IsState(matrix.TypeMember, string(v.user.ID)):
		v.contents[e.Num] = e.Membership()
	}
}

// visibilityOf is the history visibility that an event sets. A value that is not
// understood counts as "shared".
func visibilityOf(e storage.Event) string {
	var c struct {
		Visibility string `json:"history_visibility"`
	}
	if e.DecodeContent(&c) == nil {
		switch c.Visibility {
		case visibleToWorld, visibleInvited, visibleJoined:
			return c.Visibility
		}
	}
	return visibleShared
}

// visibility is the history visibility at a located point.
func (v *Viewer) visibility(p point) string {
	if p.visibility == 0 {
		return visibleShared
	}
	return v.contents[p.visibility]
}

// membership is the user's membership at a located point; there where they had
// none it is "leave".
func (v *Viewer) membership(p point) string {
	if p.member == 0 {
		return matrix.MembershipLeave
	}
	return v.contents[p.member]
}
