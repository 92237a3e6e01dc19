package outbox

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"hearth/storage/matrix"
)

type users = map[matrix.UserID]map[string]jsontext.Value

// edu is an EDU as a receiver decodes it.
type edu struct {
	Type    string `json:"edu_type"`
	Content struct {
		MessageID string        `json:"message_id"`
		Messages  users         `json:"messages"`
		Sender    matrix.UserID `json:"sender"`
		Type      string        `json:"type"`
	} `json:"content"`
}

func decode(t interface{ Fatalf(string, ...any) }, raw []byte) edu {
	var e edu
	if err := json.Unmarshal(raw, &e, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("EDU does not decode: %v", err)
	}
	return e
}

func TestPackKeepsEveryMessageAndTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, total := users{}, 0
		for i := range rapid.IntRange(1, 30).Draw(t, "users") {
			u := matrix.UserID(fmt.Sprintf("@ü%d\\\":there.test", i))
			in[u] = map[string]jsontext.Value{}
			for k := range rapid.IntRange(0, 4).Draw(t, "devices") {
				n := rapid.SampledFrom([]int{0, 10, 1000, 30_000, 65_000}).Draw(t, "size")
				in[u][fmt.Sprintf("D\n%d", k)] = jsontext.Value(`{"x" : "` + strings.Repeat("y", n) + `"}`)
				total++
			}
		}
		out, err := pack("@me:here.test", "m.test\t", in)
		if err != nil {
			t.Fatalf("pack: %v", err)
		}
		seen, ids := 0, map[string]bool{}
		for i, raw := range out {
			if len(raw) > MaxEDU {
				t.Fatalf("EDU of %d bytes", len(raw))
			}
			e := decode(t, raw)
			id := e.Content.MessageID
			if n := utf8.RuneCountInString(id); n < 22 || n > 32 || ids[id] {
				t.Fatalf("message ID %q: length or repetition", id)
			}
			ids[id] = true
			if e.Type != "m.direct_to_device" || e.Content.Sender != "@me:here.test" || e.Content.Type != "m.test\t" {
				t.Fatalf("envelope: %+v", e)
			}
			for u, devices := range e.Content.Messages {
				if len(devices) == 0 {
					t.Fatalf("%s has an empty object", u)
				}
				for d, content := range devices {
					want := in[u][d].Clone()
					_ = want.Compact()
					if string(content) != string(want) {
						t.Fatalf("%s %q: content differs", u, d)
					}
					seen++
				}
			}
			// Filling in order: the first message of an EDU did not fit the one before.
			if i > 0 && len(raw)+len(out[i-1]) < MaxEDU/2 {
				t.Fatalf("split needlessly: %d and %d bytes", len(out[i-1]), len(raw))
			}
		}
		if seen != total {
			t.Fatalf("got %d messages, want %d", seen, total)
		}
	})
}

func TestPackAtTheBound(t *testing.T) {
	t.Parallel()
	make := func(n int) users {
		return users{"@u:there.test": {"D": jsontext.Value(`"` + strings.Repeat("x", n) + `"`)}}
	}
	one, err := pack("@me:here.test", "m.test", make(0))
	if err != nil || len(one) != 1 {
		t.Fatalf("got %d EDUs, %v", len(one), err)
	}
	room := MaxEDU - len(one[0])
	full, err := pack("@me:here.test", "m.test", make(room))
	if err != nil || len(full) != 1 || len(full[0]) != MaxEDU {
		t.Fatalf("at the bound: got %d EDUs, %v", len(full), err)
	}
	_, err = pack("@me:here.test", "m.test", make(room+1))
	var m *matrix.Error
	if !errors.As(err, &m) || m.Code != matrix.TooLarge || m.Status != 413 {
		t.Fatalf("one byte more: got %v, want 413 M_TOO_LARGE", err)
	}
}

// What "*" and named devices of one user get is never parted, whatever else is
// in the request: the receiver would give a named device both.
func TestPackKeepsStarAndNamedDevicesTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := users{}
		for i := range rapid.IntRange(1, 12).Draw(t, "users") {
			u := matrix.UserID(fmt.Sprintf("@u%d:there.test", i))
			in[u] = map[string]jsontext.Value{}
			for _, d := range []string{"*", "A", "Z", "+", "!"}[:rapid.IntRange(1, 5).Draw(t, "devices")] {
				n := rapid.SampledFrom([]int{10, 1000, 10_000, 20_000}).Draw(t, "size")
				in[u][d] = jsontext.Value(`"` + strings.Repeat("y", n) + `"`)
			}
		}
		fits := true
		for u, devices := range in {
			alone, err := newWriter("@me:here.test", "m.test")
			if err != nil {
				t.Fatal(err)
			}
			size := len(`{"content":{"message_id":"","messages":{"":{`) + 26 + len(u) + len(alone.tail) + len(devices) - 1
			for d, content := range devices {
				size += len(`"":`) + len(d) + len(content)
			}
			fits = fits && size <= MaxEDU
		}
		out, err := pack("@me:here.test", "m.test", in)
		var m *matrix.Error
		if !fits && errors.As(err, &m) && m.Code == matrix.TooLarge && m.Status == 413 {
			return
		}
		if err != nil || !fits {
			t.Fatalf("fits: %t, got %v", fits, err)
		}
		got := map[matrix.UserID]int{}
		for _, raw := range out {
			if len(raw) > MaxEDU {
				t.Fatalf("EDU of %d bytes", len(raw))
			}
			for u, devices := range decode(t, raw).Content.Messages {
				if got[u]++; got[u] > 1 || len(devices) != len(in[u]) {
					t.Fatalf("%s has %d of %d messages in EDU %d of its own", u, len(devices), len(in[u]), got[u])
				}
			}
		}
		if len(got) != len(in) {
			t.Fatalf("%d users, want %d", len(got), len(in))
		}
	})
}
