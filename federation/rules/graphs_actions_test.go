package rules_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// act makes an event that somebody might send in the state: likely allowed, but
// nobody makes sure.
func (g *graph) act(state refState) map[string]any {
	joined := g.members(state, "join")
	actor := pick(g, g.users...)
	if len(joined) > 0 && g.chance(0.93) {
		actor = pick(g, joined...)
		if g.chance(0.6) { // those with power make the interesting conflicts
			actor = g.strongest(state, g.mortals(joined))
		}
	}
	target := pick(g, g.users...)
	switch n := g.rng.IntN(100); {
	case n < 20:
		return g.powerLevels(actor, state)
	case n < 27:
		return g.joinRules(actor)
	case n < 45:
		return g.join(state)
	case n < 54:
		return g.member(actor, target, "invite")
	case n < 61:
		return g.member(actor, target, "ban")
	case n < 69:
		if banned := g.members(state, "ban"); len(banned) > 0 && g.chance(0.6) {
			target = pick(g, banned...)
		}
		return g.member(actor, target, "leave")
	case n < 73:
		if in := append(joined, g.members(state, "knock")...); len(in) > 0 && g.chance(0.8) {
			target = pick(g, in...)
		}
		return g.member(target, target, "leave")
	case n < 77:
		knocker := pick(g, target, target, actor)
		if rule := refJoinRule(state); !strings.HasPrefix(rule, "knock") && !g.chance(0.15) {
			return g.member(actor, target, "invite")
		}
		return g.member(knocker, pick(g, knocker, knocker, knocker, target), "knock")
	case n < 80:
		return g.issueThirdPartyInvite(actor)
	case n < 86:
		issued := 0
		for _, token := range graphTokens {
			if state[refKey{"m.room.third_party_invite", token}] != nil {
				issued++
			}
		}
		if issued == 0 && !g.chance(0.05) {
			return g.issueThirdPartyInvite(actor)
		}
		return g.useThirdPartyInvite(actor, target, state)
	case n < 89:
		return g.redaction(actor)
	case n < 91:
		return g.aliases(actor)
	case n < 96:
		return g.plainState(actor)
	case n < 98:
		content := map[string]any{"body": fmt.Sprint("h\u00e9llo \"", g.serial, "\"\n\u0001\u2028\U0001f600")}
		if g.version <= 5 && g.chance(0.3) {
			content["n"] = pick(g, json.Number("9007199254740993"), json.Number("-9223372036854775808"), json.Number("0.5"))
		}
		return map[string]any{"type": pick(g, "m.room.message", "m.custom"), "sender": actor, "content": content}
	}
	return g.strayCreate(actor)
}

// strayCreate is one more create event, as no honest server would send.
func (g *graph) strayCreate(actor string) map[string]any {
	content := map[string]any{"room_version": fmt.Sprint(g.version), "creator": actor}
	switch g.rng.IntN(4) {
	case 0:
		content["room_version"] = pick[any](g, "0", "13", "01", "x", "", 1, nil)
	case 1:
		delete(content, "creator")
	case 2:
		content["additional_creators"] = pick[any](g, nil, "x", []any{}, []any{1}, []any{"alice"}, []any{actor, "@a:b c"})
	}
	ev := map[string]any{"type": "m.room.create", "state_key": "", "sender": actor, "content": content}
	if g.version >= 12 && g.chance(0.7) {
		ev["-room"] = "none"
	}
	return ev
}

func (g *graph) members(state refState, membership string) []string {
	var out []string
	for _, u := range g.users {
		if refMembership(state, u) == membership {
			out = append(out, u)
		}
	}
	return out
}

// mortals leaves out version 12's creators most of the time: they may do everything,
// which tries few rules.
func (g *graph) mortals(users []string) []string {
	var out []string
	for _, u := range users {
		if g.version <= 11 || !g.room.isCreator(g.order[0], u) {
			out = append(out, u)
		}
	}
	if len(out) == 0 || g.chance(0.3) {
		return users
	}
	return out
}

func (g *graph) strongest(state refState, users []string) string {
	best := users[0]
	at := &refEvent{version: g.version, json: map[string]any{}, roomID: g.roomID}
	for _, u := range users {
		if g.room.powerOf(at, u, state).Cmp(g.room.powerOf(at, best, state)) > 0 {
			best = u
		}
	}
	return best
}

func (g *graph) member(sender, target, membership string) map[string]any {
	content := map[string]any{"membership": membership}
	if g.chance(0.2) {
		content["displayname"] = fmt.Sprint("n", g.serial)
	}
	return map[string]any{"type": "m.room.member", "state_key": target, "sender": sender, "content": content}
}

// join makes a user join, through an authorising user where the rule wants one.
func (g *graph) join(state refState) map[string]any {
	user := pick(g, g.users...)
	if g.chance(0.7) {
		for _, u := range g.users {
			if m := refMembership(state, u); m != "join" && m != "ban" && g.chance(0.4) {
				user = u
			}
		}
	}
	rule := refJoinRule(state)
	restricted := rule == "restricted" || rule == "knock_restricted"
	if rule != "public" && !restricted && g.chance(0.75) {
		in := append(g.members(state, "invite"), g.members(state, "join")...)
		if len(in) > 0 {
			user = in[0]
		}
	}
	ev := g.member(user, user, "join")
	if (restricted && g.chance(0.85)) || g.chance(0.03) {
		via := pick(g, g.users...)
		if joined := g.members(state, "join"); len(joined) > 0 && g.chance(0.8) {
			via = pick(g, joined...)
		}
		ev["content"].(map[string]any)["join_authorised_via_users_server"] = via
		switch {
		case g.chance(0.85):
			ev["-signers"] = []string{refDomain(via)}
		case g.chance(0.5):
			ev["-signers"] = []string{"!" + refDomain(via)}
		}
	}
	return ev
}

func (g *graph) joinRules(sender string) map[string]any {
	rule := pick(g, "public", "public", "public", "public", "invite", "invite", "knock", "restricted",
		"restricted", "knock_restricted", "private")
	if g.chance(0.02) {
		rule = "strange"
	}
	content := map[string]any{"join_rule": rule}
	if rule == "restricted" {
		content["allow"] = []any{map[string]any{"type": "m.room_membership", "room_id": "!else:one.test"}}
	}
	return map[string]any{"type": "m.room.join_rules", "state_key": "", "sender": sender, "content": content}
}

func (g *graph) plainState(sender string) map[string]any {
	typ := pick(g, "m.room.topic", "m.room.topic", "m.room.name", "m.room.history_visibility", "m.custom.state")
	key := ""
	if typ == "m.custom.state" {
		key = pick(g, "", "x", "@", sender, pick(g, g.users...))
	}
	return map[string]any{"type": typ, "state_key": key, "sender": sender, "content": map[string]any{
		"topic": fmt.Sprint("t", g.serial), "history_visibility": pick(g, "shared", "joined"), "n": g.serial}}
}

func (g *graph) aliases(sender string) map[string]any {
	server := pick(g, refDomain(sender), refDomain(sender), pick(g, graphServers...), "")
	ev := map[string]any{"type": "m.room.aliases", "state_key": server, "sender": sender,
		"content": map[string]any{"aliases": []any{fmt.Sprint("#a", g.serial, ":", server)}}}
	if g.chance(0.1) {
		delete(ev, "state_key")
	}
	return ev
}

func (g *graph) redaction(sender string) map[string]any {
	target := pick(g, g.order...).id
	if g.version <= 2 && g.chance(0.1) {
		target = "$unheard-of:" + pick(g, graphServers...)
	}
	ev := map[string]any{"type": "m.room.redaction", "sender": sender, "content": map[string]any{"reason": "r"}}
	switch {
	case g.version >= 11:
		ev["content"].(map[string]any)["redacts"] = target
	case !g.chance(0.05):
		ev["redacts"] = target
	}
	return ev
}

var graphTokens = []string{"tok1", "tok2", ""}

func (g *graph) issueThirdPartyInvite(sender string) map[string]any {
	key := func(name string) string {
		if g.chance(0.3) {
			return base64.RawURLEncoding.EncodeToString(publicBytes(name))
		}
		return base64.RawStdEncoding.EncodeToString(publicBytes(name))
	}
	content := map[string]any{"display_name": "d", "key_validity_url": "https://id.test/valid", "public_key": key("id.test")}
	if g.chance(0.5) {
		content["public_keys"] = []any{map[string]any{"public_key": key("id2.test")},
			map[string]any{"public_key": base64.URLEncoding.EncodeToString(publicBytes("id.test"))}}
	}
	if g.chance(0.1) {
		delete(content, "public_key")
	}
	return map[string]any{"type": "m.room.third_party_invite", "state_key": pick(g, graphTokens...),
		"sender": sender, "content": content}
}

// useThirdPartyInvite binds an issued token to a user, well or badly.
func (g *graph) useThirdPartyInvite(sender, target string, state refState) map[string]any {
	token := pick(g, graphTokens...)
	for _, t := range graphTokens {
		if state[refKey{"m.room.third_party_invite", token}] == nil && g.chance(0.8) {
			token = t
		}
	}
	if issued := state[refKey{"m.room.third_party_invite", token}]; issued != nil && g.chance(0.9) {
		sender = issued.sender()
	}
	mxid := target
	if g.chance(0.1) {
		mxid = pick(g, g.users...)
	}
	signed := map[string]any{"mxid": mxid, "token": token}
	if g.chance(0.05) || token == "" && g.chance(0.5) {
		signed["token"] = pick[any](g, json.Number("5"), "tok9", nil, "")
	}
	signer := pick(g, "id.test", "id.test", "id2.test")
	refSign(signed, signer, "ed25519:0", graphKeys[signer])
	switch g.rng.IntN(12) {
	case 0:
		signed["mxid"] = target // perhaps not what was signed
	case 1:
		delete(signed, "signatures")
	case 2:
		delete(signed, pick(g, "mxid", "token"))
	case 3:
		signed["extra"] = 1 // not covered by the signature
	case 4:
		refSign(signed, "wrong.test", "ed25519:9", graphKeys["one.test"])
	}
	third := map[string]any{"display_name": "d", "signed": signed}
	if g.chance(0.05) {
		delete(third, "signed")
	}
	ev := g.member(sender, target, "invite")
	ev["content"].(map[string]any)["third_party_invite"] = third
	if g.chance(0.05) {
		ev["content"].(map[string]any)["membership"] = pick(g, "join", "leave")
	}
	return ev
}

func publicBytes(name string) []byte {
	return graphKeys[name].Public().(ed25519.PublicKey)
}
