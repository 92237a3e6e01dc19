package inbound

import (
	"testing"

	"github.com/go-json-experiment/json"

	"hearth/storage/matrix"
)

// FuzzTransaction: whatever a peer sends, what comes through is what a sender
// may send, to users here, and the response can be recorded.
func FuzzTransaction(f *testing.F) {
	f.Add([]byte(transaction(peer, direct("1", `{"n":1}`), edu("2", `{"`+bob+`":{"*":{},"B1":[]},"@x:y":5}`), `5`)))
	f.Add([]byte(`{"origin":"peer.example","pdus":[{"event_id":"$a"},{"type":"m.room.message","room_id":"!r:s","content":{}},null],"edus":null}`))
	f.Add([]byte(`{"origin":"peer.example","edus":[{"edu_type":"m.typing"},{"edu_type":"m.direct_to_device","content":{"messages":{"a":{}}}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var in Transaction
		if json.Unmarshal(body, &in) != nil || in.Validate() != nil {
			return
		}
		p := readEDUs(in.EDUs, peer, ours)
		if len(p.edus)+p.ignored > len(in.EDUs) || len(p.bad) > len(in.EDUs) {
			t.Errorf("%d EDUs became %d and %d, and %d are bad", len(in.EDUs), len(p.edus), p.ignored, len(p.bad))
		}
		for _, e := range p.edus {
			if e.Sender.Server() != peer || e.Type == "" || e.MessageID == "" || len(e.Type) > maxType {
				t.Errorf("let through %+v", e.DirectToDevice)
			}
			for user, devices := range e.Messages {
				if id, err := matrix.ParseUserID(string(user)); err != nil || id.Server() != ours {
					t.Errorf("let through a message to %q", user)
				}
				for device, content := range devices {
					if device == "" || !content.IsValid() || content.Kind() != '{' {
						t.Errorf("let through %q for %q", content, device)
					}
				}
			}
		}
		response, err := refusePDUs(in.PDUs)
		if err != nil || len(response) > 64<<10 {
			t.Errorf("a response of %d bytes: %v", len(response), err)
		}
	})
}
