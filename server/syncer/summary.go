package syncer

import (
	"errors"
	"strconv"
	"strings"

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
	if n.kind != kindJoin || !n.whole && !changesSummary(n.changes) {
		return nil, nil
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

func changesSummary(changes []storage.StateChange) bool {
	for _, c := range changes {
		if c.Type == matrix.TypeMember || c.StateKey == "" && (c.Type == typeName || c.Type == typeCanonicalAlias) {
			return true
		}
	}
	return false
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

func (s *summary) write(out *spill) {
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
	out.text(text.String())
}
