package rules_test

import (
	"regexp"
	"slices"
	"strconv"
)

// authorize applies all rules to an event against a state. It returns the number
// of the rule that refused, as the page of the room version counts them, or "".
func (r *refRoom) authorize(e *refEvent, state refState) string {
	if e.typ() == "m.room.create" {
		return r.ruleCreate(e)
	}
	if why := r.ruleAuthEvents(e); why != "" {
		return why
	}
	return r.ruleState(e, state)
}

// authorizeByAuthEvents is the check "based on the event's auth events".
func (r *refRoom) authorizeByAuthEvents(e *refEvent) string {
	return r.authorize(e, r.stateOfAuthEvents(e))
}

func (r *refRoom) stateOfAuthEvents(e *refEvent) refState {
	state := refState{}
	for _, id := range e.refs("auth_events") {
		if a := r.events[id]; a != nil {
			state[a.key()] = a
		}
	}
	return state
}

var (
	refServerName = `(?:[0-9A-Za-z.-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?`
	refUserID     = regexp.MustCompile("^@[^:\x00]*:" + refServerName + "$")
)

// refValidUserID accepts historical user IDs too. Appendices, "User Identifiers".
func refValidUserID(s string) bool { return len(s) <= 255 && refUserID.MatchString(s) }

// ruleCreate: 1. If type is m.room.create:
func (r *refRoom) ruleCreate(e *refEvent) string {
	// 1. If it has any prev_events, reject.
	if len(e.refs("prev_events")) > 0 {
		return "1.1"
	}
	// 2. If the domain of the room_id does not match the domain of the sender, reject.
	if r.version <= 11 && refDomain(e.roomID) != refDomain(e.sender()) {
		return "1.2"
	}
	// 2 (v12). If the event has a room_id, reject.
	if _, has := e.json["room_id"]; has && r.version >= 12 {
		return "1.2"
	}
	// 3. If content.room_version is present and is not a recognised version, reject.
	if v, has := e.content()["room_version"]; has {
		s, _ := v.(string)
		if n, err := strconv.Atoi(s); err != nil || n < 1 || n > 12 || strconv.Itoa(n) != s {
			return "1.3"
		}
	}
	// 4 (until v10). If content has no creator property, reject.
	if _, has := e.content()["creator"]; !has && r.version <= 10 {
		return "1.4"
	}
	// 4 (v12). If additional_creators is present and is not an array of valid user IDs, reject.
	if v, has := e.content()["additional_creators"]; has && r.version >= 12 {
		list, ok := v.([]any)
		if !ok {
			return "1.4"
		}
		for _, u := range list {
			if s, ok := u.(string); !ok || !refValidUserID(s) {
				return "1.4"
			}
		}
	}
	// Otherwise, allow.
	return ""
}

// ruleAuthEvents: 2 (v12: 2 and 3). Considering the event's auth_events:
func (r *refRoom) ruleAuthEvents(e *refEvent) string {
	if faults := r.authEventsFaults(e); len(faults) > 0 {
		return faults[0]
	}
	return ""
}

// authEventsFaults lists all points of that rule that the event breaks. It is refused
// for any of them, so in which order they are asked is nobody's concern.
func (r *refRoom) authEventsFaults(e *refEvent) []string {
	var faults []string
	p := "2"
	if r.version >= 12 {
		// 2 (v12). If the event's room_id is not an event ID for an accepted
		// m.room.create event, with the sigil ! instead of $, reject.
		create := r.createOfRoomID(e)
		if create == nil || create.typ() != "m.room.create" || create.rejected {
			faults = append(faults, "2")
		}
		p = "3"
	}
	var entries []*refEvent
	for _, id := range e.refs("auth_events") {
		entries = append(entries, r.events[id])
	}
	// 1. If there are duplicate entries for a given type and state_key pair, reject.
	for i, a := range entries {
		if slices.ContainsFunc(entries[:i], func(b *refEvent) bool { return a.key() == b.key() }) {
			faults = append(faults, p+".1")
		}
	}
	// 2. If there are entries whose type and state_key don't match those specified
	// by the auth events selection algorithm, reject.
	selected := r.authEventsSelection(e)
	for _, a := range entries {
		if _, isState := a.stateKey(); !isState || !slices.Contains(selected, a.key()) {
			faults = append(faults, p+".2")
		}
	}
	// 3. If there are entries which were themselves rejected, reject.
	for _, a := range entries {
		if a.rejected {
			faults = append(faults, p+".3")
		}
	}
	// 4 (until v11). If there is no m.room.create event among the entries, reject.
	if r.version <= 11 && !slices.ContainsFunc(entries, func(a *refEvent) bool { return a.typ() == "m.room.create" }) {
		faults = append(faults, p+".4")
	}
	// 5 (v12: the fourth). If any event in auth_events has a room_id which does not
	// match, reject.
	for _, a := range entries {
		if a.roomID != e.roomID {
			faults = append(faults, p+map[bool]string{true: ".4", false: ".5"}[r.version >= 12])
		}
	}
	return faults
}

// authEventsSelection: Server-Server API, "Auth events selection".
func (r *refRoom) authEventsSelection(e *refEvent) []refKey {
	if e.typ() == "m.room.create" {
		return nil
	}
	var keys []refKey
	if r.version <= 11 {
		keys = append(keys, refKey{"m.room.create", ""})
	}
	keys = append(keys, refKey{"m.room.power_levels", ""})
	keys = append(keys, refKey{"m.room.member", e.sender()})
	if e.typ() == "m.room.member" {
		if target, ok := e.stateKey(); ok {
			keys = append(keys, refKey{"m.room.member", target})
		}
		membership := e.text("membership")
		if membership == "join" || membership == "invite" || membership == "knock" {
			keys = append(keys, refKey{"m.room.join_rules", ""})
		}
		if third, ok := e.content()["third_party_invite"].(map[string]any); ok && membership == "invite" {
			signed, _ := third["signed"].(map[string]any)
			if token, ok := signed["token"].(string); ok {
				keys = append(keys, refKey{"m.room.third_party_invite", token})
			}
		}
		if via, ok := e.content()["join_authorised_via_users_server"].(string); ok &&
			membership == "join" && r.version >= 8 {
			keys = append(keys, refKey{"m.room.member", via})
		}
	}
	return keys
}

// createOfRoomID finds the create event that a version 12 room ID names.
func (r *refRoom) createOfRoomID(e *refEvent) *refEvent {
	if len(e.roomID) < 2 || e.roomID[0] != '!' {
		return nil
	}
	return r.events["$"+e.roomID[1:]]
}

// createIn is the create event in a room state. From version 12 on it is never
// among the auth_events: the room ID implies it.
func (r *refRoom) createIn(e *refEvent, state refState) *refEvent {
	if create := state[refKey{"m.room.create", ""}]; create != nil || r.version <= 11 {
		return create
	}
	return r.createOfRoomID(e)
}

// ruleState applies the rules that look at the room state, from m.federate on.
// The top numbers differ: 3 4 5 6 7 8 9 10 11 in v1 to v5; v6 dropped the aliases
// rule, v12 inserted one at the top.
func (r *refRoom) ruleState(e *refEvent, state refState) string {
	if e.typ() == "m.room.create" {
		return r.ruleCreate(e)
	}
	create := r.createIn(e, state)
	stateKey, isState := e.stateKey()
	senderPower := r.powerOf(e, e.sender(), state)

	// 3 (v12: 4). If m.federate is false and the sender domain of the event does not
	// match the sender domain of the create event, reject.
	if federate, ok := create.content()["m.federate"].(bool); ok && !federate &&
		refDomain(e.sender()) != refDomain(create.sender()) {
		return r.number(3, 3, 4)
	}
	// 4 (until v5). If type is m.room.aliases:
	if r.version <= 5 && e.typ() == "m.room.aliases" {
		if !isState {
			return "4.1"
		}
		if refDomain(e.sender()) != stateKey {
			return "4.2"
		}
		return ""
	}
	// 5 (v6: 4, v12: 5). If type is m.room.member:
	if e.typ() == "m.room.member" {
		if why := r.ruleMember(e, state); why != "" {
			return r.number(5, 4, 5) + "." + why
		}
		return ""
	}
	// 6 (v6: 5, v12: 6). If the sender's current membership state is not join, reject.
	if refMembership(state, e.sender()) != "join" {
		return r.number(6, 5, 6)
	}
	// 7 (v6: 6, v12: 7). m.room.third_party_invite: allow if and only if the
	// sender's power level is greater than or equal to the invite level.
	if e.typ() == "m.room.third_party_invite" {
		if senderPower.Cmp(r.level(state, "invite", 0)) < 0 {
			return r.number(7, 6, 7) + ".1"
		}
		return ""
	}
	// 8 (v6: 7, v12: 8). If the event type's required power level is greater than
	// the sender's power level, reject.
	if r.requiredPower(e, state).Cmp(senderPower) > 0 {
		return r.number(8, 7, 8)
	}
	// 9 (v6: 8, v12: 9). If the event has a state_key that starts with an @ and does
	// not match the sender, reject.
	if isState && len(stateKey) > 0 && stateKey[0] == '@' && stateKey != e.sender() {
		return r.number(9, 8, 9)
	}
	// 10 (v6: 9, v12: 10). If type is m.room.power_levels:
	if e.typ() == "m.room.power_levels" {
		if why := r.rulePowerLevels(e, state, create); why != "" {
			return r.number(10, 9, 10) + "." + why
		}
		return ""
	}
	// 11 (v1 and v2 only). If type is m.room.redaction:
	if r.version <= 2 && e.typ() == "m.room.redaction" {
		// 1. If the sender's power level is at least the redact level, allow.
		if senderPower.Cmp(r.level(state, "redact", 50)) >= 0 {
			return ""
		}
		// 2. If the domains of the two event IDs are the same, allow.
		if refDomain(e.str("redacts")) == refDomain(e.id) {
			return ""
		}
		return "11.3"
	}
	// Otherwise, allow.
	return ""
}

// number picks a rule's number for room versions 1 to 5, 6 to 11 and 12.
func (r *refRoom) number(v1, v6, v12 int) string {
	switch {
	case r.version <= 5:
		return strconv.Itoa(v1)
	case r.version <= 11:
		return strconv.Itoa(v6)
	}
	return strconv.Itoa(v12)
}
