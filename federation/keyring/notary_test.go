package keyring

import (
	"context"
	"strings"
	"testing"
	"time"

	"hearth/storage/matrix"
)

// gone is a server that does not answer any more, and a notary who knew it.
func gone(t *testing.T, c *clock) (p, notary *peer, r *Ring) {
	t.Helper()
	p, notary = newPeer(c, "peer.test"), newPeer(c, "notary.example")
	notary.knows = map[matrix.ServerName][]byte{p.name: p.statement()}
	p.down = true
	return p, notary, openRing(t, c, newNetwork(p, notary), notary.name)
}

func TestNotary(t *testing.T) {
	t.Parallel()
	c := newClock()
	p, _, r := gone(t, c)
	want(t, r, p.name, "ed25519:1", c.now(), p.pub("ed25519:1"), nil)
	if p.timesAsked() != 1 {
		t.Errorf("the server itself was asked %d times", p.timesAsked())
	}
	if text, err := r.Notarize(t.Context(), p.name, 0); err != nil || text == nil {
		t.Errorf("as a notary: %s, %v", text, err)
	}
}

// Two servers that are each other's notaries do not wait for each other.
func TestNotariesSpeakForThemselvesOnly(t *testing.T) {
	t.Parallel()
	c := newClock()
	a, b := newPeer(c, "a.example"), newPeer(c, "b.example")
	a.knows = map[matrix.ServerName][]byte{b.name: b.statement()}
	b.knows = map[matrix.ServerName][]byte{a.name: a.statement()}
	r := openRing(t, c, networkWithQueries{newNetwork(a, b)}, a.name, b.name)
	want(t, r, "c.example", "ed25519:1", c.now(), nil, ErrUnknownKey)
	want(t, r, a.name, "ed25519:1", c.now(), nil, ErrUnknownKey)
}

// networkWithQueries answers queries, but no server's own keys.
type networkWithQueries struct{ *network }

func (n networkWithQueries) ServerKeys(_ context.Context, _ matrix.ServerName) ([]byte, error) {
	return nil, errDown
}

func TestBadNotaries(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p, notary *peer){
		"has not signed":          func(_, n *peer) { n.signs = "" },
		"signs in another's name": func(_, n *peer) { n.signs = "other.example" },
		"hands on what is not signed": func(p, n *peer) {
			n.knows[p.name] = []byte(strings.Replace(string(n.knows[p.name]), "signatures", "unsigned", 1))
		},
		"hands on what another said": func(p, n *peer) { n.knows[p.name] = newPeer(n.clock, "other.example").statement() },
		"hands on what was changed": func(p, n *peer) {
			n.knows[p.name] = []byte(strings.Replace(string(n.knows[p.name]), `"valid_until_ts":`, `"valid_until_ts":1`, 1))
		},
		"knows nothing":                 func(p, n *peer) { delete(n.knows, p.name) },
		"is gone":                       func(_, n *peer) { n.down = true },
		"has keys that cannot be found": func(_, n *peer) { n.change = func(s *statementJSON) { s.Server = "other.example" } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			p, notary, r := gone(t, c)
			change(p, notary)
			want(t, r, p.name, "ed25519:1", c.now(), nil, ErrUnknownKey)
		})
	}
}

// A notary's signature must be by the notary's own key.
func TestForgedNotary(t *testing.T) {
	t.Parallel()
	c := newClock()
	p, notary, r := gone(t, c)
	want(t, r, notary.name, "ed25519:1", c.now(), notary.pub("ed25519:1"), nil)
	notary.set(func() { notary.addKey("ed25519:1") }) // not the one it is known by
	want(t, r, p.name, "ed25519:1", c.now(), nil, ErrUnknownKey)
}

// What a notary says later than the server itself, though it is older, takes
// nothing back.
func TestMerge(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	parse := func(raw []byte) statement {
		t.Helper()
		s, err := parseStatement(raw, p.name, c.now())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first, key1 := parse(p.statement()), p.pub("ed25519:1")
	c.pass(time.Hour)
	rotated := c.now()
	p.rotate("ed25519:2")
	second := parse(p.statement())
	known := merge(merge(nil, first, true, c.now()), second, true, c.now())
	expired := moment{at: rotated, now: c.now()}
	if _, err := pick(known, "ed25519:1", expired); err != ErrExpiredKey { //nolint:errorlint // bare
		t.Fatalf("got %v", err)
	}
	again := merge(known, first, false, c.now())
	if _, err := pick(again, "ed25519:1", expired); err != ErrExpiredKey { //nolint:errorlint // bare
		t.Errorf("an old statement brought a key back: %v", err)
	}
	if string(again.Statement) != string(second.raw) {
		t.Error("an old statement replaced a newer one")
	}
	if got := merge(merge(nil, second, false, c.now()), first, false, c.now()); len(got.Keys) != 2 {
		t.Errorf("got %+v", got.Keys)
	}

	early := merge(nil, first, true, c.now())
	early.Keys[0].SeenMS = c.now().Add(1000 * time.Hour).UnixMilli() // our clock was ahead
	p.set(func() { clear(p.old) })
	for _, k := range merge(early, parse(p.statement()), true, c.now()).Keys {
		if k.ID == "ed25519:1" && k.SeenMS >= c.now().UnixMilli() {
			t.Errorf("a key that the server does not name any more counts as named: %+v", k)
		}
	}

	forger := newPeer(c, p.name)
	forger.life = 1000 * time.Hour
	forged := merge(merge(nil, first, true, c.now()), parse(forger.statement()), false, c.now())
	if pub, err := pick(forged, "ed25519:1", moment{at: c.now(), now: c.now()}); err != nil || !pub.Equal(key1) {
		t.Errorf("a notary replaced a key: %v", err)
	}
	own := merge(merge(nil, first, true, c.now()), parse(forger.statement()), true, c.now())
	if pub, err := pick(own, "ed25519:1", moment{at: c.now(), now: c.now()}); err != nil || pub.Equal(key1) {
		t.Errorf("the server itself could not replace its key: %v", err)
	}

	for i := range 3 * maxServerKeys {
		c.pass(time.Second)
		p.set(func() {
			clear(p.old)
			clear(p.keys)
			p.addKey("ed25519:n" + strings.Repeat("x", i%200) + string(rune('a'+i/200)))
		})
		known = merge(known, parse(p.statement()), true, c.now())
	}
	if len(known.Keys) > maxServerKeys {
		t.Errorf("%d keys", len(known.Keys))
	}
	for id := range p.keys {
		if _, err := pick(known, matrix.KeyID(id), moment{at: c.now(), now: c.now()}); err != nil {
			t.Errorf("the newest key was dropped: %v", err)
		}
	}
}

func TestNotarize(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	r := openRing(t, c, newNetwork(p))
	ask := func(until time.Time) []byte {
		t.Helper()
		text, err := r.Notarize(t.Context(), p.name, until.UnixMilli())
		if err != nil || text == nil {
			t.Fatalf("got %s, %v", text, err)
		}
		signer := r.Signer()
		if err := matrix.VerifyJSON(text, us, signer.KeyID, public(signer.Key)); err != nil {
			t.Errorf("our signature: %v", err)
		}
		if _, err := parseStatement(text, p.name, c.now()); err != nil {
			t.Errorf("the server's: %v", err)
		}
		return text
	}
	ask(c.now())
	ask(c.now())
	if n := p.timesAsked(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	ask(c.now().Add(48 * time.Hour))
	if n := p.timesAsked(); n != 2 {
		t.Errorf("for longer than it is valid: asked %d times", n)
	}
	c.pass(13 * time.Hour)
	ask(c.now())
	if n := p.timesAsked(); n != 3 {
		t.Errorf("in the second half: asked %d times", n)
	}
	p.set(func() { p.down = true })
	c.pass(1000 * time.Hour)
	ask(c.now()) // the last it said
	if text, err := r.Notarize(t.Context(), "gone.example", 0); text != nil || err != nil {
		t.Errorf("of a server that never was: %s, %v", text, err)
	}
	if text, err := r.Notarize(t.Context(), us, 0); err != nil || text == nil {
		t.Errorf("of ourselves: %s, %v", text, err)
	}
}
