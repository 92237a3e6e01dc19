package matrix

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
)

// maxInviteChecks bounds how many pairs of key and signature one third-party
// invite may cost: an event has room for tens of thousands.
// Spec deviation: pairs beyond it are not tried.
const maxInviteChecks = 64

// parseInviteKeys reads the public keys of m.room.third_party_invite.
func parseInviteKeys(content []byte) []ed25519.PublicKey {
	var keys []ed25519.PublicKey
	add := func(v []byte) {
		text, _ := textOf(v)
		// Identity servers use both alphabets.
		text = strings.NewReplacer("-", "+", "_", "/", "=", "").Replace(text)
		key, err := base64.RawStdEncoding.DecodeString(text)
		if err == nil && len(key) == ed25519.PublicKeySize {
			keys = append(keys, key)
		}
	}
	add(field(content, "public_key"))
	for item := range elementsOf(field(content, "public_keys")) {
		add(field(item, "public_key"))
	}
	return keys
}

// VerifyThirdPartyInvite tells whether any signature of the signed object in
// an m.room.member invite fits any public key of the m.room.third_party_invite
// event. Server-Server API, "Verifying the invite".
func VerifyThirdPartyInvite(member, invite *Event) bool {
	keys, _ := invite.parseContent().([]ed25519.PublicKey)
	c := member.Member().ThirdPartyInvite
	if len(keys) == 0 || c == nil || c.Signed == nil {
		return false
	}
	message := appendWithout(nil, c.Signed, appendMembers(nil, c.Signed), "signatures", "unsigned")
	left := maxInviteChecks
	for _, signatures := range membersOf(field(c.Signed, "signatures")) {
		for name, v := range membersOf(signatures) {
			var sig [ed25519.SignatureSize]byte
			if v[0] != '"' || !decodeFixed(sig[:], v[1:len(v)-1]) || !KeyID(keyText(name)).known() {
				continue
			}
			for _, key := range keys {
				if left--; left < 0 {
					return false
				}
				if verify(key, message, sig) == nil {
					return true
				}
			}
		}
	}
	return false
}
