package matrix

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func testVectorServerName(t *testing.T, v vector) {
	want := decode[struct {
		Hostname string `json:"hostname"`
		Port     *int   `json:"port"`
		Kind     string `json:"kind"`
	}](t, v.Expected)
	s, err := ParseServerName(decode[string](t, v.Input))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, s.Host(), want.Hostname)
	equal(t, s.IsIPLiteral(), want.Kind != "dns-name")
	port, ok := s.Port()
	if equal(t, ok, want.Port != nil); ok {
		equal(t, port, *want.Port)
	}
}

func testVectorServerNameCase(t *testing.T, v vector) {
	var users []UserID
	for _, text := range decode[[]string](t, v.Input) {
		user, err := ParseUserID(text)
		if err != nil {
			t.Fatal(err)
		}
		users = append(users, user)
	}
	if users[0] == users[1] || users[0].Server() == users[1].Server() {
		t.Error("server names are compared without case")
	}
}

func testVectorLocalpart(t *testing.T, v vector) {
	in := decode[struct {
		Text string `json:"text"`
		Mode string `json:"mode"`
	}](t, v.Input)
	got := EscapeLocalpart(in.Text, in.Mode == "case-preserving")
	equal(t, got, decode[string](t, v.Expected))
	equal(t, ValidLocalpart(got), true)
}

func testVectorEventIDShape(t *testing.T, v vector) {
	text := decode[string](t, v.Input)
	for _, version := range versionsOf(t, v.Versions) {
		if text[0] == '!' {
			equal(t, checkRoomID(version, RoomID(text)), nil)
			continue
		}
		if _, err := ParseEventID(text); err != nil {
			t.Error(err)
		}
		if version.IDFormat == IDServer {
			equal(t, EventID(text).Server(), "example.com")
			continue
		}
		equal(t, len(text), len(hashID(version, [32]byte{})))
		if strings.ContainsAny(text, "+/") {
			equal(t, version.IDFormat, IDBase64)
		}
		if strings.ContainsAny(text, "-_") {
			equal(t, version.IDFormat, IDBase64URL)
		}
	}
}

func testVectorRoomVersion(t *testing.T, v vector) {
	want := decode[struct {
		Valid bool `json:"valid"`
	}](t, v.Expected)
	equal(t, ValidRoomVersion(decode[string](t, v.Input)), want.Valid)
}

// testVectorPowerLevel parses one level as every room version would: a string
// vector between quotes, a float vector as a number.
func testVectorPowerLevel(t *testing.T, v vector) {
	text := decode[string](t, v.Input)
	isFloat := v.Versions == "1-5"
	if !isFloat {
		text = string(appendQuoted(nil, text))
	}
	want, refused := int64(0), v.Expected.Kind() != '0'
	if !refused {
		want = decode[int64](t, v.Expected)
	}
	places := map[string]func(*PowerLevels) int64{
		`{"ban":` + text + `}`:            (*PowerLevels).BanLevel,
		`{"users":{"@a:b":` + text + `}}`: func(p *PowerLevels) int64 { return p.User("@a:b") },
		`{"events":{"x":` + text + `}}`:   func(p *PowerLevels) int64 { return p.Event("x", true) },
	}
	good := versionsOf(t, v.Versions)
	for _, version := range versionsOf(t, "all") {
		for content, level := range places {
			p, err := levelsOf(version, content)
			switch {
			case refused || !slices.Contains(good, version):
				if err == nil {
					t.Errorf("version %s took %s", version.ID, content)
				}
			case err != nil:
				t.Errorf("version %s: %v", version.ID, err)
			default:
				equal(t, level(p), want)
			}
		}
	}
}

// levelsOf parses power levels through the encoder that room version demands.
func levelsOf(v *Version, content string) (*PowerLevels, error) {
	b, err := AppendCanonicalJSON(nil, []byte(content), v.StrictJSON)
	if err != nil {
		return nil, err
	}
	return parsePowerLevels(v, b)
}

// testVectorRedaction redacts an event of each type in which every key that
// any version keeps, and one that none does, has a value.
func testVectorRedaction(t *testing.T, v vector) {
	in := decode[struct {
		Versions []RoomVersion `json:"room_versions"`
	}](t, v.Input)
	want := decode[struct {
		TopLevel []string                  `json:"top_level"`
		Content  map[string]jsontext.Value `json:"content"`
	}](t, v.Expected)
	for _, id := range in.Versions {
		for _, typ := range append(redactableTypes, "m.room.message") {
			event := map[string]any{"unsigned": 1, "other": 2, "redacts": "$x", "type": typ, "content": fullContent()}
			for _, key := range []string{"event_id", "room_id", "sender", "state_key", "hashes", "signatures", "depth",
				"prev_events", "prev_state", "auth_events", "origin", "origin_server_ts", "membership"} {
				event[key] = key
			}
			expected := make(map[string]any)
			for _, key := range want.TopLevel {
				expected[key] = event[key]
			}
			expected["content"] = keptContent(t, want.Content[typ])
			got, err := Redact(version(t, id), marshal(t, event))
			if err != nil {
				t.Fatal(err)
			}
			equal(t, string(got), string(marshal(t, expected)))
		}
	}
}

var redactableTypes = []string{TypeAliases, TypeCreate, TypeHistoryVisibility, TypeJoinRules, TypeMember,
	TypePowerLevels, TypeRedaction, TypeThirdPartyInvite}

// fullContent has every key that any redaction algorithm keeps of any type, and others.
func fullContent() map[string]any {
	content := map[string]any{"third_party_invite": map[string]any{"display_name": "x", "signed": map[string]any{"token": "t"}}}
	for _, key := range []string{"membership", "join_authorised_via_users_server", "creator", "join_rule", "allow", "ban",
		"events", "events_default", "invite", "kick", "redact", "state_default", "users", "users_default", "aliases",
		"history_visibility", "redacts", "notifications", "body", "room_version"} {
		content[key] = key
	}
	return content
}

// keptContent is fullContent after redaction, by a vector's list of keys.
func keptContent(t *testing.T, list jsontext.Value) map[string]any {
	t.Helper()
	full, kept := fullContent(), make(map[string]any)
	if string(list) == `"*"` {
		return full
	}
	if list == nil {
		return kept
	}
	for _, key := range decode[[]string](t, list) {
		outer, inner, nested := strings.Cut(key, ".")
		if !nested {
			kept[key] = full[key]
			continue
		}
		kept[outer] = map[string]any{inner: full[outer].(map[string]any)[inner]}
	}
	return kept
}

func testVectorRestrictedJoin(t *testing.T, v vector) {
	in := decode[struct {
		Content jsontext.Value `json:"content"`
		Joined  []RoomID       `json:"joined"`
	}](t, v.Input)
	want := decode[struct {
		Meets bool `json:"meets"`
	}](t, v.Expected)
	c := parseJoinRules([]byte(canonical(t, in.Content)))
	got := c.Allows(func(r RoomID) bool { return slices.Contains(in.Joined, r) })
	equal(t, got, want.Meets)
}

func testVectorServerACL(t *testing.T, v vector) {
	in := decode[struct {
		Content jsontext.Value `json:"content"`
		Server  ServerName     `json:"server"`
	}](t, v.Input)
	if string(in.Content) == "null" {
		return // no event: nothing to ask
	}
	got := ParseServerACL([]byte(canonical(t, in.Content))).Allows(in.Server)
	equal(t, got, decode[string](t, v.Expected) == "allow")
}

// testVectorSizeLimit builds identifiers and events at the limit and one byte beyond.
func testVectorSizeLimit(t *testing.T, v vector) {
	limit, what := decode[int](t, v.Expected), decode[string](t, v.Input)
	pad := func(head, tail string, n int) string {
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	check := map[string]func(n int) error{
		"room_alias": func(n int) error { _, err := ParseRoomAlias(pad("#", ":b.org", n)); return err },
		"event_id":   func(n int) error { _, err := ParseEventID(pad("$", ":b.org", n)); return err },
		"event":      func(n int) error { return parseWith(t, "padding", pad("", "", n)) },
		"sender":     func(n int) error { return parseWith(t, "sender", pad("@", ":b.org", n)) },
		"room_id":    func(n int) error { return parseWith(t, "room_id", pad("!", ":b.org", n)) },
		"type":       func(n int) error { return parseWith(t, "type", pad("", "", n)) },
		"state_key":  func(n int) error { return parseWith(t, "state_key", pad("", "", n)) },
		"profile":    nil, "profile keyName": nil, // what profiles are held to
	}
	test, ok := check[what]
	if !ok {
		t.Fatalf("no test of %s", what)
	}
	if test == nil {
		return
	}
	if what == "event" {
		limit -= len(sampleWith(t, "padding", ""))
	}
	if err := test(limit); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if test(limit+1) == nil {
		t.Error("beyond the limit: no error")
	}
}
