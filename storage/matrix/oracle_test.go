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

// BenchmarkParseOracle compares what [BenchmarkParse] does with mautrix doing
// the same: at most 0.7.
//
//	GOEXPERIMENT=jsonv2 go test -tags oracle -run - -bench ParseOracle ./storage/matrix
func BenchmarkParseOracle(b *testing.B) {
	v := version(b, "10")
	raw := typicalEvent(b, v)
	ours, err := ParseEvent(v, raw)
	if err != nil {
		b.Fatal(err)
	}
	ratio(b, func() {
		if e, err := ParseEvent(v, raw); err != nil || !e.HashOK() || e.ID() != ours.ID() {
			b.Fatal(err)
		}
	}, func() {
		var p pdu.PDU
		if err := json.Unmarshal(raw, &p); err != nil || !p.VerifyContentHash() {
			b.Fatal(err)
		}
		if got, err := p.GetEventID(id.RoomV10); err != nil || string(got) != string(ours.ID()) {
			b.Fatal(got, ours.ID(), err)
		}
	})
}
