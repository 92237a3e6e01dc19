package syncer

import (
	"errors"
	"strconv"
	"strings"

	"hearth/server/spill"
	"hearth/storage"
	"hearth/storage/matrix"
)

// heroes is how many members a room without a name is named after.
const heroes = 5

// summary is what a client needs to name a room without all of its members.
type summary struct {
	named   bool // by its own name or alias: there are no heroes then
	heroes  []matrix.UserID
	joined  int64
	invited int64
}

// readSummary makes the summary of a joined room, nil where it is as it was.
// The heroes are told whenever the summary is: which they were is not kept.
func (b *builder) readSummary(n *news, room storage.Room) (*summary, error) {
	if n.kind != kindJoin {
		return nil, nil
	}
	if moved, err := b.movedSummary(n); err != nil || !moved {
		return nil, err
	}
	s := &summary{joined: room.Joined, invited: room.Invited}
	for _, by := range []struct{ typ, field string }{{typeName, "name"}, {typeCanonicalAlias, "alias"}} {
		e, err := b.rx.CurrentState(n.m.Room, by.typ, "")
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if hasText(e, by.field) {
			s.named = true
			return s, nil
		}
	}
	members, err := b.rx.Heroes(n.m.Room, n.m.User, heroes)
	if err == nil && len(members) == 0 {
		members, err = b.rx.PastHeroes(n.m.Room, n.m.User, heroes)
	}
	for _, m := range members {
		s.heroes = append(s.heroes, m.User)
	}
	return s, err
}

const (
	typeName           = "m.room.name"
	typeCanonicalAlias = "m.room.canonical_alias"
)

// movedSummary tells whether anything of the summary may have changed: whether
// the room is named, or who is in it. Another name or profile changes nothing.
func (b *builder) movedSummary(n *news) (bool, error) {
	if n.whole {
		return true, nil
	}
	var nums []storage.EventNum
	for _, c := range n.changes {
		if c.Type == matrix.TypeMember || c.StateKey == "" && (c.Type == typeName || c.Type == typeCanonicalAlias) {
			nums = append(nums, c.Was, c.Event)
		}
	}
	if len(nums) > 2*statePage { // so many that somebody came or went
		return true, nil
	}
	events, err := b.rx.EventsByNum(nums)
	for i := 0; i < len(events); i += 2 {
		was, is := events[i], events[i+1]
		if summed(was) != summed(is) || is.Replaces != was.Num { // more happened than the change of one event
			return true, nil
		}
	}
	return false, err
}

// summed is what an event says to the summary of a room; the zero event stands
// for none.
func summed(e storage.Event) string {
	switch {
	case e.Num == 0:
		return ""
	case e.Type() == matrix.TypeMember:
		return e.Membership()
	case hasText(e, "name") || hasText(e, "alias"):
		return "named"
	default:
		return ""
	}
}

// hasText tells whether the content has a text that is not empty there.
func hasText(e storage.Event, field string) bool {
	var content map[string]any
	if e.DecodeContent(&content) != nil {
		return false
	}
	s, _ := content[field].(string)
	return strings.TrimSpace(s) != ""
}

func (s *summary) write(out *spill.Buffer) {
	var text strings.Builder
	text.WriteString(`"summary":{`)
	if !s.named {
		text.WriteString(`"m.heroes":[`)
		for i, u := range s.heroes {
			if i > 0 {
				text.WriteByte(',')
			}
			text.WriteString(quote(string(u)))
		}
		text.WriteString(`],`)
	}
	text.WriteString(`"m.joined_member_count":` + strconv.FormatInt(s.joined, 10))
	text.WriteString(`,"m.invited_member_count":` + strconv.FormatInt(s.invited, 10) + `}`)
	out.Text(text.String())
}
