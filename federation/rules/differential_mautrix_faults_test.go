//go:build oracle && goexperiment.jsonv2

package rules_test

import (
	"encoding/json"
	"strings"
)

// mautrixReading names a known difference in reading an event, "" if there is none.
func mautrixReading(ref *refEvent) string {
	// Room versions 3 to 5 let fractions and large integers through. mautrix cuts
	// them to what a double holds when it encodes canonical JSON; Appendices,
	// "Canonical JSON": servers "SHOULD be capable of handling" such numbers.
	if ref.version <= 5 && hasOddNumber(ref.json) {
		return "numbers that are not canonical"
	}
	// Room Version 11, "Event format": third_party_invite "is no longer redacted, but
	// will only contain the signed key". Ours keeps an empty object of one without
	// signed, mautrix nothing.
	third, ok := ref.content()["third_party_invite"].(map[string]any)
	if _, signed := third["signed"]; ok && !signed && ref.version >= 11 && ref.typ() == "m.room.member" {
		return "third_party_invite without signed, redacted"
	}
	return ""
}

func hasOddNumber(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if hasOddNumber(e) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if hasOddNumber(e) {
				return true
			}
		}
	case json.Number:
		return strings.ContainsAny(string(v), ".eE") || len(strings.TrimPrefix(string(v), "-")) > 15
	}
	return false
}

// mautrixFault names the known fault of mautrix that explains a verdict other than
// ours ("" where we allow), or "" if none does.
func mautrixFault(r *refRoom, ref *refEvent, view refState, ours, theirs string) string {
	content := ref.content()
	via, hasVia := content["join_authorised_via_users_server"]
	_, viaIsString := via.(string)
	power := view[refKey{"m.room.power_levels", ""}]
	joinRules := view[refKey{"m.room.join_rules", ""}]
	// Rule 3 (v12: 4) asks whether m.federate is false. mautrix decodes the create event
	// for the power levels too, and fails if m.federate is no boolean.
	if create := r.createIn(ref, view); create != nil && strings.Contains(theirs, "field .m.federate of type bool") {
		if _, isString := create.content()["m.federate"].(string); isString && ours == "" {
			return "m.federate that is a string"
		}
	}
	switch ref.typ() {
	case "m.room.create":
		// Rule 1.3 asks content.room_version. mautrix asks the version it was called with.
		if ours == "1.3" && theirs == "allowed" {
			return "1.3 is not asked of the content"
		}
		// "Each string passes the same user ID validation applied to sender".
		list, _ := content["additional_creators"].([]any)
		for _, u := range list {
			if s, ok := u.(string); ok && looseUserID(s) && ours == "1.4" && theirs == "allowed" {
				return "additional creator without a valid server name"
			}
		}
	case "m.room.aliases":
		// Rule 4 of room versions 3 to 5: mautrix has no such rule.
		if r.version <= 5 {
			return "no rule for aliases"
		}
	case "m.room.member":
		if hasVia && ours == "" && mautrixReading(ref) != "" && strings.Contains(theirs, "fail 5.2:") {
			return "signature of an event redacted otherwise"
		}
		if hasVia && r.version <= 7 && ours == "" && strings.Contains(theirs, "fail 5.2:") {
			return "authorising signature wanted before version 8" // rule 4.2 is "added in v8"
		}
		if hasVia && !viaIsString && strings.HasSuffix(ours, ".2.1") && theirs == "allowed" {
			return "authorising user that is no string" // the property is there: no server of its has signed
		}
		// "If the join_rule is ...": a value that is no string is none of them.
		if joinRules != nil && theirs == "allowed" && ref.text("membership") == "join" {
			if _, isString := joinRules.content()["join_rule"].(string); !isString {
				return "join_rule that is no string taken for invite"
			}
		}
		if third, ok := content["third_party_invite"].(map[string]any); ok && ours == "" {
			signed, _ := third["signed"].(map[string]any)
			switch {
			// mautrix looks for the keys in the invite instead of the m.room.third_party_invite.
			case strings.Contains(theirs, "fail 5.4.1.8:"):
				return "valid third-party invite refused"
			// "does not have ... token properties": an empty one is a property.
			case signed["token"] == "" && (strings.Contains(theirs, "fail 5.4.1.3:") || strings.Contains(theirs, "fail 3.2:")):
				return "third-party invite with an empty token"
			}
		}
	case "m.room.power_levels":
		users, _ := content["users"].(map[string]any)
		// Rule 10.1 (v6: 9.1): true is not an integer, except in Python.
		for _, v := range users {
			if _, isBool := v.(bool); isBool && r.version <= 9 && ours != "" && theirs == "allowed" {
				return "users level that is a boolean"
			}
		}
		// "Keys that are valid user IDs": the part after the colon is a server name.
		for user := range users {
			if looseUserID(user) && ours != "" && theirs == "allowed" {
				return "users key without a valid server name"
			}
		}
		// "The rules now include a notifications property" from room version 6 on.
		if r.version <= 5 && ours == "" && strings.Contains(theirs, "change notifications.") {
			return "notifications checked before version 6"
		}
		// The comparison with the sender's level dereferences the new level of an entry
		// that is being removed.
		if ours != "" && power != nil && strings.HasPrefix(theirs, "panic: ") && strings.Contains(theirs, "nil pointer") {
			old, _ := power.content()["users"].(map[string]any)
			for user := range old {
				if _, kept := users[user]; !kept {
					return "panic on removing an entry of users"
				}
			}
		}
	}
	return ""
}

// looseUserID tells user IDs whose server name is none: mautrix wants only that there
// is something after the colon.
func looseUserID(s string) bool {
	return strings.HasPrefix(s, "@") && refDomain(s) != "" && !refValidUserID(s)
}
