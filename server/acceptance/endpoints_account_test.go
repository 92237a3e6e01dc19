package acceptance

import "strings"

// moderationEndpoints are account data, and what administrators do to accounts.
// The caller of the table is no administrator, so nothing about others is told.
func moderationEndpoints(alice string) []endpoint {
	const ofUser, ofRoom = v3 + "/user/{userId}/account_data/{type}", v3 + "/user/{userId}/rooms/{roomId}/account_data/{type}"
	long := strings.Repeat("x", 256)
	users := param{"{userId}", []bad{{"bob", "403 M_FORBIDDEN"}, {"@bob:elsewhere.test", "403 M_FORBIDDEN"}, {"%2e%2e", "403 M_FORBIDDEN"}}}
	rooms := param{"{roomId}", []bad{{"room", invalidParam}, {"@r:test", invalidParam}, {"%21", invalidParam}, {"%21" + long, invalidParam}}}
	types := []bad{{long, invalidParam}, {strings.Repeat("%C3%A4", 200), invalidParam}}
	managed := append([]bad{{"m.push_rules", "405 M_BAD_JSON"}, {"m.fully_read", "405 M_BAD_JSON"}}, types...)
	global := map[string]string{"userId": alice, "type": "m.test"}
	room := map[string]string{"userId": alice, "type": "m.test", "roomId": "!r:test"}
	list := []endpoint{
		{method: "GET", path: ofUser, vars: global, params: []param{users, {"{type}", types}}},
		{method: "PUT", path: ofUser, vars: global, body: `{"n":1}`, params: []param{users, {"{type}", managed}}},
		{method: "GET", path: ofRoom, vars: room, params: []param{users, rooms, {"{type}", types}}},
		{method: "PUT", path: ofRoom, vars: room, body: `{"n":1}`, params: []param{users, rooms, {"{type}", managed}}},
	}
	for _, what := range [...]struct{ path, key string }{{"lock", "locked"}, {"suspend", "suspended"}} {
		path, vars := v1+"/admin/"+what.path+"/{userId}", map[string]string{"userId": alice}
		list = append(list,
			endpoint{method: "GET", path: path, vars: vars, params: []param{users}},
			endpoint{
				method: "PUT", path: path, vars: vars, body: `{"` + what.key + `":false}`, params: []param{users},
				fields: []field{{at: "/" + what.key, kind: kindBool, absent: missingParam}},
			})
	}
	return list
}
