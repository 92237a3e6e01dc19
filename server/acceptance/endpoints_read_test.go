package acceptance

import (
	"maps"
	"strings"

	"hearth/server/testserver"
)

// roomReadEndpoints read rooms: one of alice's, with an event in it.
func roomReadEndpoints(hs *testserver.Server) []endpoint {
	alice := hs.Login("alice")
	id := alice.CreateRoom(`{"preset":"private_chat"}`)
	event := string(alice.Say(id, "x"))
	with := func(more ...string) map[string]string {
		vars := map[string]string{"roomId": string(id)}
		for i := 0; i < len(more); i += 2 {
			vars[more[i]] = more[i+1]
		}
		return maps.Clone(vars)
	}
	const room = v3 + "/rooms/{roomId}"
	rooms := param{"{roomId}", noRoom("403 M_FORBIDDEN")}
	noEvent := param{"{eventId}", []bad{
		{"x", "404 M_NOT_FOUND"}, {"$nosuch", "404 M_NOT_FOUND"}, {"$a:elsewhere.test", "404 M_NOT_FOUND"}, {"%24", "404 M_NOT_FOUND"},
		{"$" + strings.Repeat("x", 4000), "404 M_NOT_FOUND"}, {"%27%20OR%201=1--", "404 M_NOT_FOUND"}, {"a%2Fb", "404 M_NOT_FOUND"},
	}}
	noState := func(name string) param {
		return param{name, []bad{
			{"m.nosuch", "404 M_NOT_FOUND"}, {"a%2Fb", "404 M_NOT_FOUND"}, {"%27%20OR%201=1--", "404 M_NOT_FOUND"},
			{strings.Repeat("x", 4000), "404 M_NOT_FOUND"},
		}}
	}
	format := param{"format", []bad{{"nonsense", invalidParam}, {"Event", invalidParam}, {"%ff", invalidParam}, {"event", "200"}}}
	dir := param{"dir", []bad{{"", missingParam}, {"x", invalidParam}, {"B", invalidParam}, {"%ff", invalidParam}, {"%00", invalidParam}}}
	return []endpoint{
		{method: "GET", path: v3 + "/joined_rooms"},
		{method: "GET", path: room + "/joined_members", vars: with(), params: []param{rooms}},
		{method: "GET", path: room + "/members", vars: with(), params: []param{
			rooms, badToken("at"),
			{"membership", []bad{{"nonsense", invalidParam}, {"JOIN", invalidParam}, {"%ff", invalidParam}, {"join", "200"}}},
			{"not_membership", []bad{{"nonsense", invalidParam}, {"joined", invalidParam}, {"%00", invalidParam}, {"leave", "200"}}},
		}},
		{method: "GET", path: room + "/state", vars: with(), params: []param{rooms}},
		{
			method: "GET", path: room + "/state/{eventType}", vars: with("eventType", "m.room.create"),
			params: []param{rooms, noState("{eventType}"), format},
		},
		{
			method: "GET", path: room + "/state/{eventType}/", vars: with("eventType", "m.room.create"),
			params: []param{rooms, noState("{eventType}"), format},
		},
		{
			method: "GET", path: room + "/state/{eventType}/{stateKey}", vars: with("eventType", "m.room.member", "stateKey", string(alice.UserID)),
			params: []param{rooms, noState("{eventType}"), noState("{stateKey}"), format},
			empty:  map[string]string{"stateKey": "404 M_NOT_FOUND"},
		},
		{method: "GET", path: room + "/event/{eventId}", vars: with("eventId", event), params: []param{{"{roomId}", noRoom("404 M_NOT_FOUND")}, noEvent}},
		{
			method: "GET", path: room + "/context/{eventId}", vars: with("eventId", event),
			params: []param{rooms, noEvent, badLimit(), badRoomFilter()},
		},
		{
			method: "GET", path: room + "/messages", vars: with(), query: "dir=b",
			params: []param{rooms, dir, badToken("from"), badToken("to"), badLimit(), badRoomFilter()},
		},
		{method: "GET", path: room + "/initialSync", vars: with(), params: []param{rooms, badLimit()}},
		{method: "GET", path: v3 + "/events/{eventId}", vars: map[string]string{"eventId": event}, params: []param{noEvent}},
		{method: "GET", path: v3 + "/events", query: "room_id=" + string(id), params: []param{
			badToken("from"),
			{"timeout", []bad{{"-1", invalidParam}, {"x", invalidParam}, {"1.5", invalidParam}, {"%ff", invalidParam}}},
			{"room_id", append(noRoom("403 M_FORBIDDEN"), bad{"", missingParam}, bad{"%ff", invalidParam})},
		}},
		{
			method: "GET", path: v1 + "/rooms/{roomId}/timestamp_to_event", vars: with(), query: "dir=f&ts=0",
			params: []param{rooms, dir, {"ts", []bad{
				{"", missingParam}, {"x", invalidParam}, {"1.5", invalidParam}, {"1e3", invalidParam}, {"99999999999999999999", invalidParam},
				{"%ff", invalidParam}, {"-1", "200"}, {"9223372036854775807", "404 M_NOT_FOUND"}, {"-9223372036854775808", "200"},
			}}},
		},
	}
}

func badToken(name string) param {
	return param{name, []bad{
		{"x", invalidParam}, {"t", invalidParam}, {"s72594_4483_1934", invalidParam}, {"0", invalidParam}, {"%ff", invalidParam}, {"%00", invalidParam},
		{"t" + strings.Repeat("A", 20), invalidParam}, {strings.Repeat("A", 4000), invalidParam}, {"t%0A", invalidParam}, {"..%2f..", invalidParam},
	}}
}

func badLimit() param {
	return param{"limit", []bad{
		{"x", invalidParam}, {"-1", invalidParam}, {"1.5", invalidParam}, {"1e3", invalidParam}, {"0x1", invalidParam}, {"99999999999999999999", invalidParam},
		{"%20", invalidParam}, {"%ff", invalidParam}, {"0", "200"}, {"9223372036854775807", "200"},
	}}
}

func badRoomFilter() param {
	return param{"filter", []bad{
		{"x", invalidParam}, {"%7B", invalidParam}, {"%5B%5D", invalidParam}, {"1", invalidParam}, {"%22x%22", invalidParam},
		{"%7B%22types%22:1%7D", invalidParam}, {"%7B%22senders%22:%5B%22x%22%5D%7D", invalidParam}, {"%7B%22limit%22:-1%7D", invalidParam},
		{"%7B%22lazy_load_members%22:1%7D", invalidParam}, {"%7B%22a%22:1,%22a%22:1%7D", invalidParam}, {"%7B%22a%22:%22%ff%22%7D", invalidParam},
		{"%7B%22contains_url%22:%22yes%22%7D", invalidParam}, {"%7B%22types%22:%5B%5D%7D", "200"},
	}}
}
