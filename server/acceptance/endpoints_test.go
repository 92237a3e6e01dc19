package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hearth/server/config"
	"hearth/server/testserver"
)

// allEndpoints switches on what is off by default, so that every route exists.
func allEndpoints(c *config.Config) {
	c.Registration.SharedSecret = "shared"
	c.VoIP.TurnURIs = []string{"turn:turn.test"}
	c.VoIP.TurnSharedSecret = "turn"
}

// volatileColumns move by themselves, whatever a request asked for: the
// position, the age clock, when a device was last seen, and how often another
// server was tried.
var volatileColumns = []string{
	"position.*",
	"meta.*",
	"devices.last_seen_ms", "devices.last_seen_clock", "devices.last_seen_ip", "devices.last_seen_agent",
	"destinations.failures", "destinations.failing_clock", "destinations.retry_ms", "destinations.last_error",
	"destinations.batch_pdu", "destinations.batch_edu",
}

const (
	v1 = "/_matrix/client/v1"
	v3 = "/_matrix/client/v3"
)

// Answers of user-interactive authentication to a request without proof.
const challenge = "401"

// endpoints is the table of everything that clients can call. A route without
// a row here fails TestEveryRouteHasBadInput.
func endpoints(hs *testserver.Server) []endpoint {
	alice := "@alice:" + string(hs.Name())
	return slices.Concat(plainEndpoints(alice), accountEndpoints(), sessionEndpoints(alice), keyEndpoints(string(hs.Name())), moderationEndpoints(alice), roomWriteEndpoints(hs), roomReadEndpoints(hs))
}

// plainEndpoints take no body.
func plainEndpoints(alice string) []endpoint {
	long := strings.Repeat("x", 4000)
	otherUsers := []bad{
		{"bob", "403 M_FORBIDDEN"}, {"@bob:elsewhere.test", "403 M_FORBIDDEN"}, {"@a%2Fb", "403 M_FORBIDDEN"},
		{"%40alice%3A", "403 M_FORBIDDEN"}, {"..", "404 M_UNRECOGNIZED|403 M_FORBIDDEN"},
		{"%2e%2e%2f%2e%2e", "403 M_FORBIDDEN"}, {long, "403 M_FORBIDDEN"},
	}
	noDevice := []bad{
		{"NOSUCH", "404 M_NOT_FOUND"}, {"a%2Fb", "404 M_NOT_FOUND"}, {"%2e%2e%2f", "404 M_NOT_FOUND"},
		{"..", "404 M_NOT_FOUND|404 M_UNRECOGNIZED"}, {"'%20OR%201=1--", "404 M_NOT_FOUND"}, {long, "404 M_NOT_FOUND|" + invalidParam},
		{"%F0%9F%98%80", "404 M_NOT_FOUND"},
	}
	return []endpoint{
		{method: "GET", path: "/health", public: true},
		{method: "PUT", path: "/_matrix/federation/v1/send/{txnId}", public: true, vars: map[string]string{"txnId": "1"}}, // unsigned
		{method: "GET", path: "/.well-known/matrix/client", public: true},
		{method: "GET", path: "/.well-known/matrix/support", public: true},
		{method: "GET", path: "/_matrix/client/versions", public: true},
		{method: "GET", path: v3 + "/capabilities"},
		{method: "GET", path: v3 + "/login", public: true},
		{method: "GET", path: "/_matrix/static/client/login/", public: true},
		{method: "GET", path: v3 + "/account/whoami"},
		{method: "GET", path: v3 + "/devices"},
		{method: "GET", path: v3 + "/voip/turnServer"},
		{method: "GET", path: "/_synapse/admin/v1/register", public: true},
		{method: "GET", path: v3 + "/register/available", public: true, query: "username=free", params: []param{{"username", []bad{
			{"", "400 M_MISSING_PARAM|400 M_INVALID_PARAM|400 M_INVALID_USERNAME"},
			{"UPPER%20CASE", "400 M_INVALID_USERNAME"}, {"a%00b", "400 M_INVALID_USERNAME|" + invalidParam},
			{"%ff", "400 M_INVALID_USERNAME|" + invalidParam}, {"%zz", invalidParam + "|" + missingParam},
			{long, "400 M_INVALID_USERNAME"}, {"alice", "400 M_USER_IN_USE"}, {"@free:elsewhere.test", "400 M_INVALID_USERNAME"},
		}}}},
		{method: "GET", path: v1 + "/register/m.login.registration_token/validity", public: true, query: "token=x", params: []param{{"token", []bad{
			{"", anything}, {"%ff", anything}, {"a%00b", anything}, {long, anything},
		}}}},
		{method: "GET", path: v3 + "/admin/whois/{userId}", vars: map[string]string{"userId": alice}, params: []param{{"{userId}", otherUsers}}},
		{method: "GET", path: v3 + "/devices/{deviceId}", vars: map[string]string{"deviceId": "NOSUCH"}, params: []param{{"{deviceId}", noDevice}}},
		{
			method: "GET", path: v3 + "/user/{userId}/filter/{filterId}",
			vars: map[string]string{"userId": alice, "filterId": "1"},
			params: []param{{"{userId}", otherUsers}, {"{filterId}", []bad{
				{"0", "404 M_NOT_FOUND"}, {"-1", "404 M_NOT_FOUND"}, {"x", "404 M_NOT_FOUND"}, {"1e9", "404 M_NOT_FOUND"},
				{"99999999999999999999999", "404 M_NOT_FOUND"}, {"%2F", "404 M_NOT_FOUND"}, {long, "404 M_NOT_FOUND"},
			}}},
		},
		{
			method: "GET", path: v3 + "/auth/{type}/fallback/web", public: true,
			vars: map[string]string{"type": "m.login.dummy"}, query: "session=x",
			params: []param{
				{"{type}", []bad{{"m.login.nonsense", refused}, {"%2e%2e%2f", refused}, {long, refused}}},
				{"session", []bad{{"", refused}, {"%ff", refused}, {long, anything}}}, // the page for any; its answer decides
			},
		},
		{
			method: "POST", path: v3 + "/auth/{type}/fallback/web", public: true,
			vars: map[string]string{"type": "m.login.dummy"}, query: "session=x",
			params: []param{
				{"{type}", []bad{{"m.login.nonsense", refused}, {long, refused}}},
				{"session", []bad{{"", refused}, {"%ff", refused}, {long, refused}}},
			},
		},
		syncEndpoint(),
	}
}

func syncEndpoint() endpoint {
	flag := []bad{{"1", invalidParam}, {"TRUE", invalidParam}, {"maybe", invalidParam}, {"%ff", invalidParam}, {"%00", invalidParam}}
	return endpoint{
		method: "GET", path: v3 + "/sync", query: "timeout=0",
		params: []param{
			{"timeout", []bad{
				{"-1", invalidParam}, {"x", invalidParam}, {"1.5", invalidParam}, {"1e3", invalidParam}, {"0x10", invalidParam},
				{"99999999999999999999999999", invalidParam}, {"%20", invalidParam}, {"%ff", invalidParam}, {"٣", invalidParam},
			}},
			{"since", []bad{
				{"s72594_4483_1934", invalidParam}, {"0", invalidParam}, {"%ff", invalidParam}, {"%00", invalidParam},
				{strings.Repeat("A", 4000), invalidParam}, {"..%2f..", invalidParam},
			}},
			{"full_state", flag},
			{"use_state_after", flag},
			{"set_presence", []bad{{"busy", invalidParam}, {"Online", invalidParam}, {"%ff", invalidParam}}},
			{"filter", []bad{
				{"nosuch", invalidParam}, {"-1", invalidParam}, {"99999999999999999999", invalidParam}, {"%ff", invalidParam},
				{strings.Repeat("1", 4000), invalidParam}, {"%7B", invalidParam}, {"%7B%7D%7D", invalidParam},
				{"%7B%22room%22:1%7D", invalidParam}, {"%7B%22room%22:%7B%22rooms%22:%5B%22x%22%5D%7D%7D", invalidParam},
				{"%7B%22event_format%22:7%7D", invalidParam}, {"%7B%22a%22:1,%22a%22:1%7D", invalidParam},
				{"%7B%22a%22:%22%ff%22%7D", invalidParam},
				{"%7B%22a%22:" + strings.Repeat("%5B", 150) + strings.Repeat("%5D", 150) + "%7D", invalidParam},
			}},
		},
	}
}

// uiaFields are the parts of a proof.
var uiaFields = []field{
	{at: "/auth", kind: kindObject, absent: challenge},
	{at: "/auth/type", kind: kindString},
	{at: "/auth/session", kind: kindString},
	{at: "/auth/identifier", kind: kindObject},
	{at: "/auth/identifier/type", kind: kindString},
	{at: "/auth/identifier/user", kind: kindString},
	{at: "/auth/password", kind: kindString},
}

// uiaAuth is a proof that proves nothing: its session does not exist.
const uiaAuth = `"auth":{"type":"m.login.password","session":"nosuch","password":"x","identifier":{"type":"m.id.user","user":"alice"}}`

// accountEndpoints change an account and need a proof: what they are sent here
// is refused for want of one, at the latest.
func accountEndpoints() []endpoint {
	shared := `{"nonce":"nosuch","username":"new","password":"long enough","admin":false,"mac":"00","user_type":"bot"}`
	return []endpoint{
		{
			method: "POST", path: v3 + "/register", public: true,
			body: `{"username":"new","password":"long enough","device_id":"D","initial_device_display_name":"n","inhibit_login":false,"refresh_token":false,` + uiaAuth + `}`,
			fields: append([]field{
				{at: "/username", kind: kindString, bad: []bad{
					{`"UPPER CASE"`, "400 M_INVALID_USERNAME"}, {`"a\u0000b"`, "400 M_INVALID_USERNAME"}, {`"alice"`, "400 M_USER_IN_USE"},
					{`"` + strings.Repeat("x", 250) + `"`, "400 M_INVALID_USERNAME"}, {`"@new:elsewhere.test"`, "400 M_INVALID_USERNAME"},
				}},
				{at: "/password", kind: kindString, bad: []bad{{`"short"`, "400 M_WEAK_PASSWORD"}}},
				{at: "/device_id", kind: kindString, bad: []bad{{`"` + strings.Repeat("x", 300) + `"`, invalidParam}, {`"a\u0000b"`, invalidParam}}},
				{at: "/initial_device_display_name", kind: kindString, bad: []bad{{`"` + strings.Repeat("x", 10_000) + `"`, refused}}},
				{at: "/inhibit_login", kind: kindBool},
				{at: "/refresh_token", kind: kindBool},
			}, uiaFields...),
			params: []param{{"kind", []bad{{"guest", "403 M_GUEST_ACCESS_FORBIDDEN"}, {"wizard", invalidParam}, {"%ff", invalidParam}}}},
		},
		{
			method: "POST", path: "/_synapse/admin/v1/register", public: true, body: shared,
			fields: []field{
				{at: "/nonce", kind: kindString, absent: missingParam},
				{at: "/username", kind: kindString, absent: missingParam},
				{at: "/password", kind: kindString, absent: missingParam},
				{at: "/mac", kind: kindString, absent: missingParam, bad: []bad{{`"zz"`, refused}, {`""`, refused}}},
				{at: "/admin", kind: kindBool},
				{at: "/user_type", kind: kindString},
			},
		},
		{
			method: "POST", path: v3 + "/account/password", body: `{"new_password":"long enough","logout_devices":true,` + uiaAuth + `}`,
			fields: append([]field{
				{at: "/new_password", kind: kindString, bad: []bad{{`"short"`, "400 M_WEAK_PASSWORD"}}},
				{at: "/logout_devices", kind: kindBool},
			}, uiaFields...),
		},
		{
			method: "POST", path: v3 + "/account/deactivate", noBody: challenge, body: `{"erase":false,` + uiaAuth + `}`,
			fields: append([]field{{at: "/erase", kind: kindBool}}, uiaFields...),
		},
		{
			method: "DELETE", path: v3 + "/devices/{deviceId}", vars: map[string]string{"deviceId": "NOSUCH"}, noBody: challenge,
			body: `{` + uiaAuth + `}`, fields: uiaFields,
		},
		{
			method: "POST", path: v3 + "/delete_devices", body: `{"devices":["NOSUCH"],` + uiaAuth + `}`,
			fields: append([]field{{at: "/devices", kind: kindArray, bad: []bad{
				{`[""]`, badJSON}, {`[1]`, badJSON}, {fmt.Sprintf("[%q]", strings.Repeat("x", 300)), badJSON},
				{"[" + strings.TrimSuffix(strings.Repeat(`"D",`, 100_000), ",") + "]", invalidParam},
			}}}, uiaFields...),
		},
	}
}

// sessionEndpoints are logins, sessions, devices, filters and messages.
func sessionEndpoints(alice string) []endpoint {
	login := `{"type":"m.login.password","identifier":{"type":"m.id.user","user":"alice"},"password":"wrong","token":"x","device_id":"D","initial_device_display_name":"n","refresh_token":false}`
	return []endpoint{
		{
			method: "POST", path: v3 + "/login", public: true, body: login,
			fields: []field{
				{at: "/type", kind: kindString, absent: missingParam, bad: []bad{{`"m.login.nonsense"`, "400 M_UNKNOWN|" + invalidParam + "|400 M_UNRECOGNIZED"}, {`"m.login.token"`, "403 M_FORBIDDEN"}}},
				{at: "/identifier", kind: kindObject, absent: refused, bad: []bad{{`{}`, refused}}},
				{at: "/identifier/type", kind: kindString, absent: refused, bad: []bad{{`"m.id.nonsense"`, refused}, {`"m.id.thirdparty"`, refused}}},
				{at: "/identifier/user", kind: kindString, absent: refused, bad: []bad{{`"nobody"`, "403 M_FORBIDDEN"}, {`"@alice:elsewhere.test"`, "403 M_FORBIDDEN"}}},
				{at: "/password", kind: kindString, absent: missingParam},
				{at: "/token", kind: kindString},
				{at: "/device_id", kind: kindString, bad: []bad{{`"` + strings.Repeat("x", 300) + `"`, invalidParam}, {`"a\u0000b"`, invalidParam}}},
				{at: "/initial_device_display_name", kind: kindString},
				{at: "/refresh_token", kind: kindBool},
			},
		},
		{
			method: "POST", path: v1 + "/login/get_token", noBody: challenge, body: `{` + uiaAuth + `}`, fields: uiaFields,
		},
		{
			method: "POST", path: v3 + "/refresh", public: true, body: `{"refresh_token":"nosuch"}`,
			fields: []field{{at: "/refresh_token", kind: kindString, absent: missingParam, bad: []bad{{`"x"`, "401 M_UNKNOWN_TOKEN"}, {`"a\u0000b"`, "401 M_UNKNOWN_TOKEN"}}}},
		},
		{method: "POST", path: v3 + "/logout"},
		{method: "POST", path: v3 + "/logout/all"},
		{
			method: "PUT", path: v3 + "/devices/{deviceId}", vars: map[string]string{"deviceId": "NOSUCH"}, body: `{"display_name":"n"}`,
			fields: []field{{at: "/display_name", kind: kindString, bad: []bad{{`"` + strings.Repeat("x", 10_000) + `"`, refused}}}},
		},
		{
			method: "POST", path: v3 + "/user/{userId}/filter", vars: map[string]string{"userId": alice},
			body: `{"event_fields":["type"],"event_format":"client","presence":{"types":["x"]},"account_data":{"limit":1},"room":{"rooms":["!a:test"],"include_leave":true,"timeline":{"limit":1,"senders":["@a:test"],"lazy_load_members":true}}}`,
			fields: []field{
				{at: "/event_fields", kind: kindArray},
				{at: "/event_format", kind: kindString, bad: []bad{{`"nonsense"`, badJSON + "|" + invalidParam}}},
				{at: "/presence", kind: kindObject},
				{at: "/presence/types", kind: kindArray},
				{at: "/account_data", kind: kindObject},
				{at: "/account_data/limit", kind: kindInt, bad: []bad{{"0", anything}, {"-1", badJSON + "|" + invalidParam}}},
				{at: "/room", kind: kindObject},
				{at: "/room/rooms", kind: kindArray, bad: []bad{{`["x"]`, badJSON}}},
				{at: "/room/include_leave", kind: kindBool},
				{at: "/room/timeline", kind: kindObject},
				{at: "/room/timeline/limit", kind: kindInt, bad: []bad{{"-1", badJSON}}},
				{at: "/room/timeline/senders", kind: kindArray, bad: []bad{{`["x"]`, badJSON}}},
				{at: "/room/timeline/lazy_load_members", kind: kindBool},
			},
			params: []param{{"{userId}", []bad{{"@bob:elsewhere.test", "403 M_FORBIDDEN"}, {"x", "403 M_FORBIDDEN"}}}},
		},
		sendToDeviceEndpoint(alice),
	}
}

func sendToDeviceEndpoint(alice string) endpoint {
	at := "/messages/" + alice
	return endpoint{
		method: "PUT", path: v3 + "/sendToDevice/{eventType}/{txnId}",
		vars: map[string]string{"eventType": "m.test", "txnId": "bad"},
		body: fmt.Sprintf(`{"messages":{%q:{"NOSUCH":{"n":1}},"@x:elsewhere.test":{"*":{}}}}`, alice),
		fields: []field{
			{at: "/messages", kind: kindObject, absent: missingParam, bad: []bad{
				{`{"x":{"D":{}}}`, invalidParam}, {`{"":{"D":{}}}`, invalidParam}, {`{"@a":{"D":{}}}`, invalidParam},
				{`{"@a:b c":{"D":{}}}`, invalidParam}, {`{"@a\u0000:test":{"D":{}}}`, invalidParam}, {`{"@a:test:x":{"D":{}}}`, invalidParam},
				{`{"!a:test":{"D":{}}}`, invalidParam}, {`{"*":{"D":{}}}`, invalidParam},
				{fmt.Sprintf(`{"@%s:test":{"D":{}}}`, strings.Repeat("x", 260)), invalidParam},
				{fmt.Sprintf(`{"@x:elsewhere.test":{"*":{"x":%q}}}`, strings.Repeat("x", 70_000)), tooLarge},
				{manyDevices(10_001), tooLarge},
				{`{"@a:test":{"D":{}},"@a:test":{"D":{}}}`, badJSON},
			}},
			{at: at, kind: kindObject, bad: []bad{
				{`{"":{}}`, invalidParam}, {`{"a\u0000":{}}`, invalidParam},
				{fmt.Sprintf(`{%q:{}}`, strings.Repeat("x", 256)), invalidParam}, {`{"D":{},"D":{}}`, badJSON},
			}},
			{at: at + "/NOSUCH", kind: kindObject, bad: []bad{{"null", badJSON}, {`"x"`, badJSON}, {"[{}]", badJSON}, {`{"a":1,"a":2}`, badJSON}, {"{\"a\":\"\xff\"}", notJSON}}},
		},
		params: []param{
			{"{eventType}", []bad{{strings.Repeat("x", 256), invalidParam}, {strings.Repeat("%C3%A4", 200), invalidParam}}},
			{"{txnId}", []bad{{strings.Repeat("x", 256), invalidParam}}},
		},
	}
}

func manyDevices(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"D%d":{}`, i)
	}
	return `{"@x:test":{` + b.String()[1:] + `}}`
}

// Every route that the server has is in the table.
func TestEveryRouteHasBadInput(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t, testserver.Config(allEndpoints))
	hs.Register("alice")
	have := map[string]bool{}
	for _, e := range endpoints(hs) {
		have[e.method+" "+e.path] = true
	}
	for _, r := range hs.Routes() {
		if !have[r] {
			t.Errorf("no bad input for %s", r)
		}
		delete(have, r)
	}
	for r := range have {
		t.Errorf("bad input for %s, which is no route", r)
	}
}
