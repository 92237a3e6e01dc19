package matrix

import (
	"crypto/ed25519"
	"fmt"
)

// SignatureKeys lists the keys of known algorithms with which a server has
// signed the event, sorted.
func (e *Event) SignatureKeys(server ServerName) []KeyID {
	return signatureKeys(e.signatures, server)
}

// Sign is the event with one more signature. Its ID is the same.
func (e *Event) Sign(s Signer) (*Event, error) {
	return e.AddSignature(s.Server, s.KeyID, ed25519.Sign(s.Key, e.signingBytes()))
}

// AddSignature is the event with a signature another server made of it. It is
// not verified. A result larger than [MaxEventSize] is M_TOO_LARGE.
func (e *Event) AddSignature(server ServerName, key KeyID, sig []byte) (*Event, error) {
	b, err := withSignature(e.json, appendMembers(nil, e.json), server, key, sig)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", e.id, err)
	}
	if len(b) > MaxEventSize {
		return nil, Errorf(TooLarge, "event is larger than %d bytes", MaxEventSize)
	}
	signed, err := ParseStored(e.version, e.id, b)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", e.id, err)
	}
	signed.unsigned, signed.hashOK = e.unsigned, e.hashOK
	return signed, nil
}

// VerifyEventSignature checks the signature a server made of the event with
// one key. It covers the redacted event, so it holds for a redacted copy too.
// Its errors are [ErrNoSignature] and [ErrBadSignature].
func VerifyEventSignature(e *Event, server ServerName, key KeyID, pub ed25519.PublicKey) error {
	sig, err := signatureOf(e.signatures, server, key)
	if err != nil {
		return err
	}
	c := getCanon()
	defer c.release()
	c.dst = e.appendSigningBytes(c)
	return verify(pub, c.dst, sig)
}

// VerifyEvent checks all signatures a server made of the event with keys that
// lookup knows: all of them must verify, and there must be one. A key that is
// unknown, or expired before the event's [Event.OriginServerTS], is one that
// lookup does not find; such signatures are skipped. Server-Server API,
// "Validating hashes and signatures on received events".
func VerifyEvent(e *Event, server ServerName, lookup func(KeyID) (ed25519.PublicKey, bool)) error {
	c := getCanon()
	defer c.release()
	c.dst = e.appendSigningBytes(c)
	verified := false
	for _, key := range e.SignatureKeys(server) {
		pub, ok := lookup(key)
		if !ok {
			continue
		}
		sig, err := signatureOf(e.signatures, server, key)
		if err == nil {
			err = verify(pub, c.dst, sig)
		}
		if err != nil {
			return fmt.Errorf("%s with key %s: %w", server, clip(string(key)), err)
		}
		verified = true
	}
	if !verified {
		return fmt.Errorf("%w of %s with a known key", ErrNoSignature, server)
	}
	return nil
}

// RequiredSignatures lists the servers whose signatures the event needs: the
// sender's, unless it is a third-party invite; in room versions 1 and 2 that
// of the event ID; with restricted joins that of the user in
// join_authorised_via_users_server. Where that is no valid user ID it names
// no server, and authorization must refuse the event.
//
// An event whose content hash is wrong is judged as what it will be processed
// as, its redacted copy: up to room version 10 that is no third-party invite
// any more, and anybody could otherwise invite in the sender's name.
func RequiredSignatures(e *Event) []ServerName {
	if !e.hashOK {
		e = e.Redacted()
	}
	var servers []ServerName
	add := func(s ServerName) {
		for _, have := range servers {
			if have == s {
				return
			}
		}
		servers = append(servers, s)
	}
	var member *MemberContent
	if e.typ == TypeMember {
		member = e.Member()
	}
	if member == nil || member.Membership != MembershipInvite || member.ThirdPartyInvite == nil {
		add(e.sender.Server())
	}
	if e.version.IDFormat == IDServer && e.id.Server() != e.sender.Server() {
		add(e.id.Server())
	}
	if member != nil && e.version.Restricted && member.AuthorisedVia != "" {
		add(member.AuthorisedVia.Server())
	}
	return servers
}
