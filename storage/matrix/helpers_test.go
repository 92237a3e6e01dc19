package matrix

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

// scale multiplies a number of rounds by HEARTH_TEST_SCALE.
func scale(n int) int {
	if f, err := strconv.Atoi(os.Getenv("HEARTH_TEST_SCALE")); err == nil && f > 1 {
		return n * f
	}
	return n
}

// check runs a property: 100 cases, times the scale.
func check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	for range scale(1) {
		rapid.Check(t, property)
	}
}

// marshal encodes v, canonically.
func marshal(tb testing.TB, v any) []byte {
	tb.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		b, err = CanonicalJSON(b)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// sample is a valid state event of a room version, as a map to change. Its
// hash and signatures are of the right form only.
func sample(v *Version) map[string]any {
	e := map[string]any{
		"type": "x.test", "state_key": "", "sender": "@a:b.org", "room_id": string(roomFor(v)),
		"origin_server_ts": 1, "depth": 2, "content": map[string]any{"body": "text"},
		"hashes":      map[string]any{"sha256": EncodeBase64(make([]byte, 32))},
		"signatures":  map[string]any{"b.org": map[string]any{"ed25519:1": "abc"}},
		"prev_events": []any{"$p:b.org"}, "auth_events": []any{"$a:b.org"},
	}
	if v.PairReferences {
		hashes := map[string]any{"sha256": "abc"}
		e["prev_events"] = []any{[]any{"$p:b.org", hashes}}
		e["auth_events"] = []any{[]any{"$a:b.org", hashes}}
	}
	if v.IDFormat == IDServer {
		e["event_id"] = "$e:b.org"
	}
	return e
}

// sampleWith is a sample of room version 11 with one field set.
func sampleWith(tb testing.TB, key string, value any) []byte {
	tb.Helper()
	e := sample(version(tb, "11"))
	e[key] = value
	return marshal(tb, e)
}

func parseWith(tb testing.TB, key string, value any) error {
	tb.Helper()
	_, err := ParseEvent(version(tb, "11"), sampleWith(tb, key, value))
	return err
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// plain turns what sample holds into what the JSON library decodes to.
func plain(v any) any {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int32:
		return float64(v)
	case map[string]any:
		out := make(map[string]any)
		for key, value := range v {
			out[key] = plain(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = plain(value)
		}
		return out
	}
	return v
}
