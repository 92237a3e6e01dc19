package rules_test

import (
	"encoding/json"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// refInfinite stands for the power of version 12's room creators.
var refInfinite = new(big.Int).Lsh(big.NewInt(1), 4096)

var refStringLevel = regexp.MustCompile(`^[ \t\r\n]*[+-]?[0-9]+[ \t\r\n]*$`)

// refLevel reads a power level as the room version writes them: integers; strings
// until v9; floats, truncated, until v5.
func refLevel(version int, v any) (*big.Int, bool) {
	switch v := v.(type) {
	case json.Number:
		if i, ok := new(big.Int).SetString(string(v), 10); ok {
			return i, true
		}
		if version <= 5 {
			// "Values outside the range represented by IEEE 754 binary64 cause the event
			// to be rejected". Exponents first, then truncation at the decimal point.
			if f, err := strconv.ParseFloat(string(v), 64); err != nil || math.IsInf(f, 0) {
				return nil, false
			}
			exact, _ := new(big.Rat).SetString(string(v))
			return new(big.Int).Quo(exact.Num(), exact.Denom()), true
		}
	case string:
		if version <= 9 && refStringLevel.MatchString(v) {
			return new(big.Int).SetString(strings.TrimPrefix(strings.TrimSpace(v), "+"), 10)
		}
	}
	return nil, false
}

// creator is the room's creator: content.creator until v10, from v11 on the sender.
func (r *refRoom) creator(create *refEvent) string {
	if r.version >= 11 {
		return create.sender()
	}
	return create.text("creator")
}

// isCreator tells version 12's room creators: the sender and any additional_creators.
func (r *refRoom) isCreator(create *refEvent, user string) bool {
	if create.sender() == user {
		return true
	}
	list, _ := create.content()["additional_creators"].([]any)
	for _, u := range list {
		if u == user {
			return true
		}
	}
	return false
}

// powerOf is a user's power level in the room state.
func (r *refRoom) powerOf(e *refEvent, user string, state refState) *big.Int {
	create := r.createIn(e, state)
	if r.version >= 12 && r.isCreator(create, user) {
		return refInfinite
	}
	pl := state[refKey{"m.room.power_levels", ""}]
	if pl == nil {
		// "If the room contains no m.room.power_levels event, the room's creator has a
		// power level of 100, and all other users have a power level of 0."
		if create != nil && user == r.creator(create) {
			return big.NewInt(100)
		}
		return big.NewInt(0)
	}
	users, _ := pl.content()["users"].(map[string]any)
	if level, ok := refLevel(r.version, users[user]); ok {
		return level
	}
	return r.level(state, "users_default", 0)
}

// level is one of the named levels in the room state, or its default.
func (r *refRoom) level(state refState, name string, byDefault int64) *big.Int {
	if pl := state[refKey{"m.room.power_levels", ""}]; pl != nil {
		if level, ok := refLevel(r.version, pl.content()[name]); ok {
			return level
		}
	}
	return big.NewInt(byDefault)
}

// requiredPower: Server-Server API, "Required Power Level".
func (r *refRoom) requiredPower(e *refEvent, state refState) *big.Int {
	if pl := state[refKey{"m.room.power_levels", ""}]; pl != nil {
		events, _ := pl.content()["events"].(map[string]any)
		if level, ok := refLevel(r.version, events[e.typ()]); ok {
			return level
		}
	}
	if _, isState := e.stateKey(); isState {
		return r.level(state, "state_default", 50)
	}
	return r.level(state, "events_default", 0)
}

// rulePowerLevels is the rule for m.room.power_levels. It returns the number below
// that rule, which v10 shifts by two and v12 by one more.
func (r *refRoom) rulePowerLevels(e *refEvent, state refState, create *refEvent) string {
	content := e.content()
	names := []string{"users_default", "events_default", "state_default", "ban", "redact", "kick", "invite"}
	shift := 0
	if r.version >= 10 {
		shift = 2
		// 1 (v10). If any of the named properties are present and not an integer, reject.
		for _, name := range names {
			if v, has := content[name]; has && !r.isLevel(v) {
				return "1"
			}
		}
		// 2 (v10). If events or notifications are present and not an object with values
		// that are integers, reject.
		for _, name := range []string{"events", "notifications"} {
			if v, has := content[name]; has && !r.isLevels(v) {
				return "2"
			}
		}
	}
	// 1 (v10: 3). If users is not an object with keys that are valid user IDs with
	// values that are integers (until v9: or a string that is an integer), reject.
	// The schema lets an event leave users out.
	if v, has := content["users"]; has {
		if !r.isLevels(v) {
			return strconv.Itoa(1 + shift)
		}
		for user := range v.(map[string]any) {
			if !refValidUserID(user) {
				return strconv.Itoa(1 + shift)
			}
		}
	}
	// 4 (v12). If users contains a room creator, reject.
	if users, ok := content["users"].(map[string]any); ok && r.version >= 12 {
		for user := range users {
			if r.isCreator(create, user) {
				return "4"
			}
		}
	}
	if r.version >= 12 {
		shift = 3
	}
	// 2 (v10: 4, v12: 5). If there is no previous m.room.power_levels event, allow.
	previous := state[refKey{"m.room.power_levels", ""}]
	if previous == nil {
		return ""
	}
	mine := r.powerOf(e, e.sender(), state)
	old := previous.content()
	// 3 (v10: 5, v12: 6). For each named property added, changed or removed: if the
	// current value or the new value is greater than the sender's power level, reject.
	for _, name := range names {
		now, hasNow := refLevel(r.version, old[name])
		then, hasThen := refLevel(r.version, content[name])
		if hasNow == hasThen && (!hasNow || now.Cmp(then) == 0) {
			continue
		}
		if hasNow && now.Cmp(mine) > 0 {
			return strconv.Itoa(3+shift) + ".1"
		}
		if hasThen && then.Cmp(mine) > 0 {
			return strconv.Itoa(3+shift) + ".2"
		}
	}
	// 4 and 5 (v10: 6, 7; v12: 7, 8). Entries of events (v6: or notifications) changed or
	// removed: the current value; added or changed: the new value.
	for _, name := range []string{"events", "notifications"} {
		if name == "notifications" && r.version <= 5 {
			continue
		}
		for _, c := range r.changes(old[name], content[name]) {
			if c.now != nil && c.now.Cmp(mine) > 0 {
				return strconv.Itoa(4+shift) + ".1"
			}
		}
		for _, c := range r.changes(old[name], content[name]) {
			if c.then != nil && c.then.Cmp(mine) > 0 {
				return strconv.Itoa(5+shift) + ".1"
			}
		}
	}
	// 6 (v10: 8, v12: 9). Entries of users changed or removed, other than the sender's
	// own: if the current value is greater than or equal to the sender's, reject.
	for _, c := range r.changes(old["users"], content["users"]) {
		if c.key != e.sender() && c.now != nil && c.now.Cmp(mine) >= 0 {
			return strconv.Itoa(6+shift) + ".1"
		}
	}
	// 7 (v10: 9, v12: 10). Entries of users added or changed: the new value.
	for _, c := range r.changes(old["users"], content["users"]) {
		if c.then != nil && c.then.Cmp(mine) > 0 {
			return strconv.Itoa(7+shift) + ".1"
		}
	}
	return ""
}

func (r *refRoom) isLevel(v any) bool {
	_, ok := refLevel(r.version, v)
	return ok
}

func (r *refRoom) isLevels(v any) bool {
	obj, ok := v.(map[string]any)
	for _, level := range obj {
		ok = ok && r.isLevel(level)
	}
	return ok
}

// refChange is an entry that two maps of levels do not agree on.
type refChange struct {
	key       string
	now, then *big.Int
}

func (r *refRoom) changes(old, new any) []refChange {
	var out []refChange
	before, _ := old.(map[string]any)
	after, _ := new.(map[string]any)
	keys := map[string]bool{}
	for k := range before {
		keys[k] = true
	}
	for k := range after {
		keys[k] = true
	}
	for k := range keys {
		now, _ := refLevel(r.version, before[k])
		then, _ := refLevel(r.version, after[k])
		if now == nil && then == nil || now != nil && then != nil && now.Cmp(then) == 0 {
			continue
		}
		out = append(out, refChange{k, now, then})
	}
	return out
}
