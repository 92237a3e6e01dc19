package matrix

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// typicalEvent is a message of room version 10 as another server would send
// it: keys not in order, unsigned among them.
func typicalEvent(tb testing.TB, v *Version) []byte {
	tb.Helper()
	e, err := Build(v, Template{
		RoomID: roomFor(v), Type: "m.room.message", Sender: "@alice:example.org",
		OriginServerTS: 1732435724653, Depth: 4711,
		PrevEvents: []EventID{hashIDFor("p1"), hashIDFor("p2")},
		AuthEvents: []EventID{hashIDFor("a1"), hashIDFor("a2"), hashIDFor("a3")},
		Content: []byte(`{"msgtype":"m.text","body":"Shall we meet at eight? I have not seen the others since Monday…",` +
			`"format":"org.matrix.custom.html","formatted_body":"Shall we meet at <b>eight</b>?\nI have not seen the others since Monday…",` +
			`"m.mentions":{"user_ids":["@bob:example.org"]},"m.relates_to":{"m.in_reply_to":{"event_id":"$x"}}}`),
	}, testSigner("example.org"))
	if err != nil {
		tb.Fatal(err)
	}
	raw := `{"unsigned":{"age":4612}`
	members := appendMembers(nil, e.json)
	slices.Reverse(members)
	for _, m := range members {
		raw += "," + string(m.segment(e.json))
	}
	return []byte(raw + "}")
}

func roomFor(v *Version) RoomID {
	if v.RoomIDFromCreate {
		return RoomID("!" + hashIDFor("create")[1:])
	}
	return "!room:example.org"
}

func hashIDFor(name string) EventID {
	sum := sha256.Sum256([]byte(name))
	return EventID("$" + base64.RawURLEncoding.EncodeToString(sum[:]))
}

func testSigner(server ServerName) Signer {
	seed := sha256.Sum256([]byte(server))
	return Signer{Server: server, KeyID: "ed25519:1", Key: ed25519.NewKeyFromSeed(seed[:])}
}

func (s Signer) public() ed25519.PublicKey { return s.Key.Public().(ed25519.PublicKey) }

func version(tb testing.TB, id RoomVersion) *Version {
	tb.Helper()
	v, ok := VersionOf(id)
	if !ok {
		tb.Fatalf("no room version %s", id)
	}
	return v
}

// BenchmarkParse is parse + content hash + event ID.
func BenchmarkParse(b *testing.B) {
	v := version(b, "10")
	raw := typicalEvent(b, v)
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		e, err := ParseEvent(v, raw)
		if err != nil || !e.HashOK() {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseStored(b *testing.B) {
	v := version(b, "10")
	e, err := ParseEvent(v, typicalEvent(b, v))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseStored(v, e.ID(), e.JSON()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCanonicalJSON(b *testing.B) {
	raw := typicalEvent(b, version(b, "10"))
	dst := make([]byte, 0, len(raw))
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := AppendCanonicalJSON(dst, raw, true); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerify compares the verification of an event's signature with bare
// ed25519 over the same bytes: at most 1.15.
func BenchmarkVerify(b *testing.B) {
	v, s := version(b, "10"), testSigner("example.org")
	e, err := ParseEvent(v, typicalEvent(b, v))
	if err != nil {
		b.Fatal(err)
	}
	message, pub := e.signingBytes(), s.public()
	sig, err := signatureOf(e.signatures, s.Server, s.KeyID)
	if err != nil {
		b.Fatal(err)
	}
	ratio(b, func() {
		if err := VerifyEventSignature(e, s.Server, s.KeyID, pub); err != nil {
			b.Fatal(err)
		}
	}, func() {
		if !ed25519.Verify(pub, message, sig[:]) {
			b.Fatal("does not verify")
		}
	})
}

// ratio reports how the time of one function compares with that of another.
// The two take turns, and the quickest turn of each counts, so that a busy
// machine alters the ratio little.
func ratio(b *testing.B, ours, theirs func()) {
	const turn = 20
	quickest := func(best time.Duration, f func()) time.Duration {
		start := time.Now()
		for range turn {
			f()
		}
		return min(best, time.Since(start))
	}
	us, them := time.Hour, time.Hour
	for b.Loop() {
		us, them = quickest(us, ours), quickest(them, theirs)
	}
	b.ReportMetric(float64(us)/turn, "ours-ns")
	b.ReportMetric(float64(them)/turn, "theirs-ns")
	b.ReportMetric(float64(us)/float64(them), "ratio")
}

// BenchmarkPowerLevels parses the power levels of a room with 1,000 users in
// them, and asks for them again.
func BenchmarkPowerLevels(b *testing.B) {
	var users []string
	for i := range 1000 {
		users = append(users, fmt.Sprintf(`"@user%d:server%d.example.org":%d`, i, i%50, i%100))
	}
	content := []byte(`{"ban":50,"users":{` + strings.Join(users, ",") + `}}`)
	v := version(b, "10")
	e, err := Build(v, Template{RoomID: roomFor(v), Type: TypePowerLevels, StateKey: new(string),
		Sender: "@a:example.org", Content: content}, testSigner("example.org"))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := parsePowerLevels(v, e.content); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("again", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if p, _ := e.PowerLevels(); p.User("@user999:server49.example.org") != 99 {
				b.Fatal("wrong level")
			}
		}
	})
}
