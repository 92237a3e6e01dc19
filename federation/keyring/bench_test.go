package keyring

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hearth/federation/remote"
	"hearth/storage/matrix"
)

// BenchmarkVerifyRequest is what the authentication of one request costs.
func BenchmarkVerifyRequest(b *testing.B) {
	c := newClock()
	p := newPeer(c, "peer.test")
	p.life = time.Hour * 1000
	r := openRing(b, c, newNetwork(p))
	for _, size := range []int{0, 1 << 10, 64 << 10} {
		body := `{"x":"` + strings.Repeat("x", size) + `"}`
		text, err := matrix.SignJSON(fmt.Appendf(nil, `{"method":"PUT","uri":"/","origin":%q,"destination":%q,"content":%s}`, p.name, us, body),
			matrix.Signer{Server: p.name, KeyID: "ed25519:1", Key: p.keys["ed25519:1"]})
		if err != nil {
			b.Fatal(err)
		}
		_, sig, _ := strings.Cut(string(text), `"ed25519:1":"`)
		x := remote.XMatrix{Origin: p.name, Destination: us, Key: "ed25519:1", Sig: sig[:86]}
		b.Run(fmt.Sprintf("body=%d", size), func(b *testing.B) {
			for b.Loop() {
				if err := r.VerifyRequest(b.Context(), x, "PUT", "/", []byte(body)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("key", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.PublicKey(b.Context(), p.name, "ed25519:1", c.now()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
