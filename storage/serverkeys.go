package storage

import (
	"crypto/ed25519"
	"fmt"
	"time"

	"hearth/storage/matrix"
)

// Bounds of the cache of other servers' keys.
const (
	maxKeyServers     = 20_000
	maxKeyServerBytes = 64 << 20
	keysInUse         = 24 * time.Hour // how exactly their last use is known
)

// ServerKeys is what is known of another server's keys.
type ServerKeys struct {
	Server       matrix.ServerName
	Statement    []byte // what the server said last, with its signatures
	ValidUntilMS int64  // as it says, wall clock
	FetchedMS    int64  // wall clock
	UsedClock    int64  // age clock, to within a day: when they were last used
	Keys         []ServerKey
}

// ServerKey is one of these keys. Times are of the wall clock, in milliseconds.
type ServerKey struct {
	ID           matrix.KeyID
	Public       ed25519.PublicKey
	ValidUntilMS int64 // as the server said
	SeenMS       int64 // when it last said so
	ExpiredMS    int64 // when it stopped using the key; 0: it did not say
}

var (
	keyServerByName = stmt(`SELECT num, statement, valid_until_ms, fetched_ms, used_clock FROM key_servers WHERE name = ?`)
	keysOfServer    = stmt(`SELECT key_id, public, valid_until_ms, seen_ms, ifnull(expired_ms, 0) FROM server_keys WHERE server = ?`)
)

// ServerKeys finds what is known of a server's keys; nothing is [ErrNotFound].
func (rx *Rx) ServerKeys(server matrix.ServerName) (*ServerKeys, error) {
	out := &ServerKeys{Server: server}
	var num int64
	err := rx.row(keyServerByName, []any{server}, &num, &out.Statement, &out.ValidUntilMS, &out.FetchedMS, &out.UsedClock)
	if err != nil {
		return nil, fmt.Errorf("server keys: %w", err)
	}
	rows, err := rx.query(keysOfServer, num)
	if err != nil {
		return nil, fmt.Errorf("server keys: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var k ServerKey
		var public []byte
		if err := rows.Scan(&k.ID, &public, &k.ValidUntilMS, &k.SeenMS, &k.ExpiredMS); err != nil {
			return nil, fmt.Errorf("server keys: %w", err)
		}
		k.Public = public
		out.Keys = append(out.Keys, k)
	}
	return out, rows.Err()
}

var (
	putKeyServer = stmt(`INSERT INTO key_servers (name, statement, valid_until_ms, fetched_ms, used_clock) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET statement = excluded.statement, valid_until_ms = excluded.valid_until_ms,
			fetched_ms = excluded.fetched_ms, used_clock = excluded.used_clock`)
	keyServerNum     = stmt(`SELECT num FROM key_servers WHERE name = ?`)
	deleteServerKeys = stmt(`DELETE FROM server_keys WHERE server = ?`)
	putServerKey     = stmt(`INSERT INTO server_keys (server, key_id, public, valid_until_ms, seen_ms, expired_ms)
		VALUES (?, ?, ?, ?, ?, nullif(?, 0))`)
)

// PutServerKeys replaces what is known of a server's keys, and makes room
// where that is too much in all.
func (tx *Tx) PutServerKeys(k *ServerKeys) error {
	var num int64
	_, err := tx.exec(putKeyServer, k.Server, k.Statement, k.ValidUntilMS, k.FetchedMS, tx.Clock())
	if err == nil {
		err = tx.row(keyServerNum, []any{k.Server}, &num)
	}
	if err == nil {
		_, err = tx.exec(deleteServerKeys, num)
	}
	for _, key := range k.Keys {
		if err == nil {
			_, err = tx.exec(putServerKey, num, key.ID, []byte(key.Public), key.ValidUntilMS, key.SeenMS, key.ExpiredMS)
		}
	}
	if err == nil {
		err = tx.trimKeyServers(num, maxKeyServers, maxKeyServerBytes)
	}
	if err != nil {
		return fmt.Errorf("put server keys: %w", err)
	}
	return nil
}

var (
	keyServersTotal = stmt(`SELECT servers, bytes FROM key_servers_total`)
	trimKeyServers  = stmt(`DELETE FROM key_servers WHERE num IN
		(SELECT num FROM key_servers WHERE num <> ? ORDER BY used_clock LIMIT 16)`)
)

// trimKeyServers forgets the least recently used servers, but not keep.
func (tx *Tx) trimKeyServers(keep, servers, bytes int64) error {
	for {
		var n, size int64
		if err := tx.row(keyServersTotal, nil, &n, &size); err != nil {
			return err
		}
		if n <= servers && size <= bytes {
			return nil
		}
		if gone, err := tx.exec(trimKeyServers, keep); err != nil || gone == 0 {
			return err
		}
	}
}

var touchKeyServer = stmt(`UPDATE key_servers SET used_clock = ?1 WHERE name = ?2 AND used_clock < ?1 - ?3`)

// Untouched tells whether it is time to note that the keys are in use.
func (k *ServerKeys) Untouched(clock int64) bool { return k.UsedClock < clock-keysInUse.Milliseconds() }

// TouchServerKeys notes, to within a day, that a server's keys are in use.
func (tx *Tx) TouchServerKeys(server matrix.ServerName) error {
	if _, err := tx.exec(touchKeyServer, tx.Clock(), server, keysInUse.Milliseconds()); err != nil {
		return fmt.Errorf("touch server keys: %w", err)
	}
	return nil
}

var expireKeyServers = stmt(`DELETE FROM key_servers WHERE num IN
	(SELECT num FROM key_servers WHERE used_clock < ? ORDER BY used_clock LIMIT ?)`)

// ExpireServerKeys forgets servers whose keys were last used before a time of
// the age clock, at most limit at once, and returns how many.
func (tx *Tx) ExpireServerKeys(before int64, limit int) (int, error) {
	n, err := tx.exec(expireKeyServers, before, limit)
	if err != nil {
		return 0, fmt.Errorf("expire server keys: %w", err)
	}
	return int(n), nil
}
