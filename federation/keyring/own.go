package keyring

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"hearth/storage"
	"hearth/storage/matrix"
)

// ownValid is how long this server's statement is valid. Peers ask again by
// then, so it bounds how long a rotated key is still taken. A statement is
// given out for half of that.
const ownValid = 24 * time.Hour

// own is this server's own keys.
type own struct {
	mu         sync.Mutex // guards what follows
	signer     matrix.Signer
	keys       []storage.SigningKey // the one in use first; without seeds
	statement  []byte
	validUntil time.Time
}

// loadOwn reads the keys, and makes the first one.
func (r *Ring) loadOwn(ctx context.Context) error {
	var keys []storage.SigningKey
	err := r.store.Read(ctx, "signing keys", func(rx *storage.Rx) (err error) {
		keys, err = rx.SigningKeys()
		return err
	})
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		_, err = r.Rotate(ctx)
		return err
	}
	return r.own.set(keys, r.store.ServerName())
}

// set takes over what the database says.
func (o *own) set(keys []storage.SigningKey, server matrix.ServerName) error {
	if len(keys) == 0 || !keys[0].Retired.IsZero() || len(keys[0].Seed.Reveal()) != ed25519.SeedSize {
		return errors.New("the database has no key to sign with")
	}
	signer := matrix.Signer{Server: server, KeyID: keys[0].ID, Key: ed25519.NewKeyFromSeed([]byte(keys[0].Seed.Reveal()))}
	for i := range keys {
		keys[i].Seed = ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.signer, o.keys, o.statement = signer, keys, nil
	return nil
}

// Signer signs in the name of this server, with the key in use now.
func (r *Ring) Signer() matrix.Signer {
	r.own.mu.Lock()
	defer r.own.mu.Unlock()
	return r.own.signer
}

// find is [Ring.find] for this server itself.
func (o *own) find(id matrix.KeyID, m moment) (ed25519.PublicKey, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range o.keys {
		switch {
		case k.ID != id:
		case k.Retired.IsZero() || m.at.IsZero() || m.at.Before(k.Retired):
			return k.Public, nil
		default:
			return nil, ErrExpiredKey
		}
	}
	return nil, ErrUnknownKey
}

// ServerKeys is what this server says of its own keys, signed.
// Server-Server API, GET /_matrix/key/v2/server.
func (r *Ring) ServerKeys() ([]byte, error) {
	now := r.opt.Now()
	r.own.mu.Lock()
	defer r.own.mu.Unlock()
	left := r.own.validUntil.Sub(now)
	if r.own.statement != nil && left >= ownValid/2 && left <= ownValid {
		return r.own.statement, nil
	}
	out := statementJSON{
		Server:     r.own.signer.Server,
		Verify:     map[string]publicKey{},
		Old:        map[string]oldPublicKey{},
		ValidUntil: now.Add(ownValid).UnixMilli(),
	}
	for _, k := range r.own.keys {
		if public := matrix.EncodeBase64(k.Public); k.Retired.IsZero() {
			out.Verify[string(k.ID)] = publicKey{public}
		} else {
			out.Old[string(k.ID)] = oldPublicKey{public, k.Retired.UnixMilli()}
		}
	}
	text, err := json.Marshal(out)
	if err == nil {
		text, err = matrix.SignJSON(text, r.own.signer)
	}
	if err != nil {
		return nil, fmt.Errorf("server keys: %w", err)
	}
	r.own.statement, r.own.validUntil = text, now.Add(ownValid)
	return text, nil
}

// Rotate makes a new key and signs with it from now on. The old one is
// published as such, for what it signed until now.
func (r *Ring) Rotate(ctx context.Context) (matrix.KeyID, error) {
	var seed [ed25519.SeedSize]byte
	_, _ = rand.Read(seed[:]) // never fails
	k := newKey(matrix.KeyID("ed25519:a_"+rand.Text()[:6]), seed[:])
	return k.ID, r.use(ctx, "rotate signing key", []storage.SigningKey{k})
}

func newKey(id matrix.KeyID, seed []byte) storage.SigningKey {
	public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	return storage.SigningKey{ID: id, Public: public, Seed: matrix.Token(seed)}
}

// use makes the first of keys the one to sign with, and stores the others as old.
func (r *Ring) use(ctx context.Context, why string, keys []storage.SigningKey) error {
	err := r.store.Write(ctx, why, func(tx *storage.Tx) error {
		have, err := tx.SigningKeys()
		if err != nil {
			return err
		}
		if err := tx.RetireSigningKey(); err != nil {
			return err
		}
		for i, k := range keys {
			there := slices.IndexFunc(have, func(h storage.SigningKey) bool { return h.ID == k.ID })
			if there >= 0 && !have[there].Public.Equal(k.Public) {
				return fmt.Errorf("there is another key %s already", k.ID)
			}
			if i > 0 {
				if there >= 0 { // old already, perhaps for long
					continue
				}
				k.Seed, k.Retired = "", tx.Now
			}
			if err := tx.PutSigningKey(k); err != nil {
				return err
			}
		}
		now, err := tx.SigningKeys()
		if err != nil {
			return err
		}
		tx.AfterCommit(func() {
			if err := r.own.set(now, r.store.ServerName()); err != nil {
				panic(err) // the unit has just stored one
			}
		})
		return nil
	})
	if errors.Is(err, storage.ErrFull) {
		return fmt.Errorf("this server has had %d keys, more are not kept: %w", storage.MaxSigningKeys, err)
	}
	if err == nil {
		r.log.Info("signing key in use", zap.String("key", string(keys[0].ID)))
	}
	return err
}

// Export returns the key in use in the form of Synapse's signing.key files:
// "ed25519 a_abcd " and the seed in unpadded base64.
func (r *Ring) Export() matrix.Token {
	s := r.Signer()
	version := strings.TrimPrefix(string(s.KeyID), "ed25519:")
	return matrix.Token("ed25519 " + version + " " + matrix.EncodeBase64(s.Key.Seed()))
}

// Import signs with a key in that form from now on. Further lines are keys that
// the server signed with before: they are published as old ones.
func (r *Ring) Import(ctx context.Context, file matrix.Token) (matrix.KeyID, error) {
	var keys []storage.SigningKey
	for line := range strings.Lines(file.Reveal()) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) != 3 || words[0] != "ed25519" || !isVersion(words[1]) {
			return "", errors.New(`want lines "ed25519 VERSION SEED"`)
		}
		seed, err := matrix.DecodeBase64(words[2])
		if err != nil || len(seed) != ed25519.SeedSize {
			return "", fmt.Errorf("key %s: want %d bytes in base64", words[1], ed25519.SeedSize)
		}
		k := newKey(matrix.KeyID("ed25519:"+words[1]), seed)
		if slices.ContainsFunc(keys, func(o storage.SigningKey) bool { return o.ID == k.ID }) {
			return "", fmt.Errorf("key %s is in it twice", words[1])
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return "", errors.New("no key in it")
	}
	if len(keys) > storage.MaxSigningKeys {
		return "", fmt.Errorf("more than %d keys in it", storage.MaxSigningKeys)
	}
	return keys[0].ID, r.use(ctx, "import signing key", keys)
}
