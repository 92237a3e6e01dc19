package keyring

import (
	"crypto/ed25519"
	"testing"

	"hearth/storage/matrix"
)

// FuzzParseStatement: whatever is taken for a server's statement is one, within
// bounds, and can be merged, stored and handed on with our signature.
func FuzzParseStatement(f *testing.F) {
	c := newClock()
	p := newPeer(c, "peer.test")
	f.Add(p.statement())
	p.rotate("ed25519:2")
	f.Add(p.statement())
	f.Add([]byte(`{"server_name":"peer.test","verify_keys":{"ed25519:1":{"key":""}},"valid_until_ts":1,"signatures":{}}`))
	f.Add([]byte(`{"server_name":"peer.test","signatures":[],"verify_keys":null}`))
	signer := matrix.Signer{Server: us, KeyID: "ed25519:1", Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	f.Fuzz(func(t *testing.T, raw []byte) {
		signedBy(raw, "notary.example")
		s, err := parseStatement(raw, p.name, c.now())
		if err != nil {
			return
		}
		if s.server != p.name || s.validUntil <= 0 || len(s.keys) == 0 || len(s.keys) > maxServerKeys {
			t.Errorf("took %s for %+v", raw, s)
		}
		for _, k := range s.keys {
			if len(k.Public) != ed25519.PublicKeySize || k.ID.Algorithm() != "ed25519" {
				t.Errorf("key %+v", k)
			}
		}
		known := merge(merge(nil, s, false, c.now()), s, true, c.now())
		if len(known.Keys) != len(s.keys) {
			t.Errorf("merged with itself: %d keys of %d", len(known.Keys), len(s.keys))
		}
		text, err := matrix.SignJSON(known.Statement, signer)
		if err != nil {
			t.Fatalf("cannot sign %s: %v", known.Statement, err)
		}
		if _, err := parseStatement(text, p.name, c.now()); err != nil && len(text) <= maxStatement {
			t.Errorf("handed on it is refused: %v\n%s", err, text)
		}
	})
}
