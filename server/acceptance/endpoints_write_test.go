package acceptance

import (
	"fmt"
	"slices"
	"strings"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

const createRoom = v3 + "/createRoom"

// roomWriteEndpoints change rooms. Each has a room of its own in which alice
// may do everything.
func roomWriteEndpoints(hs *testserver.Server) []endpoint {
	alice := hs.Login("alice")
	room := func() map[string]string {
		return map[string]string{"roomId": string(alice.CreateRoom(`{"preset":"public_chat"}`))}
	}
	us := string(hs.Name())
	return slices.Concat([]endpoint{
		createRoomEndpoint(us),
		{
			method: "POST", path: v3 + "/rooms/{roomId}/join", vars: room(), noBody: "200",
			body: joinBody, fields: joinFields, params: []param{{"{roomId}", noRoom("404 M_NOT_FOUND")}},
		},
		{
			method: "POST", path: v3 + "/join/{roomIdOrAlias}", vars: map[string]string{"roomIdOrAlias": room()["roomId"]}, noBody: "200",
			body: joinBody, fields: joinFields, params: []param{{"{roomIdOrAlias}", noRoomOrAlias}, {"via", anyVia}, {"server_name", anyVia}},
		},
		{
			method: "POST", path: v3 + "/knock/{roomIdOrAlias}", vars: map[string]string{"roomIdOrAlias": room()["roomId"]}, noBody: "403 M_FORBIDDEN",
			body: `{"reason":"r"}`, fields: reasonField, params: []param{{"{roomIdOrAlias}", noRoomOrAlias}, {"via", anyVia}},
		},
		{
			method: "POST", path: v3 + "/rooms/{roomId}/leave", vars: room(), noBody: "200",
			body: `{"reason":"r"}`, fields: reasonField, params: []param{{"{roomId}", noRoom("403 M_FORBIDDEN")}},
		},
		{
			method: "POST", path: v3 + "/rooms/{roomId}/forget", vars: room(),
			params: []param{{"{roomId}", noRoom("200")}},
		},
		{
			method: "POST", path: v3 + "/rooms/{roomId}/invite", vars: room(),
			body: fmt.Sprintf(`{"user_id":"@bob:%s","reason":"r","medium":"email","address":"a@b.test"}`, us),
			fields: append([]field{
				{at: "/user_id", kind: kindString, absent: "403 M_FORBIDDEN", bad: noUser},
				{at: "/medium", kind: kindString},
				{at: "/address", kind: kindString},
			}, reasonField...),
			params: []param{{"{roomId}", noRoom("403 M_FORBIDDEN")}},
		},
		actEndpoint("kick", us, room()),
		actEndpoint("ban", us, room()),
		actEndpoint("unban", us, room()),
		{
			method: "POST", path: v3 + "/rooms/{roomId}/upgrade", vars: room(),
			body: `{"new_version":"12","additional_creators":["@bob:hs.test"]}`,
			fields: []field{
				{at: "/new_version", kind: kindString, absent: missingParam, bad: []bad{{`""`, missingParam}, {`"13"`, unsupported}, {`"1.0"`, unsupported}}},
				{at: "/additional_creators", kind: kindArray, bad: []bad{
					{`["bob"]`, badJSON}, {`[""]`, badJSON}, {"[" + strings.TrimSuffix(strings.Repeat(`"@x:hs.test",`, 201), ",") + "]", tooLarge},
				}},
			},
			params: []param{{"{roomId}", noRoom("403 M_FORBIDDEN")}},
		},
	}, eventEndpoints(alice, room), directoryEndpoints(us, room))
}

const joinBody = `{"reason":"r","third_party_signed":{"sender":"@a:test","mxid":"@b:test","token":"t","signatures":{"a.test":{"ed25519:1":"x"}}}}`

var (
	reasonField = []field{{at: "/reason", kind: kindString}}
	joinFields  = append([]field{
		{at: "/third_party_signed", kind: kindObject, bad: []bad{{"{}", missingParam}}},
		{at: "/third_party_signed/sender", kind: kindString, absent: missingParam, bad: noUser},
		{at: "/third_party_signed/mxid", kind: kindString, absent: missingParam, bad: noUser},
		{at: "/third_party_signed/token", kind: kindString, absent: missingParam},
		{at: "/third_party_signed/signatures", kind: kindObject, absent: missingParam},
	}, reasonField...)
	noUser = []bad{
		{`"bob"`, badJSON}, {`""`, badJSON}, {`"@bob"`, badJSON}, {`"@a:b c"`, badJSON}, {`"!a:test"`, badJSON}, {`"@a\u0000:test"`, badJSON},
		{fmt.Sprintf(`"@%s:test"`, strings.Repeat("x", 260)), badJSON},
	}
	noRoomOrAlias = []bad{
		{"x", invalidParam}, {"%21", invalidParam}, {"%23", invalidParam}, {"%23a", invalidParam}, {"@a:test", invalidParam}, {"$a", invalidParam},
		{"!nowhere:elsewhere.test", "404 M_NOT_FOUND"}, {"%23a:elsewhere.test", "404 M_NOT_FOUND"}, {"%23none:hs.test", "404 M_NOT_FOUND"},
		{"%23" + strings.Repeat("x", 300) + ":hs.test", invalidParam}, {"!a%2Fb:x", "404 M_NOT_FOUND"},
	}
	anyVia = []bad{{"", anything}, {"x%20y", anything}, {"%ff", invalidParam}, {"%00", invalidParam}, {strings.Repeat("x", 4000), anything}}
)

// noRoom are room IDs that are none, and one of a room that is not here.
func noRoom(unknown string) []bad {
	return []bad{
		{"x", invalidParam}, {"%21", invalidParam}, {"%23a:test", invalidParam}, {"@a:test", invalidParam}, {"!a:b%20c", invalidParam},
		{"!" + strings.Repeat("x", 300), invalidParam}, {"!nowhere:elsewhere.test", unknown}, {"!x%27%20OR%201=1", unknown + "|" + invalidParam},
	}
}

func createRoomEndpoint(us string) endpoint {
	return endpoint{
		method: "POST", path: createRoom,
		body: fmt.Sprintf(`{"visibility":"private","room_alias_name":"","name":"n","topic":"t","invite":["@bob:%s"],"invite_3pid":[],"room_version":"12",
			"creation_content":{"type":"t","additional_creators":[]},"initial_state":[{"type":"t","state_key":"k","content":{}}],
			"preset":"private_chat","is_direct":false,"power_level_content_override":{"ban":50,"users":{},"events":{}}}`, us),
		fields: []field{
			{at: "/visibility", kind: kindString, bad: []bad{{`"hidden"`, invalidParam}, {`"Public"`, invalidParam}}},
			{at: "/room_alias_name", kind: kindString, bad: []bad{{`"a:b"`, invalidParam}, {`"a\u0000b"`, invalidParam}, {fmt.Sprintf("%q", strings.Repeat("x", 300)), invalidParam}}},
			{at: "/name", kind: kindString},
			{at: "/topic", kind: kindString},
			{at: "/invite", kind: kindArray, bad: []bad{
				{`["bob"]`, badJSON}, {`[""]`, badJSON}, {`["!a:test"]`, badJSON}, {`["@x:elsewhere.test"]`, "403 M_FORBIDDEN"},
				{"[" + strings.TrimSuffix(strings.Repeat(`"@x:hs.test",`, 201), ",") + "]", tooLarge},
			}},
			{at: "/invite_3pid", kind: kindArray, bad: []bad{{`[{}]`, "403 M_FORBIDDEN"}}},
			{at: "/room_version", kind: kindString, bad: []bad{{`"13"`, unsupported}, {`"1.0"`, unsupported}, {`" 12"`, unsupported}, {fmt.Sprintf("%q", strings.Repeat("1", 300)), unsupported}}},
			{at: "/creation_content", kind: kindObject},
			{at: "/creation_content/additional_creators", kind: kindArray, bad: []bad{{`["x"]`, badJSON}}},
			{at: "/initial_state", kind: kindArray, bad: []bad{
				{`[{}]`, missingParam}, {`[{"type":"t"}]`, missingParam}, {`[{"type":"","content":{}}]`, missingParam}, {`[{"content":{}}]`, missingParam},
				{`[{"type":"t","content":null}]`, badJSON}, {`[{"type":"t","content":[]}]`, badJSON}, {`[{"type":1,"content":{}}]`, badJSON},
				{`[{"type":"t","state_key":1,"content":{}}]`, badJSON}, {`[{"type":"t","content":{"a":1,"a":2}}]`, badJSON}, {`[{"type":"t","content":{"n":1.5}}]`, badJSON},
				{"[" + strings.TrimSuffix(strings.Repeat(`{"type":"t","content":{}},`, 501), ",") + "]", tooLarge},
				{fmt.Sprintf(`[{"type":%q,"content":{}}]`, strings.Repeat("x", 256)), tooLarge},
				{fmt.Sprintf(`[{"type":"t","state_key":%q,"content":{}}]`, strings.Repeat("x", 256)), tooLarge},
			}},
			{at: "/preset", kind: kindString, bad: []bad{{`"chat"`, invalidParam}}},
			{at: "/is_direct", kind: kindBool},
			{at: "/power_level_content_override", kind: kindObject},
			{at: "/power_level_content_override/ban", kind: kindInt},
			{at: "/power_level_content_override/users", kind: kindObject, bad: []bad{{`{"@a:test":"100"}`, badJSON}, {`{"x":1}`, "400 M_INVALID_ROOM_STATE"}}},
			{at: "/power_level_content_override/events", kind: kindObject, bad: []bad{{`{"t":null}`, badJSON}, {`{"t":[1]}`, badJSON}}},
		},
	}
}

const unsupported = "400 M_UNSUPPORTED_ROOM_VERSION"

func actEndpoint(act, us string, room map[string]string) endpoint {
	return endpoint{
		method: "POST", path: v3 + "/rooms/{roomId}/" + act, vars: room,
		body:   fmt.Sprintf(`{"user_id":"@bob:%s","reason":"r"}`, us),
		fields: append([]field{{at: "/user_id", kind: kindString, absent: missingParam, bad: noUser}}, reasonField...),
		params: []param{{"{roomId}", noRoom("403 M_FORBIDDEN")}},
	}
}

// eventEndpoints send events. Content is anything that is an object.
func eventEndpoints(alice *testserver.Client, room func() map[string]string) []endpoint {
	unknown := param{"{roomId}", noRoom("403 M_FORBIDDEN")}
	types := param{"{eventType}", []bad{{strings.Repeat("x", 256), tooLarge}, {strings.Repeat("%C3%A4", 200), tooLarge}, {"m.room.create", "403 M_FORBIDDEN"}}}
	txns := param{"{txnId}", []bad{{strings.Repeat("x", 256), invalidParam}}}
	with := func(vars map[string]string, more ...string) map[string]string {
		for i := 0; i < len(more); i += 2 {
			vars[more[i]] = more[i+1]
		}
		return vars
	}
	const content = `{"body":"b","deep":{"list":[1]}}`
	redacted := room()
	said := alice.Say(matrix.RoomID(redacted["roomId"]), "x")
	state := v3 + "/rooms/{roomId}/state/{eventType}"
	list := []endpoint{
		{
			method: "PUT", path: v3 + "/rooms/{roomId}/send/{eventType}/{txnId}",
			vars: with(room(), "eventType", "m.test", "txnId", "bad"), body: content, params: []param{unknown, types, txns},
			fields: []field{{at: "/deep", kind: kindAny, bad: badContent}},
		},
		{
			method: "PUT", path: v3 + "/rooms/{roomId}/redact/{eventId}/{txnId}",
			vars: with(redacted, "eventId", string(said), "txnId", "bad"), body: `{"reason":"r"}`, fields: reasonField,
			params: []param{unknown, txns, {"{eventId}", []bad{
				{"x", invalidParam}, {"%24", invalidParam}, {"!a:test", invalidParam}, {"$nosuch", "400 M_NOT_FOUND"},
				{"$" + strings.Repeat("x", 300), invalidParam}, {"$a%2Fb", "400 M_NOT_FOUND"},
			}}},
		},
	}
	for _, path := range []string{state, state + "/", state + "/{stateKey}"} {
		e := endpoint{
			method: "PUT", path: path, vars: with(room(), "eventType", "m.test"), body: content, params: []param{unknown, types},
			fields: []field{{at: "/deep", kind: kindAny, bad: badContent}},
		}
		if strings.HasSuffix(path, "}") && strings.Contains(path, "stateKey") {
			e.vars["stateKey"] = "k"
			e.empty = map[string]string{"stateKey": "200"}
			e.params = append(e.params, param{"{stateKey}", []bad{{strings.Repeat("x", 256), tooLarge}, {"@x:elsewhere.test", "403 M_FORBIDDEN"}}})
		}
		list = append(list, e)
	}
	return list
}

// badContent has no canonical form, or makes too large an event.
var badContent = []bad{
	{"1.5", badJSON}, {"1e3", anything}, {"9007199254740992", badJSON}, {"-9007199254740992", badJSON}, {"1e400", badJSON},
	{`{"a":1,"a":1}`, badJSON}, {`{"a":{"b":[0.1]}}`, badJSON}, {`"\ud800"`, notJSON},
	{`"` + strings.Repeat("x", 66_000) + `"`, tooLarge}, {`"` + strings.Repeat(`\u0041`, 66_000) + `"`, tooLarge},
}

func directoryEndpoints(us string, room func() map[string]string) []endpoint {
	alias := map[string]string{"roomAlias": "%23bad-alias:" + us}
	aliases := func(foreign string) []param {
		return []param{{"{roomAlias}", []bad{
			{"x", invalidParam}, {"%23", invalidParam}, {"%23a", invalidParam}, {"!a:test", invalidParam}, {"%23a:b%20c", invalidParam},
			{"%23" + strings.Repeat("x", 300) + ":" + us, invalidParam}, {"%23a:elsewhere.test", foreign},
		}}}
	}
	listed := v3 + "/directory/list/room/{roomId}"
	return []endpoint{
		{method: "GET", path: v3 + "/directory/room/{roomAlias}", public: true, vars: alias, params: aliases("404 M_NOT_FOUND")},
		{method: "DELETE", path: v3 + "/directory/room/{roomAlias}", vars: alias, params: aliases("404 M_NOT_FOUND")},
		{
			method: "PUT", path: v3 + "/directory/room/{roomAlias}", vars: alias, params: aliases(invalidParam),
			body: fmt.Sprintf(`{"room_id":%q}`, room()["roomId"]),
			fields: []field{{at: "/room_id", kind: kindString, absent: missingParam, bad: []bad{
				{`"x"`, badJSON}, {`""`, badJSON}, {`"#a:test"`, badJSON}, {`"!nowhere:elsewhere.test"`, "403 M_FORBIDDEN"},
			}}},
		},
		{method: "GET", path: v3 + "/rooms/{roomId}/aliases", vars: room(), params: []param{{"{roomId}", noRoom("403 M_FORBIDDEN")}}},
		{method: "GET", path: listed, public: true, vars: room(), params: []param{{"{roomId}", noRoom("404 M_NOT_FOUND")}}},
		{
			method: "PUT", path: listed, vars: room(), params: []param{{"{roomId}", noRoom("404 M_NOT_FOUND")}}, body: `{"visibility":"public"}`,
			fields: []field{{at: "/visibility", kind: kindString, bad: []bad{{`"hidden"`, invalidParam}, {`"PUBLIC"`, invalidParam}}}},
		},
	}
}
