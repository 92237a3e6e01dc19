package matrix

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

var longName = strings.Repeat("x", 240)

// The identifiers of these lists are valid and invalid ones, and seeds of the fuzz targets.
var (
	goodServers = []string{"b", "b.org", "B.ORG:1", "b.org:65535", "b:99999", "1.2.3.4", "1.2.3.4:8448", "001.2.3.4", "1.2.3", "1.2.3.4.5", "1234.1.1.1",
		"a..b", "-", ".", "[::]", "[::1]:80", "[1234:5678::abcd]", "[::ffff:1.2.3.4]", "[2001:DB8::1]", longName + ".org", strings.Repeat("x", 255) + ":12345"}
	badServers = []string{"", ":", ":80", "b:", "b:123456", "b:8a", "b:80:80", "b c", "b_c", "é", "b\x00", "b/", "b@c", "256.1.1.1", "1.2.3.999", "[", "[]", "]", "[::1",
		"::1", "[::1]80", "[::1]:", "[1.2.3.4]", "[::g]", "[fe80::1%eth0]", "[[::1]]", "[[::1]", "[::1]]", "b.org\n", strings.Repeat("x", 256)}

	goodUsers = []string{"@a:b", "@a._=-/+0:b.org:80", "@A:b", "@é 日本\n:b", "@:b", "@@:b", "@a:[::1]", "@" + longName + ":0123456789abc"}
	badUsers  = []string{"", "@", "a:b", "@a", "@a:", "@a\x00:b", "@a\xff:b", "@\xed\xa0\x80:b", "@a:b:c", "#a:b", "@" + longName + ":0123456789abcd"}

	goodRooms = []string{"!a:b", "!é\n:b.org", "!:b", "!Nhcu5BS-UMnFX7hBVfVSoXiD7OgH6iRT-xyIuqDnpYQ", "!opaque"}
	badRooms  = []string{"", "!", "a:b", "!a:", "!a:b c", "!a\x00:b", "!\xff", "!a:b:c", "!" + longName + ":0123456789abcd"}

	goodEvents = []string{"$a:b", "$a", "$acR1l0raoZnm60CBwAVgqbZqoO/mYU81xysh1u7XcJk", "$Rqnc-F-dvnEYJTyHq_iKxU2bZ1CI92-kuZq3a5lr5Zg", "$" + longName + "0123456789abcd"}
	badEvents  = []string{"", "$", "a", "!a", "$\x00", "$\xff", "$" + longName + "0123456789abcde"}

	goodAliases = []string{"#a:b", "#é ☃:b.org:80", "##:b"}
	badAliases  = []string{"", "#", "#a", "#:b", "a:b", "#a:", "#a\x00:b", "#a\xff:b", "#" + longName + ":0123456789abcd"}

	goodDevices = []string{"A", "é", strings.Repeat("x", 255)}
	badDevices  = []string{"", "\x00", "\xff", strings.Repeat("x", 256)}
)

func TestIdentifiers(t *testing.T) {
	testGrammar(t, ParseServerName, goodServers, badServers)
	testGrammar(t, ParseUserID, goodUsers, badUsers)
	testGrammar(t, ParseRoomID, goodRooms, badRooms)
	testGrammar(t, ParseEventID, goodEvents, badEvents)
	testGrammar(t, ParseRoomAlias, goodAliases, badAliases)
	testGrammar(t, ParseDeviceID, goodDevices, badDevices)
}

// testGrammar checks parsing by function and as a key of a JSON object.
func testGrammar[T ~string](t *testing.T, parse func(string) (T, error), good, bad []string) {
	t.Helper()
	for _, s := range good {
		if got, err := parse(s); err != nil || string(got) != s {
			t.Errorf("%q: got %q, %v", clip(s), got, err)
		}
	}
	for _, s := range bad {
		if got, err := parse(s); err == nil || got != "" {
			t.Errorf("%q: got %q, %v, want an error", clip(s), got, err)
		}
		if len(s) > 100 {
			if _, err := parse(s); len(err.Error()) > 400 {
				t.Errorf("the error repeats all of a long input: %v", err)
			}
		}
	}
}

func TestIdentifierKeys(t *testing.T) {
	var m map[UserID]map[DeviceID]int
	if err := json.Unmarshal([]byte(`{"@a:b":{"D":1}}`), &m); err != nil || m["@a:b"]["D"] != 1 {
		t.Errorf("got %v, %v", m, err)
	}
	for _, bad := range []string{`{"a:b":{}}`, `{"@a:b":{"":1}}`} {
		if err := json.Unmarshal([]byte(bad), &m); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

func TestIdentifierParts(t *testing.T) {
	equal(t, UserID("@a:b:80").Localpart(), "a")
	equal(t, UserID("@a:b:80").Server(), "b:80")
	equal(t, RoomID("!a:[::1]:80").Server(), "[::1]:80")
	equal(t, RoomID("!hash").Server(), "")
	equal(t, EventID("$a:b").Server(), "b")
	equal(t, RoomAlias("#a:b").Server(), "b")
	equal(t, NewUserID("a", "b"), "@a:b")
	for s, want := range map[UserID]bool{"@a:b": true, "@A~!:b": true, "@:b": false, "@a b:b": false, "@é:b": false, "@\x7f:b": false} {
		equal(t, s.Compliant(), want)
	}
	for s, want := range map[string]bool{"a": true, "a._=-/+0": true, "": false, "A": false, "é": false, "a:b": false, "a b": false} {
		equal(t, ValidLocalpart(s), want)
	}
	equal(t, EscapeLocalpart("Aé_=", true), "_a=c3=a9__=3d")
	equal(t, EscapeLocalpart("Aé_=", false), "a=c3=a9_=3d")
}

func TestRoomVersionNames(t *testing.T) {
	equal(t, len(RoomVersions()), 12)
	for _, id := range append(RoomVersions(), DefaultRoomVersion) {
		if v, ok := VersionOf(id); !ok || v.ID != id || !ValidRoomVersion(string(id)) {
			t.Errorf("version %s: got %v, %v", id, v, ok)
		}
	}
	for _, id := range []RoomVersion{"", "0", "13", "01", "org.matrix.x"} {
		if _, ok := VersionOf(id); ok {
			t.Errorf("version %q is known", id)
		}
	}
	for _, s := range []string{"", "A", "é", "a_b", strings.Repeat("1", 33)} {
		equal(t, ValidRoomVersion(s), false)
	}
}

func TestMatchGlob(t *testing.T) {
	for _, c := range []struct {
		glob, s string
		want    bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"**", "abc", true}, {"?", "", false}, {"?", "é", true}, {"??", "é", false},
		{"a*c", "abc", true}, {"a*c", "ac", true}, {"a*c", "acb", false}, {"*.evil.com", "a.evil.com", true}, {"*.evil.com", "evil.com", false},
		{"a*b*c", "aXbXbYc", true}, {"*a?", "aaab", true}, {"é*", "éa", true}, {"a.c", "abc", false}, {"[ab]", "a", false}, {"*é", "aéé", true},
		{strings.Repeat("a*", 50) + "b", strings.Repeat("a", 5000), false},
	} {
		if got := MatchGlob(c.glob, c.s); got != c.want {
			t.Errorf("%q on %q: got %v", clip(c.glob), clip(c.s), got)
		}
	}
}

func TestServerACL(t *testing.T) {
	for _, c := range []struct {
		content string
		server  ServerName
		want    bool
	}{
		{`{}`, "a.org", false},
		{`{"allow":["*"]}`, "[::1]:80", true},
		{`{"allow":["*"],"allow_ip_literals":"false"}`, "1.2.3.4", true},
		{`{"allow":["*"],"allow_ip_literals":false}`, "[::1]:80", false},
		{`{"allow":["*"],"allow_ip_literals":false}`, "1.2.3.4.example", true},
		{`{"allow":"*"}`, "a.org", false},
		{`{"allow":[5,"A.ORG"]}`, "a.org:80", true},
		{`{"allow":["a.org"],"deny":[["*"],5]}`, "a.org", true},
		{`{"allow":["*"],"deny":["?.org"]}`, "A.org", false},
		{`{"allow":["[::1]"]}`, "[::1]:80", true},
	} {
		if got := ParseServerACL([]byte(canonical(t, []byte(c.content)))).Allows(c.server); got != c.want {
			t.Errorf("%s, %s: got %v", c.content, c.server, got)
		}
	}
}
