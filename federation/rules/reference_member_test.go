package rules_test

import "slices"

// refMembership is a user's current membership state, "" if there is none.
func refMembership(state refState, user string) string {
	if m := state[refKey{"m.room.member", user}]; m != nil {
		return m.text("membership")
	}
	return ""
}

// refJoinRule is the current join_rule, "" if the event has none. In a room without
// the event it is "invite": see TestSettledNoJoinRules.
func refJoinRule(state refState) string {
	if j := state[refKey{"m.room.join_rules", ""}]; j != nil {
		return j.text("join_rule")
	}
	return "invite"
}

// ruleMember is the rule for m.room.member. It returns the number below that rule.
func (r *refRoom) ruleMember(e *refEvent, state refState) string {
	content := e.content()
	_, hasStateKey := e.stateKey()
	// 1. If there is no state_key property, or no membership property in content, reject.
	if _, has := content["membership"]; !has || !hasStateKey {
		return "1"
	}
	// 2 (v8). If content has a join_authorised_via_users_server property: if the event
	// is not validly signed by the homeserver of the user ID, reject.
	if via, has := content["join_authorised_via_users_server"]; has && r.version >= 8 {
		user, _ := via.(string)
		if !r.signedByServer(e, refDomain(user)) {
			return "2.1"
		}
	}
	p := [4]string{"2", "3", "4", "5"} // join, invite, leave, ban
	if r.version >= 8 {
		p = [4]string{"3", "4", "5", "6"}
	}
	switch e.text("membership") {
	case "join":
		return r.ruleJoin(e, state, p[0])
	case "invite":
		return r.ruleInvite(e, state, p[1])
	case "leave":
		return r.ruleLeave(e, state, p[2])
	case "ban":
		return r.ruleBan(e, state, p[3])
	case "knock":
		if r.version >= 8 {
			return r.ruleKnock(e, state, "7")
		}
		if r.version == 7 {
			return r.ruleKnock(e, state, "6")
		}
	}
	// Otherwise, the membership is unknown. Reject.
	return map[bool]string{r.version <= 6: "6", r.version == 7: "7", r.version >= 8: "8"}[true]
}

// signedByServer tells whether the event is validly signed by a server: every
// signature of its known keys holds, and there is one.
func (r *refRoom) signedByServer(e *refEvent, server string) bool {
	redacted := refRedact(r.version, e.json)
	all, _ := redacted["signatures"].(map[string]any)
	mine, _ := all[server].(map[string]any)
	good := 0
	for keyID := range mine {
		key, known := r.keys[server][keyID]
		if !known {
			continue
		}
		if !refSignedBy(redacted, server, keyID, key) {
			return false
		}
		good++
	}
	return good > 0
}

func (r *refRoom) ruleJoin(e *refEvent, state refState, p string) string {
	create := r.createIn(e, state)
	target, _ := e.stateKey()
	// 1. If the only previous event is an m.room.create and the state_key is the
	// creator (v11: the sender of the m.room.create), allow.
	if prev := e.refs("prev_events"); len(prev) == 1 && r.events[prev[0]] != nil &&
		r.events[prev[0]].typ() == "m.room.create" && target == r.creator(create) {
		return ""
	}
	// 2. If the sender does not match state_key, reject.
	if e.sender() != target {
		return p + ".2"
	}
	// 3. If the sender is banned, reject.
	membership := refMembership(state, e.sender())
	if membership == "ban" {
		return p + ".3"
	}
	// 4. If the join_rule is invite (v7: or knock) then allow if membership state is
	// invite or join.
	rule := refJoinRule(state)
	if rule == "invite" || rule == "knock" && r.version >= 7 {
		if membership == "invite" || membership == "join" {
			return ""
		}
	}
	// 5 (v8). If the join_rule is restricted (v10: or knock_restricted):
	if rule == "restricted" && r.version >= 8 || rule == "knock_restricted" && r.version >= 10 {
		// 1. If membership state is join or invite, allow.
		if membership == "join" || membership == "invite" {
			return ""
		}
		// 2. If join_authorised_via_users_server is not a user with sufficient permission
		// to invite other users or is not a joined member of the room, reject.
		via, ok := e.content()["join_authorised_via_users_server"].(string)
		if !ok || r.powerOf(e, via, state).Cmp(r.level(state, "invite", 0)) < 0 ||
			refMembership(state, via) != "join" {
			return p + ".5.2"
		}
		// 3. Otherwise, allow.
		return ""
	}
	// 5 (v8: 6). If the join_rule is public, allow.
	if rule == "public" {
		return ""
	}
	// 6 (v8: 7). Otherwise, reject.
	if r.version >= 8 {
		return p + ".7"
	}
	return p + ".6"
}

func (r *refRoom) ruleInvite(e *refEvent, state refState, p string) string {
	target, _ := e.stateKey()
	// 1. If content has a third_party_invite property:
	if third, has := e.content()["third_party_invite"]; has {
		if why := r.ruleThirdPartyInvite(e, state, third); why != "" {
			return p + "." + why
		}
		return ""
	}
	// 2. If the sender's current membership state is not join, reject.
	if refMembership(state, e.sender()) != "join" {
		return p + ".2"
	}
	// 3. If target user's current membership state is join or ban, reject.
	if m := refMembership(state, target); m == "join" || m == "ban" {
		return p + ".3"
	}
	// 4. If the sender's power level is at least the invite level, allow.
	if r.powerOf(e, e.sender(), state).Cmp(r.level(state, "invite", 0)) >= 0 {
		return ""
	}
	// 5. Otherwise, reject.
	return p + ".5"
}

func (r *refRoom) ruleThirdPartyInvite(e *refEvent, state refState, third any) string {
	target, _ := e.stateKey()
	// 1. If target user is banned, reject.
	if refMembership(state, target) == "ban" {
		return "1.1"
	}
	// 2. If content.third_party_invite does not have a signed property, reject.
	invite, _ := third.(map[string]any)
	if _, has := invite["signed"]; !has {
		return "1.2"
	}
	// 3. If signed does not have mxid and token properties, reject.
	signed, _ := invite["signed"].(map[string]any)
	mxid, hasMXID := signed["mxid"]
	token, hasToken := signed["token"]
	if !hasMXID || !hasToken {
		return "1.3"
	}
	// 4. If mxid does not match state_key, reject.
	if mxid != target {
		return "1.4"
	}
	// 5. If there is no m.room.third_party_invite event in the current room state
	// with state_key matching token, reject.
	tok, isString := token.(string)
	issued := state[refKey{"m.room.third_party_invite", tok}]
	if !isString || issued == nil {
		return "1.5"
	}
	// 6. If sender does not match sender of the m.room.third_party_invite, reject.
	if e.sender() != issued.sender() {
		return "1.6"
	}
	// 7. If any signature in signed matches any public key in the
	// m.room.third_party_invite event, allow.
	signatures, _ := signed["signatures"].(map[string]any)
	for server, list := range signatures {
		list, _ := list.(map[string]any)
		for keyID := range list {
			for _, key := range refInviteKeys(issued) {
				if refSignedBy(signed, server, keyID, key) {
					return ""
				}
			}
		}
	}
	// 8. Otherwise, reject.
	return "1.8"
}

// refInviteKeys: a single public key in public_key, and a list in public_keys.
func refInviteKeys(issued *refEvent) [][]byte {
	keys := [][]byte{refUnbase64(issued.text("public_key"))}
	list, _ := issued.content()["public_keys"].([]any)
	for _, entry := range list {
		entry, _ := entry.(map[string]any)
		key, _ := entry["public_key"].(string)
		keys = append(keys, refUnbase64(key))
	}
	return keys
}

func (r *refRoom) ruleLeave(e *refEvent, state refState, p string) string {
	target, _ := e.stateKey()
	senderPower := r.powerOf(e, e.sender(), state)
	// 1. If the sender matches state_key, allow if and only if that user's current
	// membership state is invite or join (v7: or knock).
	if e.sender() == target {
		m := refMembership(state, target)
		if m == "invite" || m == "join" || m == "knock" && r.version >= 7 {
			return ""
		}
		return p + ".1"
	}
	// 2. If the sender's current membership state is not join, reject.
	if refMembership(state, e.sender()) != "join" {
		return p + ".2"
	}
	// 3. If the target user's current membership state is ban, and the sender's power
	// level is less than the ban level, reject.
	if refMembership(state, target) == "ban" && senderPower.Cmp(r.level(state, "ban", 50)) < 0 {
		return p + ".3"
	}
	// 4. If the sender's power level is at least the kick level, and the target user's
	// power level is less than the sender's power level, allow.
	if senderPower.Cmp(r.level(state, "kick", 50)) >= 0 && r.powerOf(e, target, state).Cmp(senderPower) < 0 {
		return ""
	}
	// 5. Otherwise, reject.
	return p + ".5"
}

func (r *refRoom) ruleBan(e *refEvent, state refState, p string) string {
	target, _ := e.stateKey()
	senderPower := r.powerOf(e, e.sender(), state)
	// 1. If the sender's current membership state is not join, reject.
	if refMembership(state, e.sender()) != "join" {
		return p + ".1"
	}
	// 2. If the sender's power level is at least the ban level, and the target user's
	// power level is less than the sender's power level, allow.
	if senderPower.Cmp(r.level(state, "ban", 50)) >= 0 && r.powerOf(e, target, state).Cmp(senderPower) < 0 {
		return ""
	}
	// 3. Otherwise, reject.
	return p + ".3"
}

func (r *refRoom) ruleKnock(e *refEvent, state refState, p string) string {
	target, _ := e.stateKey()
	// 1. If the join_rule is anything other than knock (v10: or knock_restricted), reject.
	if rule := refJoinRule(state); rule != "knock" && !(rule == "knock_restricted" && r.version >= 10) {
		return p + ".1"
	}
	// 2. If sender does not match state_key, reject.
	if e.sender() != target {
		return p + ".2"
	}
	// 3. If the sender's current membership is not ban, invite, or join, allow.
	if !slices.Contains([]string{"ban", "invite", "join"}, refMembership(state, e.sender())) {
		return ""
	}
	// 4. Otherwise, reject.
	return p + ".4"
}
