package matrix

import (
	"crypto/ed25519"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// vectorGroup is a group of the specification's test vectors.
type vectorGroup struct {
	Group   string   `json:"group"`
	Vectors []vector `json:"vectors"`
}

type vector struct {
	Name     string         `json:"name"`
	Input    jsontext.Value `json:"input"`
	Expected jsontext.Value `json:"expected"`
	Versions string         `json:"room_versions"`
}

// vectorsElsewhere are the groups about what other packages do.
var vectorsElsewhere = []string{
	"email_canonical", "identity_lookup_hash", "matrix_uri", "oauth_pkce_s256", "property_path",
	"push_event_match", "push_event_property_contains", "push_event_property_is",
	"restricted_join_auth", "restricted_join_errors", "x_matrix_header",
}

var vectorTests = map[string]func(*testing.T, vector){
	"canonical_json":            testVectorCanonicalJSON,
	"content_hash":              testVectorContentHash,
	"event_id_shape":            testVectorEventIDShape,
	"event_signing":             testVectorEventSigning,
	"json_signing":              testVectorJSONSigning,
	"power_level_floats":        testVectorPowerLevel,
	"power_level_strings":       testVectorPowerLevel,
	"redaction_keep":            testVectorRedaction,
	"restricted_join_condition": testVectorRestrictedJoin,
	"room_version_grammar":      testVectorRoomVersion,
	"server_acl":                testVectorServerACL,
	"server_name":               testVectorServerName,
	"server_name_case":          testVectorServerNameCase,
	"size_limits":               testVectorSizeLimit,
	"unpadded_base64":           testVectorBase64,
	"user_id_localpart_mapping": testVectorLocalpart,
}

// TestVectors runs the specification's test vectors. What the file lists under
// do_not_use lies outside of its groups and is not read.
func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/spec/test-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []vectorGroup `json:"groups"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, g := range file.Groups {
		if slices.Contains(vectorsElsewhere, g.Group) {
			continue
		}
		test, ok := vectorTests[g.Group]
		if !ok {
			t.Errorf("no test of vector group %s", g.Group)
			continue
		}
		seen++
		for _, v := range g.Vectors {
			t.Run(g.Group+"/"+v.Name, func(t *testing.T) { test(t, v) })
		}
	}
	if seen != len(vectorTests) {
		t.Errorf("got %d vector groups, want %d", seen, len(vectorTests))
	}
}

// decode reads a part of a vector.
func decode[T any](t *testing.T, raw jsontext.Value) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func equal[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func canonical(t testing.TB, raw []byte) string {
	t.Helper()
	b, err := CanonicalJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// versionsOf are the room versions "1-9" names; all if it is empty or "all".
func versionsOf(t *testing.T, names string) []*Version {
	t.Helper()
	all := RoomVersions()
	if names != "" && names != "all" {
		first, last, ok := strings.Cut(names, "-")
		if !ok {
			last = first
		}
		all = all[slices.Index(all, RoomVersion(first)) : slices.Index(all, RoomVersion(last))+1]
	}
	var list []*Version
	for _, id := range all {
		list = append(list, version(t, id))
	}
	return list
}

func testVectorBase64(t *testing.T, v vector) {
	text, want := decode[string](t, v.Input), decode[string](t, v.Expected)
	equal(t, EncodeBase64([]byte(text)), want)
	for _, padding := range []string{"", strings.Repeat("=", (4-len(want)%4)%4)} {
		got, err := DecodeBase64(want + padding)
		if err != nil || string(got) != text {
			t.Errorf("got %q, %v, want %q", got, err, text)
		}
	}
}

func testVectorCanonicalJSON(t *testing.T, v vector) {
	in, want := decode[string](t, v.Input), decode[string](t, v.Expected)
	equal(t, canonical(t, []byte(in)), want)
	_, err := StrictCanonicalJSON([]byte(in))
	if loose := v.Name == "negative zero and exponent"; (err != nil) != loose {
		t.Errorf("strict: got error %v", err)
	}
}

type keyInput struct {
	Key struct {
		Seed   string     `json:"seed_base64"`
		Server ServerName `json:"server_name"`
		KeyID  KeyID      `json:"key_id"`
	} `json:"key"`
	Object jsontext.Value `json:"object"`
	Event  jsontext.Value `json:"event"`
}

func (in *keyInput) signer(t *testing.T) Signer {
	t.Helper()
	seed, err := DecodeBase64(in.Key.Seed)
	if err != nil {
		t.Fatal(err)
	}
	return Signer{Server: in.Key.Server, KeyID: in.Key.KeyID, Key: ed25519.NewKeyFromSeed(seed)}
}

func testVectorJSONSigning(t *testing.T, v vector) {
	in := decode[keyInput](t, v.Input)
	s := in.signer(t)
	got, err := SignJSON(in.Object, s)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, string(got), canonical(t, v.Expected))
	if err := VerifyJSON(v.Expected, s.Server, s.KeyID, s.public()); err != nil {
		t.Error(err)
	}
}

// testVectorEventSigning does by hand what HashAndSign does, which refuses
// these events for the fields they lack.
func testVectorEventSigning(t *testing.T, v vector) {
	in := decode[keyInput](t, v.Input)
	s := in.signer(t)
	want := without(t, v.Expected, "unsigned")
	for _, version := range versionsOf(t, v.Versions) {
		b, err := hashAndSign(version, in.Event, s, "")
		if err != nil {
			t.Fatal(err)
		}
		equal(t, string(b), want)
	}
}

// without is the canonical form of a JSON object, less one key.
func without(t *testing.T, raw []byte, key string) string {
	t.Helper()
	b := []byte(canonical(t, raw))
	return string(appendWithout(nil, b, appendMembers(nil, b), key))
}

func testVectorContentHash(t *testing.T, v vector) {
	in := decode[keyInput](t, v.Input)
	for _, version := range versionsOf(t, v.Versions) {
		sum, err := ContentHash(version, in.Event)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, EncodeBase64(sum[:]), decode[string](t, v.Expected))
	}
}
