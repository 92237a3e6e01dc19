package storage

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"hearth/storage/matrix"
)

func openPlain(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Dir: t.TempDir(), ServerName: "test.example", Now: time.Now, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestServerKeysAreBounded(t *testing.T) {
	t.Parallel()
	s := openPlain(t)
	write := func(fn func(*Tx) error) {
		t.Helper()
		if err := s.Write(t.Context(), "test", fn); err != nil {
			t.Fatal(err)
		}
	}
	name := func(i int) matrix.ServerName { return matrix.ServerName(fmt.Sprintf("s%d.example", i)) }
	row := func(i, size int) *ServerKeys {
		k := &ServerKeys{Server: name(i), Statement: bytes.Repeat([]byte("x"), size), ValidUntilMS: 1, FetchedMS: 1}
		for n := range 3 {
			k.Keys = append(k.Keys, ServerKey{ID: matrix.KeyID(fmt.Sprintf("ed25519:%d", n)), Public: make([]byte, 32), ValidUntilMS: 1, SeenMS: 1})
		}
		return k
	}
	const servers, size = 40, 1000
	for i := range servers {
		write(func(tx *Tx) error {
			if err := tx.PutServerKeys(row(i, size/2)); err != nil {
				return err
			}
			return tx.PutServerKeys(row(i, size)) // replaces
		})
		write(func(tx *Tx) error { // the later the number, the later its last use
			return tx.conn.run(`UPDATE key_servers SET used_clock = 1000000 + num`)
		})
	}
	total := func() (n, bytes int64) {
		write(func(tx *Tx) error { return tx.row(keyServersTotal, nil, &n, &bytes) })
		return n, bytes
	}
	if n, b := total(); n != servers || b != servers*(size+3*128) {
		t.Errorf("%d servers of %d bytes", n, b)
	}
	has := func(i int) bool {
		var err error
		write(func(tx *Tx) error { _, err = tx.ServerKeys(name(i)); return nil })
		if err != nil && !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	write(func(tx *Tx) error { return tx.trimKeyServers(1, 30, 1<<30) })
	if n, b := total(); n > 30 || b != n*(size+3*128) || !has(0) || has(1) || !has(servers-1) {
		t.Errorf("after a trim by number: %d servers of %d bytes; the kept %t, the oldest %t, the newest %t", n, b, has(0), has(1), has(servers-1))
	}
	write(func(tx *Tx) error { return tx.trimKeyServers(1, 1000, 10*size) })
	if n, b := total(); b > 10*size || n == 0 || !has(0) {
		t.Errorf("after a trim by size: %d servers of %d bytes", n, b)
	}
	write(func(tx *Tx) error {
		for {
			n, err := tx.ExpireServerKeys(1<<60, 3)
			if err != nil || n == 0 {
				return err
			}
		}
	})
	if n, b := total(); n != 0 || b != 0 {
		t.Errorf("after all have expired: %d servers of %d bytes", n, b)
	}
}

func TestOneSigningKeyInUse(t *testing.T) {
	t.Parallel()
	s := openPlain(t)
	key := func(id string) SigningKey {
		return SigningKey{ID: matrix.KeyID(id), Public: make([]byte, 32), Seed: matrix.Token(make([]byte, 32))}
	}
	put := func(id string) error {
		return s.Write(t.Context(), "test", func(tx *Tx) error { return tx.PutSigningKey(key(id)) })
	}
	if err := put("ed25519:1"); err != nil {
		t.Fatal(err)
	}
	if err := put("ed25519:2"); !errors.Is(err, ErrConflict) {
		t.Errorf("a second key in use: %v", err)
	}
	err := s.Write(t.Context(), "test", func(tx *Tx) error {
		if err := tx.RetireSigningKey(); err != nil {
			return err
		}
		return tx.PutSigningKey(key("ed25519:2"))
	})
	if err != nil {
		t.Fatal(err)
	}
	var list []SigningKey
	err = s.Read(t.Context(), "test", func(rx *Rx) (err error) { list, err = rx.SigningKeys(); return err })
	if err != nil || len(list) != 2 || list[0].ID != "ed25519:2" || list[1].Seed != "" || list[1].Retired.IsZero() {
		t.Errorf("got %v, %v", list, err)
	}
}
