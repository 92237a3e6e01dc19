package keyring

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage"
	"hearth/storage/matrix"
)

// Bounds of what another server may say of its keys.
const (
	maxStatement  = 32 << 10 // bytes
	maxVerifyKeys = 16
	maxServerKeys = 128 // old and forgotten ones included
)

// statement is a checked answer of GET /_matrix/key/v2/server.
type statement struct {
	raw        []byte
	server     matrix.ServerName
	validUntil int64
	keys       []storage.ServerKey // of verify_keys, then of old_verify_keys
}

// statementJSON is its form.
// Server-Server API, "Publishing Keys".
type statementJSON struct {
	Server     matrix.ServerName       `json:"server_name"`
	Verify     map[string]publicKey    `json:"verify_keys"`
	Old        map[string]oldPublicKey `json:"old_verify_keys"`
	ValidUntil int64                   `json:"valid_until_ts"`
}

type publicKey struct {
	Key string `json:"key"`
}

type oldPublicKey struct {
	Key     string `json:"key"`
	Expired int64  `json:"expired_ts"`
}

// parseStatement checks what is said to be a server's statement: it must be of
// that server and signed by one of the keys that it gives out. Of these, only
// those count that have signed, since nobody else shows that the server has
// them. Keys of other algorithms do not count either.
func parseStatement(raw []byte, server matrix.ServerName, now time.Time) (statement, error) {
	if len(raw) > maxStatement {
		return statement{}, fmt.Errorf("longer than %d bytes", maxStatement)
	}
	var in statementJSON
	if err := json.Unmarshal(raw, &in); err != nil {
		return statement{}, err
	}
	if in.Server != server {
		return statement{}, errors.New("of another server")
	}
	if len(in.Verify) > maxVerifyKeys {
		return statement{}, fmt.Errorf("more than %d keys in use", maxVerifyKeys)
	}
	if in.ValidUntil <= 0 {
		return statement{}, errors.New("no valid_until_ts")
	}
	s := statement{raw: raw, server: server, validUntil: in.ValidUntil}
	for name, k := range in.Verify {
		key, ok := parseKey(name, k.Key)
		if _, old := in.Old[name]; !ok || old || matrix.VerifyJSON(raw, server, key.ID, key.Public) != nil {
			continue
		}
		key.ValidUntilMS, key.SeenMS = in.ValidUntil, now.UnixMilli()
		s.keys = append(s.keys, key)
	}
	if len(s.keys) == 0 {
		return statement{}, errors.New("not signed by any of its keys")
	}
	s.addOld(in.Old, now)
	return s, nil
}

// addOld takes over the newest of the keys that are out of use.
func (s *statement) addOld(old map[string]oldPublicKey, now time.Time) {
	var keys []storage.ServerKey
	for name, k := range old {
		if key, ok := parseKey(name, k.Key); ok && k.Expired > 0 {
			key.ValidUntilMS, key.ExpiredMS, key.SeenMS = k.Expired, k.Expired, now.UnixMilli()
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b storage.ServerKey) int {
		return cmp.Or(cmp.Compare(b.ExpiredMS, a.ExpiredMS), cmp.Compare(a.ID, b.ID))
	})
	s.keys = append(s.keys, keys[:min(len(keys), maxServerKeys-len(s.keys))]...)
}

func parseKey(name, key string) (storage.ServerKey, bool) {
	version, ok := strings.CutPrefix(name, "ed25519:")
	b, err := matrix.DecodeBase64(key)
	if !ok || !isVersion(version) || err != nil || len(b) != ed25519.PublicKeySize {
		return storage.ServerKey{}, false
	}
	return storage.ServerKey{ID: matrix.KeyID(name), Public: b}, true
}

// isVersion checks the part of a key ID after the colon. Hyphens and dots are
// not of the grammar, but of keys that exist.
func isVersion(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("_-.", c) < 0 {
			return false
		}
	}
	return s != "" && len(s) <= 255
}

// merge adds a statement to what was known before, nil for nothing. direct: the
// server itself made it, just now. A notary may hand on an old one, which then
// only adds what is missing; and it never replaces a key by another of its ID.
func merge(before *storage.ServerKeys, s statement, direct bool, now time.Time) *storage.ServerKeys {
	out := &storage.ServerKeys{Server: s.server, Statement: s.raw, ValidUntilMS: s.validUntil, FetchedMS: now.UnixMilli()}
	newer := direct || before == nil || s.validUntil > before.ValidUntilMS
	if !newer {
		out.Statement, out.ValidUntilMS, out.FetchedMS = before.Statement, before.ValidUntilMS, before.FetchedMS
	}
	byID := map[matrix.KeyID]storage.ServerKey{}
	if before != nil {
		for _, k := range before.Keys {
			if newer { // our clock may have been ahead
				k.SeenMS = min(k.SeenMS, out.FetchedMS-1)
			}
			byID[k.ID] = k
		}
	}
	for _, k := range s.keys {
		have, ok := byID[k.ID]
		if ok && (!newer || !direct && !have.Public.Equal(k.Public)) {
			continue
		}
		if ok && have.Public.Equal(k.Public) && k.ExpiredMS == 0 {
			k.ValidUntilMS = max(k.ValidUntilMS, have.ValidUntilMS)
		}
		byID[k.ID] = k
	}
	for _, k := range byID {
		out.Keys = append(out.Keys, k)
	}
	slices.SortFunc(out.Keys, func(a, b storage.ServerKey) int {
		return cmp.Or(cmp.Compare(b.SeenMS, a.SeenMS), cmp.Compare(b.ValidUntilMS, a.ValidUntilMS), cmp.Compare(a.ID, b.ID))
	})
	out.Keys = out.Keys[:min(len(out.Keys), maxServerKeys)]
	return out
}

// signedBy lists the keys with which an entity has signed a JSON object.
func signedBy(raw []byte, entity matrix.ServerName) []matrix.KeyID {
	var in struct {
		Signatures map[matrix.ServerName]map[matrix.KeyID]jsontext.Value `json:"signatures"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return nil
	}
	var keys []matrix.KeyID
	for k := range in.Signatures[entity] {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
