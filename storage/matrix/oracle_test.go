//go:build oracle

package matrix

import (
	"encoding/json/v2"
	"testing"
	"time"

	"maunium.net/go/mautrix/federation/pdu"
	"maunium.net/go/mautrix/id"
	"pgregory.net/rapid"
)

// TestOracle compares content hashes, IDs, redactions and signatures of random
// events of room versions 3 to 12.
//
//	GOEXPERIMENT=jsonv2 go test -tags oracle -run Oracle ./storage/matrix
func TestOracle(t *testing.T) {
	check(t, func(t *rapid.T) {
		v := rapid.SampledFrom(versions[2:]).Draw(t, "version")
		s := testSigner("b.org")
		proto := drawEvent(t, &v)
		ours, err := HashAndSign(&v, proto, s)
		if err != nil {
			t.Fatal(err)
		}
		var theirs pdu.PDU
		if err := json.Unmarshal(ours.JSON(), &theirs); err != nil {
			t.Fatal(err)
		}
		if !theirs.VerifyContentHash() {
			t.Fatalf("content hash of %s", ours.JSON())
		}
		version := id.RoomVersion(v.ID)
		eventID, err := theirs.GetEventID(version)
		if err != nil || string(eventID) != string(ours.ID()) {
			t.Fatalf("got %s, want %s, %v of %s", ours.ID(), eventID, err, ours.JSON())
		}
		key := func(string, id.KeyID, time.Time) (id.SigningKey, time.Time, error) {
			return id.SigningKey(EncodeBase64(s.public())), time.UnixMilli(1 << 50), nil
		}
		if err := theirs.VerifySignature(version, "b.org", key); err != nil {
			t.Fatalf("signature of %s: %v", ours.JSON(), err)
		}
		redacted, err := json.Marshal(theirs.Clone().Redact(version))
		if err != nil {
			t.Fatal(err)
		}
		if redacted, err = CanonicalJSON(redacted); err != nil || string(redacted) != string(ours.Redacted().JSON()) {
			t.Fatalf("redacted\ngot  %s\nwant %s, %v", ours.Redacted().JSON(), redacted, err)
		}
	})
}

// BenchmarkParseOracle does with mautrix what BenchmarkParse does: run both at
// once to compare them.
//
//	GOEXPERIMENT=jsonv2 go test -tags oracle -run - -bench 'Parse(Oracle)?$' ./storage/matrix
func BenchmarkParseOracle(b *testing.B) {
	v := version(b, "10")
	raw := typicalEvent(b, v)
	ours, err := ParseEvent(v, raw)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		var p pdu.PDU
		if err := json.Unmarshal(raw, &p); err != nil {
			b.Fatal(err)
		}
		if !p.VerifyContentHash() {
			b.Fatal("content hash differs")
		}
		got, err := p.GetEventID(id.RoomV10)
		if err != nil || string(got) != string(ours.ID()) {
			b.Fatal(got, ours.ID(), err)
		}
	}
}
