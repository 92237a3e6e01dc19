package rules

import (
	"fmt"
	"strconv"

	"hearth/storage/matrix"
)

// Refusal is the verdict "reject" of the authorization rules. [Authorize] and
// [CheckAuthEvents] return no other error for an event that is merely not
// allowed, so errors.As with a *Refusal tells a refused event from a failure.
type Refusal struct {
	Rule    Rule               // the rule that refused
	Version matrix.RoomVersion // whose numbering Section uses
	Event   matrix.EventID     // what was refused
}

// Error implements error: "event $x refused by v6 4.2.2 (join.not_self): ...".
func (r *Refusal) Error() string {
	return fmt.Sprintf("event %s refused by v%s %s (%s): %s",
		r.Event, r.Version, r.Section(), r.Rule, r.Rule.Text())
}

// Section is the rule's number on the room version's page, such as "4.2.2";
// empty if that version does not have the rule.
func (r *Refusal) Section() string { return r.Rule.Section(r.Version) }

// Is lets errors.Is(err, &Refusal{Rule: x}) ask for one rule whatever the
// event and version.
func (r *Refusal) Is(target error) bool {
	t, ok := target.(*Refusal)
	return ok && t.Rule == r.Rule && (t.Event == "" || t.Event == r.Event) &&
		(t.Version == "" || t.Version == r.Version)
}

// String is the rule's short machine name, such as "join.not_self".
func (r Rule) String() string {
	if line := r.line(); line != nil {
		return line.name
	}
	return "rule " + strconv.Itoa(int(r))
}

// Text says what the rule found wrong, for people.
func (r Rule) Text() string {
	if line := r.line(); line != nil {
		return line.text
	}
	return ""
}

// Section is the rule's number on the page of a room version, empty if that
// version does not have it. It is counted along the outline, so a rule that a
// version adds or drops moves the numbers behind it, as on the pages.
func (r Rule) Section(version matrix.RoomVersion) string {
	v, ok := matrix.VersionOf(version)
	if !ok {
		return ""
	}
	var counts [4]int
	for i := range outline {
		line := &outline[i]
		if line.when != nil && !line.when(v) {
			continue
		}
		counts[line.depth]++
		clear(counts[line.depth+1:])
		if line.rule == r && r != 0 {
			return dotted(counts[:line.depth+1])
		}
	}
	return ""
}

func dotted(numbers []int) string {
	var b []byte
	for i, n := range numbers {
		if i > 0 {
			b = append(b, '.')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return string(b)
}

func (r Rule) line() *outlineLine {
	for i := range outline {
		if outline[i].rule == r && r != 0 {
			return &outline[i]
		}
	}
	return nil
}
