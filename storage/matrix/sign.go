package matrix

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// KeyID names a signing key of a server: algorithm and version, "ed25519:a_1".
// Appendices, "Signing Details".
type KeyID string

// Algorithm is the part before the first ':'.
func (k KeyID) Algorithm() string {
	algorithm, _, _ := strings.Cut(string(k), ":")
	return algorithm
}

// known tells whether the algorithm is one we can verify.
func (k KeyID) known() bool { return strings.HasPrefix(string(k), "ed25519:") }

// Signer signs in the name of a server.
type Signer struct {
	Server ServerName
	KeyID  KeyID
	Key    ed25519.PrivateKey
}

// Errors of verification, for errors.Is.
var (
	// ErrNoSignature means that an entity has not signed with the key asked for.
	ErrNoSignature = errors.New("no signature")
	// ErrBadSignature means that a signature does not fit its key.
	ErrBadSignature = errors.New("signature does not verify")
)

// SignJSON signs a JSON object, adding to signatures it has. The result is
// canonical; unsigned is kept and not covered. Appendices, "Signing JSON".
func SignJSON(object []byte, s Signer) ([]byte, error) {
	c := getCanon()
	defer c.release()
	c.src = object
	members, err := c.topObject()
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	sig := ed25519.Sign(s.Key, appendWithout(nil, c.dst, members, "signatures", "unsigned"))
	out, err := withSignature(c.dst, members, s.Server, s.KeyID, sig)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return out, nil
}

// withSignature rewrites the object b, whose members are given, with one more signature.
func withSignature(b []byte, members []member, server ServerName, key KeyID, sig []byte) ([]byte, error) {
	var old []byte
	out := make([]byte, 0, len(b)+len(server)+len(key)+128)
	for _, m := range members {
		if string(m.key(b)) == "signatures" {
			old = m.value(b)
			continue
		}
		out = append(out, separator(len(out)))
		out = append(out, m.segment(b)...)
	}
	if old != nil && old[0] != '{' {
		return nil, errors.New("signatures is not an object")
	}
	out = append(out, separator(len(out)))
	out = append(out, `"signatures":{`...)
	own := field(old, string(server))
	for name, v := range membersOf(old) {
		if string(name) != string(server) {
			out = appendMember(out, name, v)
			out = append(out, ',')
		}
	}
	out = appendQuoted(out, server)
	out = append(out, ':', '{')
	for name, v := range membersOf(own) {
		if string(name) != string(key) {
			out = appendMember(out, name, v)
			out = append(out, ',')
		}
	}
	out = appendQuoted(out, key)
	out = append(out, ':')
	out = appendQuoted(out, EncodeBase64(sig))
	out = append(out, "}}}"...)
	return CanonicalJSON(out) // for the order of the keys
}

func appendMember(dst, key, v []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, key...)
	dst = append(dst, '"', ':')
	return append(dst, v...)
}

// VerifyJSON checks the signature an entity made of a JSON object with one
// key. Its errors are [ErrNoSignature], [ErrBadSignature], or of the JSON.
// Appendices, "Checking for a Signature".
func VerifyJSON(object []byte, entity ServerName, key KeyID, pub ed25519.PublicKey) error {
	c := getCanon()
	defer c.release()
	c.src = object
	members, err := c.topObject()
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	var signatures []byte
	for _, m := range members {
		if string(m.key(c.dst)) == "signatures" {
			signatures = m.value(c.dst)
		}
	}
	sig, err := signatureOf(signatures, entity, key)
	if err != nil {
		return err
	}
	return verify(pub, appendWithout(nil, c.dst, members, "signatures", "unsigned"), sig)
}

// signatureOf finds and decodes one signature.
func signatureOf(signatures []byte, entity ServerName, key KeyID) (sig [ed25519.SignatureSize]byte, err error) {
	v := field(field(signatures, string(entity)), string(key))
	if len(v) < 2 || v[0] != '"' || !key.known() {
		return sig, fmt.Errorf("%w of %s with key %s", ErrNoSignature, clip(string(entity)), clip(string(key)))
	}
	if !decodeFixed(sig[:], v[1:len(v)-1]) {
		return sig, fmt.Errorf("%w: not base64 of %d bytes", ErrBadSignature, len(sig))
	}
	return sig, nil
}

func verify(pub ed25519.PublicKey, message []byte, sig [ed25519.SignatureSize]byte) error {
	if len(pub) != ed25519.PublicKeySize || !ed25519.Verify(pub, message, sig[:]) {
		return ErrBadSignature
	}
	return nil
}

// signatureKeys lists the keys of known algorithms with which an entity has
// signed, of an object's signatures.
func signatureKeys(signatures []byte, entity ServerName) (keys []KeyID) {
	for name := range membersOf(field(signatures, string(entity))) {
		if key := KeyID(keyText(name)); key.known() {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// checkSignatureShape checks that signatures maps entities to maps of strings.
func checkSignatureShape(signatures []byte) error {
	for _, keys := range membersOf(signatures) {
		if keys[0] != '{' {
			return Errorf(BadJSON, "event: signatures of a server are not an object")
		}
		for _, sig := range membersOf(keys) {
			if sig[0] != '"' {
				return Errorf(BadJSON, "event: a signature is not a string")
			}
		}
	}
	return nil
}
