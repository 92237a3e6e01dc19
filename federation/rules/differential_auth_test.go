package rules_test

import (
	"errors"
	"fmt"
	"slices"

	"hearth/federation/rules"
	"hearth/storage/matrix"
)

// production is a graph as the code under test sees it.
type production struct {
	g      *graph
	events map[string]*matrix.Event
}

// standing says how the reference judged an event.
func (p *production) standing(ref *refEvent) rules.Standing {
	switch {
	case p.g.byAuth[ref.id] != "":
		return rules.RejectedByAuth
	case p.g.byState[ref.id] != "":
		return rules.RejectedByState
	}
	return rules.Accepted
}

func (p *production) stored(id string) rules.Stored {
	ref := p.g.room.events[id]
	if ref == nil || p.events[id] == nil {
		return rules.Stored{}
	}
	return rules.Stored{Event: p.events[id], Standing: p.standing(ref)}
}

func (p *production) state(s refState) rules.Events {
	out := rules.Events{}
	for _, e := range s {
		out.Add(p.events[e.id])
	}
	return out
}

func (p *production) authEvents(ref *refEvent) []rules.Stored {
	var auth []rules.Stored
	for _, id := range ref.refs("auth_events") {
		auth = append(auth, p.stored(id))
	}
	return auth
}

// verdict is the section of the rule that refused, or "" for an event allowed.
func verdict(err error) string {
	var refusal *rules.Refusal
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refusal):
		return refusal.Section()
	}
	return "failure: " + err.Error()
}

// byAuth is the production verdict by the event's auth events.
func (p *production) byAuth(ref *refEvent) string {
	create := rules.Stored{}
	if p.g.version >= 12 && len(ref.roomID) > 1 {
		create = p.stored("$" + ref.roomID[1:])
	}
	return verdict(rules.AuthorizeByAuthEvents(p.events[ref.id], p.authEvents(ref), create))
}

// byState is the production verdict by the state before the event, the rules about
// auth_events included.
func (p *production) byState(ref *refEvent) string {
	ev := p.events[ref.id]
	if ref.typ() != "m.room.create" {
		if why := verdict(rules.CheckAuthEvents(ev, p.authEvents(ref))); why != "" {
			return why
		}
	}
	return verdict(rules.Authorize(ev, p.state(p.g.before[ref.id])))
}

// compareVerdicts checks every event of the graph by its auth events and by the
// state before it, and which auth events it should have had.
func (d *differences) compareVerdicts(g *graph, events map[string]*matrix.Event) {
	p := &production{g, events}
	for _, ref := range slices.Concat(g.foreign[:1], g.order) {
		ev := events[ref.id]
		about := string(g.raw[ref.id])
		if signedAsRequired(ev) != nil {
			// Signatures are checked before the rules are asked. Rule 4.2.1 (v12: 5.2.1) is
			// the only one that asks for them, so the reference must refuse the event.
			d.same("verdict on missing signatures", g, about, g.byAuth[ref.id] == "", false)
			continue
		}
		d.same("verdict by auth events", g, about, p.oneOf(ref, p.byAuth(ref)), g.byAuth[ref.id])
		d.same("verdict by state", g, about, p.oneOf(ref, p.byState(ref)), g.byState[ref.id])
		if via, has := ref.content()["join_authorised_via_users_server"]; has && !refIsUserID(via) {
			// Selecting "the m.room.member event with state_key matching" something that
			// cannot be one, or not: rule 4.2.1 (v12: 5.2.1) refuses the event anyway.
			continue
		}
		d.same("auth events selection", g, about, authKeysOf(ev), fmt.Sprint(refDistinct(g.room.authEventsSelection(ref))))
	}
}

// oneOf takes any of the faults in the auth_events for the first: the text refuses
// the event for each of them, and only the order of asking differs.
func (p *production) oneOf(ref *refEvent, got string) string {
	if ref.typ() == "m.room.create" {
		return got
	}
	if faults := p.g.room.authEventsFaults(ref); slices.Contains(faults, got) {
		return faults[0]
	}
	return got
}

func refIsUserID(v any) bool {
	s, ok := v.(string)
	return ok && refValidUserID(s)
}

func authKeysOf(ev *matrix.Event) string {
	var keys []refKey
	for _, k := range rules.AuthKeys(ev) {
		keys = append(keys, refKey{k.Type, k.StateKey})
	}
	return fmt.Sprint(refDistinct(keys))
}

// refDistinct sorts keys and drops doubles: the selection is a set.
func refDistinct(keys []refKey) []refKey {
	s := refState{}
	for _, k := range keys {
		s[k] = nil
	}
	return refSortedKeys(s)
}
