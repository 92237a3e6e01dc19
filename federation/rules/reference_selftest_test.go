package rules_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// These tests are of the reference itself: a reference that is wrong, or that says
// the same to everything, proves nothing about what it is compared with.

func TestReferenceCanonicalJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"b": "2", "a" : "1"}`:         `{"a":"1","b":"2"}`,
		`{"本": 2, "日": 1}`:              `{"日":1,"本":2}`,
		`{"a": "\u65E5"}`:               `{"a":"日"}`,
		`{"a": null, "b":[true,false]}`: `{"a":null,"b":[true,false]}`,
		`{"a": -0, "b": 1e10}`:          `{"a":0,"b":10000000000}`,
		`{"a": "\u0007\n\"\\\/\u007f"}`: "{\"a\":\"\\u0007\\n\\\"\\\\/\x7f\"}",
		`{"\ue000":1,"\ud83d\ude00":2}`: "{\"\ue000\":1,\"\U0001f600\":2}",
	} {
		if got := string(refCanonical(refDecode([]byte(in)))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// The vectors of Appendices, "Cryptographic Test Vectors", "Event Signing".
func TestReferenceSigning(t *testing.T) {
	key := ed25519.NewKeyFromSeed(refUnbase64("YJDBA9Xnr2sVqXD9Vj7XVUnmFZcZrlw8Md7kMW+3XA1"))
	for _, c := range []struct{ event, hash, sig string }{
		{`{"room_id":"!x:domain","sender":"@a:domain","origin":"domain","origin_server_ts":1000000,"signatures":{},
			"hashes":{},"type":"X","content":{},"prev_events":[],"auth_events":[],"depth":3,"unsigned":{"age_ts":1000000}}`,
			"5jM4wQpv6lnBo7CLIghJuHdW+s2CMBJPUOGOC89ncos",
			"KxwGjPSDEtvnFgU00fwFz+l6d2pJM6XBIaMEn81SXPTRl16AqLAYqfIReFGZlHi5KLjAWbOoMszkwsQma+lYAg"},
		{`{"content":{"body":"Here is the message content"},"event_id":"$0:domain","origin":"domain","origin_server_ts":1000000,
			"type":"m.room.message","room_id":"!r:domain","sender":"@u:domain","signatures":{},"unsigned":{"age_ts":1000000}}`,
			"onLKD1bGljeBWQhWZ1kaP9SorVmRQNdN5aM2JYU2n/g",
			"Wm+VzmOUOz08Ds+0NTWb1d4CZrVsJSikkeRxh6aCcUwu6pNC78FunoD7KNWzqFn241eYHYMGCA5McEiVPdhzBA"},
	} {
		ev := refDecode([]byte(c.event))
		refHashAndSign(1, ev, "domain", "ed25519:1", key)
		if got := ev["hashes"].(map[string]any)["sha256"]; got != c.hash {
			t.Errorf("content hash: got %v, want %v", got, c.hash)
		}
		if got := ev["signatures"].(map[string]any)["domain"].(map[string]any)["ed25519:1"]; got != c.sig {
			t.Errorf("signature: got %v, want %v", got, c.sig)
		}
		if !refSignedBy(refRedact(1, ev), "domain", "ed25519:1", key.Public().(ed25519.PublicKey)) {
			t.Error("own signature does not verify")
		}
	}
}

func TestReferenceRedaction(t *testing.T) {
	const all = `{"event_id":"e","type":"T","room_id":"r","sender":"s","state_key":"","hashes":{},"signatures":{},"depth":1,
		"prev_events":[],"prev_state":[],"auth_events":[],"origin":"o","origin_server_ts":1,"membership":"m","redacts":"x",
		"unsigned":{},"extra":1,"content":{"membership":"join","join_authorised_via_users_server":"u",
		"third_party_invite":{"display_name":"d","signed":{"a":1}},"creator":"c","x":1,"join_rule":"j","allow":[],
		"ban":1,"events":{},"events_default":1,"invite":1,"kick":1,"notifications":{},"redact":1,"state_default":1,
		"users":{},"users_default":1,"aliases":[],"history_visibility":"h","redacts":"x"}}`
	power := "ban events events_default kick redact state_default users users_default"
	for _, c := range []struct {
		typ  string
		want [12]string // by version, each "" repeats the one before
	}{
		{"m.room.member", [12]string{"membership", 8: "join_authorised_via_users_server membership",
			10: "join_authorised_via_users_server membership third_party_invite"}},
		{"m.room.join_rules", [12]string{"join_rule", 7: "allow join_rule"}},
		{"m.room.power_levels", [12]string{power, 10: strings.Replace(power, "kick", "invite kick", 1)}},
		{"m.room.aliases", [12]string{"aliases", 5: "-"}},
		{"m.room.history_visibility", [12]string{"history_visibility"}},
		{"m.room.redaction", [12]string{"-", 10: "redacts"}},
		{"m.room.topic", [12]string{"-"}},
	} {
		want := ""
		for version := 1; version <= 12; version++ {
			if w := c.want[version-1]; w != "" {
				want = strings.Trim(w, "-")
			}
			ev := refDecode([]byte(strings.Replace(all, `"T"`, `"`+c.typ+`"`, 1)))
			got := refRedact(version, ev)
			keys := refKeysOf(got["content"].(map[string]any))
			slices.Sort(keys)
			if s := strings.Join(keys, " "); s != want {
				t.Errorf("version %d, %s: content keeps %q, want %q", version, c.typ, s, want)
			}
			if _, has := got["origin"]; has != (version <= 10) {
				t.Errorf("version %d keeps origin: %v", version, has)
			}
			if n := len(got); n != map[bool]int{true: 15, false: 12}[version <= 10] {
				t.Errorf("version %d keeps %d keys", version, n)
			}
		}
	}
	create := refDecode([]byte(strings.Replace(all, `"T"`, `"m.room.create"`, 1)))
	if n := len(refRedact(10, create)["content"].(map[string]any)); n != 1 {
		t.Errorf("version 10 keeps %d keys of a create event's content", n)
	}
	if got := refRedact(11, create)["content"]; string(refCanonical(got)) != string(refCanonical(create["content"])) {
		t.Error("version 11 keeps all of a create event's content")
	}
}

// Room versions, "values as strings" and "values as floats".
func TestReferenceLevels(t *testing.T) {
	for _, c := range []struct {
		in        string
		want      string // "" refused
		low, high int    // in these versions
	}{
		{`50`, "50", 1, 12}, {`-1`, "-1", 1, 12},
		{`"100"`, "100", 1, 9}, {`"000100"`, "100", 1, 9}, {`"+100"`, "100", 1, 9}, {`"-100"`, "-100", 1, 9},
		{`" 00100 "`, "100", 1, 9}, {`" -100 "`, "-100", 1, 9}, {`"100"`, "", 10, 12},
		{`"1.0"`, "", 1, 12}, {`"1 0"`, "", 1, 12}, {`""`, "", 1, 12}, {`"+-1"`, "", 1, 12}, {`"0x1"`, "", 1, 12},
		{`50.57`, "50", 1, 5}, {`5.114698E4`, "51146", 1, 5}, {`-0.5`, "0", 1, 5}, {`-1.9`, "-1", 1, 5},
		{`50.57`, "", 6, 12}, {`1e400`, "", 1, 12}, {`null`, "", 1, 12}, {`true`, "", 1, 12}, {`[5]`, "", 1, 12},
	} {
		for version := c.low; version <= c.high; version++ {
			got := ""
			if level, ok := refLevel(version, refDecode([]byte(`{"v":` + c.in + `}`))["v"]); ok {
				got = level.String()
			}
			if got != c.want {
				t.Errorf("version %d: %s is %q, want %q", version, c.in, got, c.want)
			}
		}
	}
}

// hand builds small rooms for the tests of the reference.
type hand struct {
	*refRoom
	t      *testing.T
	roomID string
	n      int
}

func newHand(t *testing.T, version int) *hand {
	return &hand{refRoom: newRefRoom(version, graphPublicKeys), t: t, roomID: "!r:one.test"}
}

// event makes and stores an event without judging it. Its auth events are those
// given; its timestamp and depth count up.
func (h *hand) event(sender, typ, stateKey, content string, prev, auth []*refEvent) *refEvent {
	h.n++
	g := &graph{version: h.version}
	ev := map[string]any{"type": typ, "sender": sender, "content": refDecode([]byte(content)),
		"origin_server_ts": json.Number(fmt.Sprint(h.n)), "depth": json.Number(fmt.Sprint(h.n)),
		"prev_events": g.refs(prev), "auth_events": g.refs(auth)}
	if stateKey != "-" {
		ev["state_key"] = stateKey
	}
	if h.version <= 2 {
		ev["event_id"] = fmt.Sprintf("$%d:%s", h.n, refDomain(sender))
	}
	if h.version <= 11 || typ != "m.room.create" {
		ev["room_id"] = h.roomID
	}
	server := refDomain(sender)
	refHashAndSign(h.version, ev, server, graphKeyID, graphKeys[server])
	e := refParse(h.version, refCanonical(ev))
	if typ == "m.room.create" {
		h.roomID = e.roomID
	}
	h.events[e.id] = e
	return e
}

// states makes a state of events.
func states(events ...*refEvent) refState {
	s := refState{}
	for _, e := range events {
		s[e.key()] = e
	}
	return s
}

// TestGraphsRepeat: a difference is reported by version and seed, so those must be
// enough to see it again.
func TestGraphsRepeat(t *testing.T) {
	for version := 1; version <= 12; version++ {
		a, b := newGraph(version, 7, 30), newGraph(version, 7, 30)
		for i := range a.order {
			if string(a.raw[a.order[i].id]) != string(b.raw[b.order[i].id]) || a.byState[a.order[i].id] != b.byState[b.order[i].id] {
				t.Fatalf("version %d: event %d differs from one run to the next", version, i)
			}
		}
		for i := range a.resolve {
			if describe(refIDs(a.resolve[i].want), b.resolve[i].want) != "" {
				t.Fatalf("version %d: resolution %d differs from one run to the next", version, i)
			}
		}
	}
}
