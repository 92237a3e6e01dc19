package acceptance

// keyEndpoints are what other servers call without signing.
func keyEndpoints(self string) []endpoint {
	names := []bad{
		{"a%2Fb", invalidParam}, {"user@host", invalidParam}, {"[::1", invalidParam}, {"h:", invalidParam},
		{"h:123456", invalidParam}, {"300.1.1.1", invalidParam}, {"%C3%A4.example", invalidParam},
	}
	return []endpoint{
		{method: "GET", path: "/.well-known/matrix/server", public: true},
		{method: "GET", path: "/_matrix/key/v2/server", public: true},
		{method: "GET", path: "/_matrix/federation/v1/version", public: true},
		{
			method: "GET", path: "/_matrix/key/v2/query/{serverName}", public: true,
			vars: map[string]string{"serverName": self}, query: "minimum_valid_until_ts=1",
			params: []param{
				{"{serverName}", names},
				{"minimum_valid_until_ts", []bad{{"x", invalidParam}, {"1.5", invalidParam}, {"99999999999999999999", invalidParam}, {"-1", anything}}},
			},
		},
		{
			method: "POST", path: "/_matrix/key/v2/query", public: true,
			body: `{"server_keys":{"` + self + `":{"ed25519:1":{"minimum_valid_until_ts":1}}}}`,
			fields: []field{
				{at: "/server_keys", kind: kindObject, absent: missingParam, bad: []bad{{manyServers(101), invalidParam}, {`{"a/b":{},"":{}}`, anything}}},
				{at: "/server_keys/" + self, kind: kindObject},
				{at: "/server_keys/" + self + "/ed25519:1", kind: kindObject},
				{at: "/server_keys/" + self + "/ed25519:1/minimum_valid_until_ts", kind: kindInt, bad: []bad{{"-1", anything}, {"1.5", badJSON}}},
			},
		},
	}
}

func manyServers(n int) string {
	list := "{"
	for i := range n {
		if i > 0 {
			list += ","
		}
		list += `"` + string(rune('a'+i/26)) + string(rune('a'+i%26)) + `.invalid":{}`
	}
	return list + "}"
}
