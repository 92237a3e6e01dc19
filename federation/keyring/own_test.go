package keyring

import (
	"context"
	"strings"
	"testing"
	"time"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// said is the ring's own statement, checked as another server would.
func said(t *testing.T, r *Ring, c *clock) statement {
	t.Helper()
	raw, err := r.ServerKeys()
	if err != nil {
		t.Fatal(err)
	}
	s, err := parseStatement(raw, us, c.now())
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return s
}

func TestOwnKey(t *testing.T) {
	t.Parallel()
	c, dir := newClock(), t.TempDir()
	store := openStore(t, c, dir)
	r := ringOn(t, store, c, newNetwork())
	signer := r.Signer()
	if signer.Server != us || !strings.HasPrefix(string(signer.KeyID), "ed25519:a_") {
		t.Errorf("signs as %s with %s", signer.Server, signer.KeyID)
	}
	first := said(t, r, c)
	if len(first.keys) != 1 || first.keys[0].ID != signer.KeyID || !first.keys[0].Public.Equal(public(signer.Key)) {
		t.Errorf("says %+v", first.keys)
	}
	if got := time.UnixMilli(first.validUntil).Sub(c.now()); got != ownValid {
		t.Errorf("valid for %s", got)
	}
	c.pass(ownValid/2 - time.Minute)
	if again := said(t, r, c); again.validUntil != first.validUntil {
		t.Error("made anew before half of its life was over")
	}
	c.pass(2 * time.Minute)
	if again := said(t, r, c); time.UnixMilli(again.validUntil).Sub(c.now()) != ownValid {
		t.Error("given out after half of its life")
	}
	c.pass(-30 * 24 * time.Hour)
	if again := said(t, r, c); time.UnixMilli(again.validUntil).Sub(c.now()) != ownValid {
		t.Error("valid for longer than a day after the clock was set back")
	}
	want(t, r, us, signer.KeyID, c.now(), public(signer.Key), nil)
	want(t, r, us, "ed25519:other", c.now(), nil, ErrUnknownKey)
	r.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if again := ringOn(t, openStore(t, c, dir), c, newNetwork()).Signer(); !again.Key.Equal(signer.Key) || again.KeyID != signer.KeyID {
		t.Error("another key after a restart")
	}
}

func TestRotate(t *testing.T) {
	t.Parallel()
	c, dir := newClock(), t.TempDir()
	store := openStore(t, c, dir)
	r := ringOn(t, store, c, newNetwork())
	before := r.Signer()
	said(t, r, c)
	c.pass(time.Hour)
	rotated := c.now()
	id, err := r.Rotate(t.Context())
	if err != nil || id == before.KeyID || r.Signer().KeyID != id {
		t.Fatalf("got %s, %v; signs with %s, before with %s", id, err, r.Signer().KeyID, before.KeyID)
	}
	s := said(t, r, c)
	if len(s.keys) != 2 || s.keys[0].ID != id || s.keys[1].ID != before.KeyID || s.keys[1].ExpiredMS != rotated.UnixMilli() {
		t.Errorf("says %+v", s.keys)
	}
	want(t, r, us, before.KeyID, rotated.Add(-time.Second), public(before.Key), nil)
	want(t, r, us, before.KeyID, rotated, nil, ErrExpiredKey)
	want(t, r, us, before.KeyID, time.Time{}, public(before.Key), nil)
	err = store.Read(t.Context(), "test", func(rx *storage.Rx) error {
		keys, err := rx.SigningKeys()
		if len(keys) != 2 || keys[1].Seed != "" {
			t.Errorf("%d keys; the seed of the old one is kept: %t", len(keys), keys[1].Seed != "")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	storagetest.FailCommit(t, store)
	if _, err := r.Rotate(t.Context()); err == nil || r.Signer().KeyID != id {
		t.Errorf("after a failed COMMIT: %v, signs with %s, want %s", err, r.Signer().KeyID, id)
	}
	r.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if again := ringOn(t, openStore(t, c, dir), c, newNetwork()); again.Signer().KeyID != id || len(said(t, again, c).keys) != 2 {
		t.Error("the rotation is gone after a restart")
	}
}

func TestKeysInUseAreBounded(t *testing.T) {
	t.Parallel()
	c := newClock()
	r := openRing(t, c, newNetwork())
	var err error
	for n := 1; err == nil && n <= storage.MaxSigningKeys+1; n++ {
		c.pass(time.Second)
		_, err = r.Rotate(t.Context())
	}
	if err == nil || len(said(t, r, c).keys) != storage.MaxSigningKeys {
		t.Errorf("%v; %d keys", err, len(said(t, r, c).keys))
	}
}

// TestImport takes the key of the specification's signing vectors.
// Appendices, "Cryptographic Test Vectors".
func TestImport(t *testing.T) {
	t.Parallel()
	const file = "ed25519 1 YJDBA9Xnr2sVqXD9Vj7XVUnmFZcZrlw8Md7kMW+3XA1"
	c := newClock()
	r := openRing(t, c, newNetwork())
	made := r.Signer()
	if id, err := r.Import(t.Context(), file+"\n"); err != nil || id != "ed25519:1" {
		t.Fatalf("got %s, %v", id, err)
	}
	if got := matrix.EncodeBase64(public(r.Signer().Key)); got != "XGX0JRS2Af3be3knz2fBiRbApjm2Dh61gXDJA8kcJNI" {
		t.Errorf("public key %s", got)
	}
	signed, err := matrix.SignJSON([]byte(`{}`), matrix.Signer{Server: "domain", KeyID: "ed25519:1", Key: r.Signer().Key})
	if err != nil || !strings.Contains(string(signed), "K8280/U9SSy9IVtjBuVeLr+HpOB4BQFWbg+UZaADMtTdGYI7Geitb76LTrr5QV/7Xg4ahLwYGYZzuHGZKM5ZAQ") {
		t.Errorf("got %s, %v", signed, err)
	}
	// The last character of the vector has two bits that belong to no byte.
	if got := r.Export(); got.Reveal() != strings.TrimSuffix(file, "1")+"0" || got.String() == file {
		t.Errorf("exported %s", got)
	}
	if keys := said(t, r, c).keys; len(keys) != 2 || keys[1].ID != made.KeyID {
		t.Errorf("says %+v", keys)
	}
	c.pass(time.Hour)
	if _, err := r.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Hour)
	if _, err := r.Import(context.WithoutCancel(t.Context()), file); err != nil {
		t.Fatal(err)
	}
	want(t, r, us, "ed25519:1", c.now(), public(r.Signer().Key), nil)
	if n := len(said(t, r, c).keys); r.Signer().KeyID != "ed25519:1" || n != 3 {
		t.Errorf("brought back: signs with %s, says %d keys", r.Signer().KeyID, n)
	}
}
