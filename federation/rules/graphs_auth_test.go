package rules_test

import "slices"

// authEventsFor selects the auth events of a new event from the state, and at times
// gets them wrong.
func (g *graph) authEventsFor(ev map[string]any, state refState) []*refEvent {
	e := &refEvent{version: g.version, json: ev, roomID: g.roomID}
	var auth []*refEvent
	for _, k := range g.room.authEventsSelection(e) {
		if a := state[k]; a != nil && !slices.Contains(auth, a) {
			auth = append(auth, a)
		}
	}
	if len(g.order) < 3 || !g.chance(0.09) {
		return auth
	}
	switch g.rng.IntN(9) {
	case 0: // one is missing
		if len(auth) > 0 {
			i := g.rng.IntN(len(auth))
			auth = slices.Delete(auth, i, i+1)
		}
	case 1: // one that the selection does not name
		auth = append(auth, pick(g, g.order...))
	case 2: // one from another room
		auth = append(auth, pick(g, g.foreign...))
	case 3: // one twice
		if len(auth) > 0 {
			auth = append(auth, pick(g, auth...))
		}
	case 4: // the create event, which version 12 forbids
		auth = append(auth, g.order[0])
	case 5, 6: // an older or newer one in place of the current one: allowed by rule 2
		for i, a := range auth {
			for _, other := range g.order {
				if other.key() == a.key() && !other.rejected && g.chance(0.4) {
					auth[i] = other
				}
			}
		}
	case 7: // a rejected one in place of the current one
		for _, other := range g.order {
			if !other.rejected {
				continue
			}
			for i, a := range auth {
				if other.key() == a.key() {
					auth[i] = other
				}
			}
		}
	case 8: // the other room's create event in place of ours
		for i, a := range auth {
			if a.typ() == "m.room.create" {
				auth[i] = g.foreign[0]
			}
		}
	}
	return auth
}

// spoil damages an event in one way that its format still allows.
func (g *graph) spoil(ev map[string]any) {
	content := ev["content"].(map[string]any)
	switch g.rng.IntN(8) {
	case 0:
		delete(ev, "state_key")
	case 1:
		ev["sender"] = pick(g, g.users...)
	case 2:
		ev["state_key"] = pick(g, g.users...)
	case 3:
		delete(content, "membership")
		delete(content, "join_rule")
	case 4:
		for _, k := range []string{"membership", "join_rule"} {
			if _, has := content[k]; has {
				content[k] = pick[any](g, "dance", nil, true, 5, []any{"join"}, "")
			}
		}
	case 5:
		content["third_party_invite"] = pick[any](g, nil, "x", map[string]any{}, map[string]any{"display_name": "x"})
	case 6:
		content["join_authorised_via_users_server"] = pick[any](g, g.users[0], g.users[1], "nobody", nil, "@x:nowhere.test", 1)
	case 7:
		g.spoilRoom(ev)
	}
}

func (g *graph) spoilRoom(ev map[string]any) {
	switch {
	case g.version >= 12 && g.chance(0.5):
		other := pick(g, g.order...)
		ev["room_id"] = "!" + other.id[1:]
	case g.version >= 12:
		ev["room_id"] = "!" + g.order[0].id[2:] + "A"
	default:
		ev["room_id"] = g.foreign[0].roomID
	}
}
