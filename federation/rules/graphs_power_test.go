package rules_test

import (
	"encoding/json"
	"fmt"
	"sort"
)

var graphLevelNames = []string{"users_default", "events_default", "state_default", "ban", "redact", "kick", "invite"}

var graphEventTypes = []string{"m.room.topic", "m.room.name", "m.room.message", "m.room.power_levels",
	"m.room.join_rules", "m.room.redaction", "m.room.member", "m.custom.state"}

// firstPowerLevels is what a server sends with a new room, more or less.
func (g *graph) firstPowerLevels(creator string) map[string]any {
	users := map[string]any{}
	for _, u := range g.users {
		if g.chance(0.5) {
			users[u] = pick(g, 0, 50, 50, 75, 100)
		}
	}
	if g.version <= 11 || g.chance(0.05) {
		users[creator] = 100
	} else {
		delete(users, creator)
	}
	if create := g.order[0]; g.version >= 12 && !g.chance(0.1) {
		for u := range users {
			if g.room.isCreator(create, u) {
				delete(users, u)
			}
		}
	}
	// Some levels are above some of those who may change them.
	content := map[string]any{"users": users, "events": map[string]any{"m.room.power_levels": pick(g, 50, 50, 100)}}
	for _, name := range graphLevelNames {
		switch high := name == "ban" || name == "redact"; {
		case g.chance(0.3):
			content[name] = pick(g, 0, 0, 25, 50)
		case high && g.chance(0.5):
			content[name] = pick(g, 75, 100)
		}
	}
	if g.chance(0.5) {
		content["events"].(map[string]any)["m.room.name"] = 75
		content["notifications"] = map[string]any{"room": pick(g, 50, 75, 100)}
	}
	return g.powerLevelsEvent(creator, content)
}

func (g *graph) powerLevelsEvent(sender string, content map[string]any) map[string]any {
	return map[string]any{"type": "m.room.power_levels", "state_key": "", "sender": sender, "content": content}
}

// powerLevels changes the current levels in a few places.
func (g *graph) powerLevels(sender string, state refState) map[string]any {
	content := map[string]any{}
	if pl := state[refKey{"m.room.power_levels", ""}]; pl != nil && !g.chance(0.03) {
		content = refClone(pl.content()).(map[string]any)
	}
	for range pick(g, 1, 1, 2, 3) {
		switch n := g.rng.IntN(20); {
		case n < 10:
			g.changeEntry(content, "users", pick(g, g.users...), pick(g, g.users...), sender)
		case n < 13:
			g.changeEntry(content, "events", graphEventTypes...)
		case n < 15:
			g.changeEntry(content, "notifications", "room", "other")
		default:
			name := pick(g, graphLevelNames...)
			if g.chance(0.2) {
				delete(content, name)
			} else {
				content[name] = g.levelValue()
			}
		}
	}
	if create := g.order[0]; g.version >= 12 && !g.chance(0.07) {
		// Creators may not be listed; mostly respect it, or nothing else is ever tried.
		if users, ok := content["users"].(map[string]any); ok {
			for u := range users {
				if g.room.isCreator(create, u) {
					delete(users, u)
				}
			}
		}
	}
	if g.chance(0.08) {
		g.spoilPowerLevels(content)
	}
	return g.powerLevelsEvent(sender, content)
}

// changeEntry sets or removes an entry of one of the maps of levels.
func (g *graph) changeEntry(content map[string]any, name string, keys ...string) {
	entries, ok := content[name].(map[string]any)
	if !ok {
		entries = map[string]any{}
		content[name] = entries
	}
	key := pick(g, keys...)
	if have := refKeysOf(entries); len(have) > 0 && g.chance(0.4) {
		sort.Strings(have)
		key = pick(g, have...)
	}
	if g.chance(0.2) {
		delete(entries, key)
	} else {
		entries[key] = g.levelValue()
	}
}

// levelValue is a level in a form that the room version takes.
func (g *graph) levelValue() any {
	n := pick(g, 0, 0, 10, 25, 50, 50, 50, 75, 99, 100, 100, 101, -1)
	switch {
	case g.version <= 9 && g.chance(0.15):
		return pick(g, fmt.Sprint(n), fmt.Sprintf(" %03d", n), fmt.Sprintf("%+d ", n))
	case g.version <= 5 && g.chance(0.08):
		return json.Number(fmt.Sprintf("%d.%d", n, pick(g, 5, 25, 99)))
	}
	return n
}

// spoilPowerLevels makes levels that the first points of the rule refuse. Until
// version 9 only users is looked at; what other malformed values mean there the
// text does not say, so none are made.
func (g *graph) spoilPowerLevels(content map[string]any) {
	bad := []any{true, nil, "fifty", []any{50}, map[string]any{}, "5 0", ""}
	if g.version >= 10 {
		bad = append(bad, "50")
	}
	users := map[string]any{}
	if u, ok := content["users"].(map[string]any); ok {
		users = u
	}
	switch n := g.rng.IntN(8); {
	case n == 0:
		content["users"] = pick[any](g, "x", []any{}, nil, 5)
	case n == 1:
		users[pick(g, "alice", "@alice", "@alice:", "@a:b c", "#a:one.test", "")] = 50
		content["users"] = users
	case n == 2 || g.version <= 9:
		users[pick(g, g.users[3:]...)] = pick(g, bad...)
		content["users"] = users
	case n == 3:
		delete(content, "users")
	case n < 6:
		content[pick(g, graphLevelNames...)] = pick(g, bad...)
	case n == 6:
		content[pick(g, "events", "notifications")] = pick[any](g, "x", nil, []any{}, 1)
	default:
		content[pick(g, "events", "notifications")] = map[string]any{"m.room.topic": pick(g, bad...)}
	}
}
