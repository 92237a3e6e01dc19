package matrix

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestRedactEdges are cases the specification's table of keys leaves open.
func TestRedactEdges(t *testing.T) {
	for _, c := range []struct{ name, version, in, want string }{
		{"nothing kept", "11", `{"x":1}`, `{}`},
		{"no type", "11", `{"content":{"membership":"join"}}`, `{"content":{}}`},
		{"content of another kind", "11", `{"type":"m.room.member","content":[1]}`, `{"content":{},"type":"m.room.member"}`},
		{"keys are sorted", "11", `{"type":"x","sender":"s","depth":1}`, `{"depth":1,"sender":"s","type":"x"}`},
		// "It allows the signed key of the third_party_invite key": the
		// object stays, and everything else in it goes.
		{"invite without signed", "11", `{"type":"m.room.member","content":{"third_party_invite":{"display_name":"b"}}}`,
			`{"content":{"third_party_invite":{}},"type":"m.room.member"}`},
		{"invite of another kind", "11", `{"type":"m.room.member","content":{"third_party_invite":[{"signed":1}]}}`, `{"content":{},"type":"m.room.member"}`},
		{"invite before version 11", "10", `{"type":"m.room.member","content":{"third_party_invite":{"signed":{}}}}`, `{"content":{},"type":"m.room.member"}`},
		{"escaped key", "11", `{"type":"m.room.member","content":{"member\u0073hip":"join"}}`, `{"content":{"membership":"join"},"type":"m.room.member"}`},
		{"type with escapes", "11", `{"type":"m.room.\u006dember","content":{"membership":"join"}}`, `{"content":{"membership":"join"},"type":"m.room.member"}`},
		{"unsigned goes", "1", `{"unsigned":{"a":1},"origin":"o"}`, `{"origin":"o"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Redact(version(t, RoomVersion(c.version)), []byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			equal(t, string(got), c.want)
		})
	}
	if _, err := Redact(version(t, "6"), []byte(`{"depth":1.5}`)); err == nil {
		t.Error("a float was redacted in version 6")
	}
}

// drawEvent draws an event that parses in the room version: any known type,
// content with keys that redaction knows and others, shuffled and escaped.
func drawEvent(t *rapid.T, v *Version) []byte {
	event := sample(v)
	event["type"] = rapid.SampledFrom(append(redactableTypes, "m.room.message")).Draw(t, "type")
	content := make(map[string]any)
	full := fullContent()
	keys := rapid.SliceOfDistinct(rapid.SampledFrom(sortedKeys(full)), rapid.ID[string]).Draw(t, "content")
	for _, key := range keys {
		content[key] = full[key]
	}
	content[rapid.String().Draw(t, "key")] = rapid.String().Draw(t, "value")
	event["content"] = content
	for _, key := range []string{"origin", "membership", "prev_state", "redacts", "other"} {
		if rapid.Bool().Draw(t, key) {
			event[key] = rapid.StringN(0, 20, 60).Draw(t, key+" value")
		}
	}
	event["unsigned"] = map[string]any{"age": rapid.Int32().Draw(t, "age")}
	var members []string
	for _, key := range rapid.Permutation(sortedKeys(event)).Draw(t, "order") {
		members = append(members, escapeSome(t, key)+" : "+reference(plain(event[key])))
	}
	return []byte("{" + strings.Join(members, ",\n") + "}")
}

// TestEventProperties: an event's ID never changes by parsing, storing,
// redacting, signing or what came beside it; redaction is idempotent.
func TestEventProperties(t *testing.T) {
	check(t, func(t *rapid.T) {
		id := rapid.SampledFrom(RoomVersions()).Draw(t, "version")
		v, _ := VersionOf(id)
		raw := drawEvent(t, v)
		e, err := ParseEvent(v, raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		redacted, err := Redact(v, raw)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := Redact(v, redacted)
		if err != nil || string(twice) != string(redacted) || string(redacted) != string(e.Redacted().JSON()) {
			t.Fatalf("redacted %s, then %s, %v", redacted, twice, err)
		}
		signed, err := e.Sign(testSigner("two.example"))
		if err != nil {
			t.Fatal(err)
		}
		for name, raw := range map[string][]byte{"again": e.JSON(), "redacted": redacted, "signed": signed.JSON()} {
			again, err := ParseEvent(v, raw)
			if err != nil || again.ID() != e.ID() || again.RoomID() != e.RoomID() || string(again.JSON()) != string(raw) {
				t.Fatalf("%s: %v, %s", name, err, raw)
			}
			stored, err := ParseStored(v, "", raw)
			if err != nil || stored.ID() != e.ID() {
				t.Fatalf("stored %s: %v", name, err)
			}
		}
		if e.ReferenceHash() != signed.Redacted().ReferenceHash() {
			t.Fatal("reference hash changed")
		}
	})
}
