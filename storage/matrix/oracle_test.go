//go:build oracle

package matrix

import (
	"encoding/json/v2"
	"testing"

	"maunium.net/go/mautrix/federation/pdu"
	"maunium.net/go/mautrix/id"
)

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
