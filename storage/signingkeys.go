package storage

import (
	"crypto/ed25519"
	"fmt"
	"time"

	"hearth/storage/matrix"
)

// MaxSigningKeys bounds this server's own keys, old ones included.
const MaxSigningKeys = 100

// SigningKey is a key of this server.
type SigningKey struct {
	ID      matrix.KeyID
	Public  ed25519.PublicKey
	Seed    matrix.Token // its 32 bytes; empty once retired
	Retired time.Time    // zero: in use
}

var listSigningKeys = stmt(`SELECT key_id, public, ifnull(seed, x''), ifnull(retired_ms, 0) FROM signing_keys
	ORDER BY retired_ms IS NOT NULL, retired_ms DESC, num`)

// SigningKeys lists this server's keys, the one in use first. There is none
// before the first start has made one.
func (rx *Rx) SigningKeys() ([]SigningKey, error) {
	rows, err := rx.query(listSigningKeys)
	if err != nil {
		return nil, fmt.Errorf("list signing keys: %w", err)
	}
	defer rows.Close()
	var list []SigningKey
	for rows.Next() {
		var k SigningKey
		var seed, public []byte
		var retired int64
		if err := rows.Scan(&k.ID, &public, &seed, &retired); err != nil {
			return nil, fmt.Errorf("list signing keys: %w", err)
		}
		k.Public, k.Seed = public, matrix.Token(seed)
		if retired != 0 {
			k.Retired = time.UnixMilli(retired)
		}
		list = append(list, k)
	}
	return list, rows.Err()
}

var retireSigningKey = stmt(`UPDATE signing_keys SET seed = NULL, retired_ms = max(?, created_ms + 1) WHERE retired_ms IS NULL`)

// RetireSigningKey takes the key in use, if there is one, out of use.
func (tx *Tx) RetireSigningKey() error {
	if _, err := tx.exec(retireSigningKey, tx.Now.UnixMilli()); err != nil {
		return fmt.Errorf("retire signing key: %w", err)
	}
	return nil
}

var (
	countSigningKeys = stmt(`SELECT count(*) FROM signing_keys`)
	putSigningKey    = stmt(`INSERT INTO signing_keys (key_id, public, seed, created_ms, retired_ms)
		VALUES (?, ?, nullif(?, x''), ?, nullif(?, 0))
		ON CONFLICT (key_id) DO UPDATE SET seed = excluded.seed, retired_ms = excluded.retired_ms`)
)

// PutSigningKey stores a key, or brings one of the same ID back into use. A
// second one in use is [ErrConflict]; too many are [ErrFull].
func (tx *Tx) PutSigningKey(k SigningKey) error {
	var n int
	if err := tx.row(countSigningKeys, nil, &n); err != nil {
		return fmt.Errorf("put signing key: %w", err)
	}
	if n >= MaxSigningKeys {
		return fmt.Errorf("put signing key: %w", ErrFull)
	}
	var retired int64
	if !k.Retired.IsZero() {
		retired = k.Retired.UnixMilli()
	}
	_, err := tx.exec(putSigningKey, k.ID, []byte(k.Public), []byte(k.Seed.Reveal()), tx.Now.UnixMilli(), retired)
	if err != nil {
		return fmt.Errorf("put signing key: %w", err)
	}
	return nil
}
