package matrix

import (
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestSignJSONKeepsOthers(t *testing.T) {
	one, two := testSigner("one.example"), testSigner("two.example")
	object := []byte(`{"b":1,"unsigned":{"age":1},"a":2}`)
	var err error
	for _, s := range []Signer{one, two, {one.Server, "ed25519:2", two.Key}, one} {
		if object, err = SignJSON(object, s); err != nil {
			t.Fatal(err)
		}
		equal(t, string(object), canonical(t, object))
	}
	for _, s := range []Signer{one, two, {one.Server, "ed25519:2", two.Key}} {
		if err := VerifyJSON(object, s.Server, s.KeyID, s.public()); err != nil {
			t.Error(s.Server, s.KeyID, err)
		}
	}
	equal(t, strings.Count(string(object), "ed25519:"), 3)
	for _, bad := range []string{`[]`, `{"signatures":[]}`, `{"a":1,"a":2}`} {
		if out, err := SignJSON([]byte(bad), one); err == nil {
			t.Errorf("signed %s: %s", bad, out)
		}
	}
}

func TestVerifyJSONRefuses(t *testing.T) {
	s := testSigner("one.example")
	good, err := SignJSON([]byte(`{"a":1,"b":"x"}`), s)
	if err != nil {
		t.Fatal(err)
	}
	text := string(good)
	i := strings.Index(text, `"ed25519:1":"`) + len(`"ed25519:1":"`)
	for name, c := range map[string]struct {
		object string
		key    KeyID
		pub    ed25519.PublicKey
		want   error
	}{
		"changed":          {strings.Replace(text, `"a":1`, `"a":2`, 1), s.KeyID, s.public(), ErrBadSignature},
		"added":            {strings.Replace(text, `{"a"`, `{"A":0,"a"`, 1), s.KeyID, s.public(), ErrBadSignature},
		"other key":        {text, s.KeyID, testSigner("x").public(), ErrBadSignature},
		"short key":        {text, s.KeyID, s.public()[:31], ErrBadSignature},
		"no such key":      {text, "ed25519:2", s.public(), ErrNoSignature},
		"unknown alg":      {strings.Replace(text, "ed25519:1", "rsa:1", 1), "rsa:1", s.public(), ErrNoSignature},
		"none":             {`{"a":1}`, s.KeyID, s.public(), ErrNoSignature},
		"not base64":       {text[:i] + "!" + text[i+1:], s.KeyID, s.public(), ErrBadSignature},
		"cut":              {text[:i] + text[i+4:], s.KeyID, s.public(), ErrBadSignature},
		"not a string":     {`{"signatures":{"one.example":{"ed25519:1":5}}}`, s.KeyID, s.public(), ErrNoSignature},
		"signatures array": {`{"signatures":["one.example"]}`, s.KeyID, s.public(), ErrNoSignature},
	} {
		if err := VerifyJSON([]byte(c.object), s.Server, c.key, c.pub); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if err := VerifyJSON([]byte(" "+text[:len(text)-1]+`,"unsigned":{}}`), s.Server, s.KeyID, s.public()); err != nil {
		t.Errorf("unsigned and white space are not covered: %v", err)
	}
}

// TestVerifyEventKeys: all signatures of known keys must verify, unknown ones
// are skipped, one must remain.
func TestVerifyEventKeys(t *testing.T) {
	good, other := testSigner("b.org"), testSigner("x")
	other.Server, other.KeyID = "b.org", "ed25519:2"
	e, err := ParseEvent(version(t, "10"), sampleWith(t, "signatures", map[string]any{"b.org": map[string]any{"rsa:1": "x"}}))
	if err != nil {
		t.Fatal(err)
	}
	keys := func(ids ...KeyID) func(KeyID) (ed25519.PublicKey, bool) {
		return func(id KeyID) (ed25519.PublicKey, bool) { return good.public(), slices.Contains(ids, id) }
	}
	if err := VerifyEvent(e, "b.org", keys("rsa:1")); !errors.Is(err, ErrNoSignature) {
		t.Errorf("unknown algorithm: got %v", err)
	}
	for _, s := range []Signer{good, other} {
		if e, err = e.Sign(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		known []KeyID
		want  error
	}{
		{"one known", []KeyID{"ed25519:1"}, nil},
		{"none known", nil, ErrNoSignature},
		{"a known key's signature is bad", []KeyID{"ed25519:1", "ed25519:2"}, ErrBadSignature},
	} {
		for copyName, e := range map[string]*Event{"full": e, "redacted": e.Redacted()} {
			if err := VerifyEvent(e, "b.org", keys(c.known...)); !errors.Is(err, c.want) {
				t.Errorf("%s, %s: got %v, want %v", c.name, copyName, err, c.want)
			}
		}
	}
	equal(t, len(e.SignatureKeys("b.org")), 2)
	equal(t, len(e.SignatureKeys("c.org")), 0)
	if err := VerifyEventSignature(e, "b.org", "ed25519:2", testSigner("x").public()); err != nil {
		t.Error(err)
	}
}

// TestHashMismatch: an event whose content was changed keeps its signature and
// ID, and is to be taken as its redacted copy.
func TestHashMismatch(t *testing.T) {
	for _, v := range versionsOf(t, "all") {
		s := testSigner("b.org")
		raw := marshal(t, sample(v))
		e, err := HashAndSign(v, raw, s)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, e.HashOK(), true)
		changed, err := ParseEvent(v, []byte(strings.Replace(string(e.JSON()), `"text"`, `"other"`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, changed.HashOK(), false)
		equal(t, changed.ID(), e.ID())
		equal(t, string(changed.Redacted().JSON()), string(e.Redacted().JSON()))
		equal(t, VerifyEventSignature(changed, "b.org", s.KeyID, s.public()), nil)
	}
}

func TestRequiredSignatures(t *testing.T) {
	member := func(content map[string]any) map[string]any {
		return map[string]any{"type": TypeMember, "state_key": "@c:c.org", "content": content}
	}
	via := map[string]any{"membership": "join", "join_authorised_via_users_server": "@d:d.org:8448"}
	for _, c := range []struct {
		name   string
		fields map[string]any
		in     string
		want   []ServerName
	}{
		{"plain", nil, "all", []ServerName{"b.org"}},
		{"event ID of another server", map[string]any{"event_id": "$e:e.org"}, "1-2", []ServerName{"b.org", "e.org"}},
		{"event ID means nothing", map[string]any{"event_id": "$e:e.org"}, "3-12", []ServerName{"b.org"}},
		{"third-party invite", member(map[string]any{"membership": "invite", "third_party_invite": map[string]any{}}), "all", nil},
		{"third-party key in a join", member(map[string]any{"membership": "join", "third_party_invite": map[string]any{}}), "all", []ServerName{"b.org"}},
		{"restricted join", member(via), "8-12", []ServerName{"b.org", "d.org:8448"}},
		{"before restricted joins", member(via), "1-7", []ServerName{"b.org"}},
		{"authorized by the same server", member(map[string]any{"membership": "join", "join_authorised_via_users_server": "@x:b.org"}), "8-12", []ServerName{"b.org"}},
		{"authorized by nobody", member(map[string]any{"membership": "join", "join_authorised_via_users_server": "x"}), "8-12", []ServerName{"b.org"}},
	} {
		for _, v := range versionsOf(t, c.in) {
			event := sample(v)
			for key, value := range c.fields {
				event[key] = value
			}
			sum, err := ContentHash(v, marshal(t, event))
			if err != nil {
				t.Fatal(err)
			}
			event["hashes"] = map[string]any{"sha256": EncodeBase64(sum[:])}
			e, err := ParseEvent(v, marshal(t, event))
			if err != nil {
				t.Fatal(err)
			}
			if got := RequiredSignatures(e); !slices.Equal(got, c.want) {
				t.Errorf("%s, version %s: got %v, want %v", c.name, v.ID, got, c.want)
			}
		}
	}
}

// A wrong content hash makes the event its redacted copy. Where that has lost
// third_party_invite it is a plain invite, which the sender must have signed:
// or anybody could forge one.
func TestRequiredSignaturesWrongHash(t *testing.T) {
	for _, c := range []struct {
		in     string
		invite any
		want   []ServerName
	}{
		{"1-10", map[string]any{"signed": map[string]any{}}, []ServerName{"b.org"}},
		{"11-12", map[string]any{"signed": map[string]any{}}, nil},
		{"1-12", "not an object", []ServerName{"b.org"}},
	} {
		for _, v := range versionsOf(t, c.in) {
			event := sample(v) // its hash is of the right form only
			event["type"], event["state_key"] = TypeMember, "@c:c.org"
			event["content"] = map[string]any{"membership": "invite", "third_party_invite": c.invite}
			e, err := ParseEvent(v, marshal(t, event))
			if err != nil {
				t.Fatal(err)
			}
			if got := RequiredSignatures(e); e.HashOK() || !slices.Equal(got, c.want) {
				t.Errorf("version %s: got %v, want %v", v.ID, got, c.want)
			}
		}
	}
}
