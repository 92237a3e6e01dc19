package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// edu is an m.direct_to_device as it waits in the outbox.
// Server-Server API, "Send-to-device messaging".
type edu struct {
	dest    matrix.ServerName
	size    int
	Type    string `json:"edu_type"`
	Content struct {
		Sender    matrix.UserID                               `json:"sender"`
		Type      string                                      `json:"type"`
		MessageID string                                      `json:"message_id"`
		Messages  map[matrix.UserID]map[string]jsontext.Value `json:"messages"`
	} `json:"content"`
}

// testMessageIDs is T8, of the rows: that every attempt repeats them comes with
// federation.
func testMessageIDs(t *testing.T) {
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	const requests = 50
	for i := range requests {
		m := testserver.Messages{}
		for k := range 3 {
			m[matrix.UserID(fmt.Sprintf("@u:server%d.test", k))] = map[string]string{"*": number(i)}
		}
		// Two senders, one transaction ID: receivers must not take one for the other.
		for _, c := range []*testserver.Client{alice, bob} {
			c.SendToDevices("m.test", fmt.Sprint(i), m)
			c.SendToDevices("m.test", fmt.Sprint(i), m)
		}
	}
	alice.SendToDevices("m.test", "split", big(60))
	before := queued(t, hs)
	if len(before) <= requests*2*3 {
		t.Fatalf("%d EDUs, want more than %d and the parts of a big one", len(before), requests*2*3)
	}
	seen := map[string]bool{}
	for _, e := range before {
		id := e.Content.MessageID
		if seen[id] || utf8.RuneCountInString(id) > 32 || len(id) < 20 {
			t.Fatalf("message_id %q: not new, or not 128 random bits in at most 32 code points", id)
		}
		seen[id] = true
	}
	hs.Crash()
	for i, e := range queued(t, hs) {
		if e.Content.MessageID != before[i].Content.MessageID {
			t.Fatalf("EDU %d has message_id %q after a crash, had %q", i, e.Content.MessageID, before[i].Content.MessageID)
		}
	}
}

// testRemoteSplit is T9, of the rows.
func testRemoteSplit(t *testing.T) {
	t.Run("one EDU per destination", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice := hs.Register("alice")
		for i := range 3 {
			alice.SendToDevices("m.test", fmt.Sprint(i), testserver.Messages{
				"@a:one.test": {"*": number(i), "PHONE": number(i + 100)},
				"@b:one.test": {"TABLET": number(i)},
				"@c:two.test": {"*": number(i)},
			})
		}
		n := map[matrix.ServerName]int{}
		for _, e := range queued(t, hs) {
			if e.Type != "m.direct_to_device" || e.Content.Sender != alice.UserID || e.Content.Type != "m.test" {
				t.Fatalf("got %+v", e)
			}
			i := n[e.dest]
			n[e.dest]++
			want := map[matrix.ServerName]string{
				"one.test": fmt.Sprintf(`{"@a:one.test":{"*":{"n":%d},"PHONE":{"n":%d}},"@b:one.test":{"TABLET":{"n":%d}}}`, i, i+100, i),
				"two.test": fmt.Sprintf(`{"@c:two.test":{"*":{"n":%d}}}`, i),
			}[e.dest]
			if got := text(t, e.Content.Messages); got != want {
				t.Fatalf("to %s: got %s, want %s", e.dest, got, want)
			}
		}
		if len(n) != 2 || n["one.test"] != 3 || n["two.test"] != 3 {
			t.Fatalf("got %v, want 3 for each of two destinations", n)
		}
	})
	t.Run("split by size", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice := hs.Register("alice")
		const recipients = 60
		m := big(recipients)
		alice.SendToDevices("m.test", "1", m)
		rows := queued(t, hs)
		got := map[matrix.UserID]int{}
		total := 0
		for _, e := range rows {
			if e.size > 65_536 {
				t.Errorf("an EDU of %d bytes", e.size)
			}
			total += e.size
			for u, devices := range e.Content.Messages {
				for d, content := range devices {
					got[u]++
					if string(content) != m[u][d] {
						t.Errorf("%s %s: content changed", u, d)
					}
				}
			}
		}
		if len(got) != recipients {
			t.Fatalf("%d recipients, want %d", len(got), recipients)
		}
		for u, n := range got {
			if n != 1 {
				t.Fatalf("%s is in %d EDUs", u, n)
			}
		}
		// No more parts than it takes, give or take what does not fit together.
		if most := total/(65_536-11_000) + 1; len(rows) < 2 || len(rows) > most {
			t.Fatalf("%d EDUs for %d bytes, want 2 to %d", len(rows), total, most)
		}
	})
	t.Run("content that fits nowhere", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice, bob := hs.Register("alice"), hs.Register("bob")
		huge := fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 65_536))
		body := testserver.Messages{
			bob.UserID:    {"*": `{"n":1}`},
			"@a:one.test": {"*": `{"n":1}`},
			"@c:two.test": {"*": huge},
		}.Body()
		alice.Want(http.StatusRequestEntityTooLarge, matrix.TooLarge, http.MethodPut, testserver.ToDevicePath("m.test", "1"), body)
		bob.Sync().NoToDevice()
		if n := len(queued(t, hs)); n != 0 {
			t.Fatalf("%d EDUs stored", n)
		}
		// Nothing was recorded either: the transaction ID is still free.
		alice.SendToDevices("m.test", "1", testserver.Messages{bob.UserID: {"*": `{"n":2}`}})
		bob.Sync().HasToDevice("m.test", `{"n":2}`)
	})
}

// big is a request to so many users of one server, 10 kB each.
func big(recipients int) testserver.Messages {
	m := testserver.Messages{}
	for i := range recipients {
		m[matrix.UserID(fmt.Sprintf("@u%d:big.test", i))] = map[string]string{
			"*": fmt.Sprintf(`{"n":%d,"x":%q}`, i, strings.Repeat("x", 10_000)),
		}
	}
	return m
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
