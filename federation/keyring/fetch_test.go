package keyring

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

func TestRotationOfOthers(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	r := openRing(t, c, newNetwork(p))
	first := p.pub("ed25519:1")
	want(t, r, p.name, "ed25519:1", c.now(), first, nil)
	want(t, r, p.name, "ed25519:1", c.now(), first, nil)
	if n := p.timesAsked(); n != 1 {
		t.Errorf("asked %d times for what is cached", n)
	}
	c.pass(time.Hour)
	rotated := c.now()
	p.rotate("ed25519:2")
	c.pass(time.Hour)
	want(t, r, p.name, "ed25519:2", c.now(), p.pub("ed25519:2"), nil) // unknown, so it is asked for
	want(t, r, p.name, "ed25519:1", rotated.Add(-time.Millisecond), first, nil)
	want(t, r, p.name, "ed25519:1", rotated, nil, ErrExpiredKey)
	want(t, r, p.name, "ed25519:1", time.Time{}, first, nil)
	want(t, r, p.name, "ed25519:3", c.now(), nil, ErrUnknownKey)
}

// A key that the server stopped naming, without saying when it expired, is good
// for as long as the server last said.
func TestKeyThatIsNoLongerNamed(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	r := openRing(t, c, newNetwork(p))
	first, until := p.pub("ed25519:1"), c.now().Add(p.life)
	want(t, r, p.name, "ed25519:1", c.now(), first, nil)
	p.rotate("ed25519:2")
	p.set(func() { clear(p.old) })
	c.pass(30 * time.Hour)
	want(t, r, p.name, "ed25519:2", c.now(), p.pub("ed25519:2"), nil)
	want(t, r, p.name, "ed25519:1", until, first, nil)
	want(t, r, p.name, "ed25519:1", until.Add(time.Millisecond), nil, ErrExpiredKey)
}

func TestAllows(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	const h, day = time.Hour, 24 * time.Hour
	for name, k := range map[string]struct {
		valid, seen, expired time.Duration // from now; expired 0: not
		at                   time.Duration
		event, request       bool
	}{
		"current":                             {valid: h, at: 0, event: true, request: true},
		"long before":                         {valid: h, at: -1000 * day, event: true, request: true},
		"past its time":                       {valid: -h, seen: -2 * h, at: 0},
		"at the end of its time":              {valid: -h, seen: -2 * h, at: -h, event: true, request: true},
		"valid for years, in six days":        {valid: 1000 * day, at: 6 * day, event: true, request: true},
		"valid for years, in eight days":      {valid: 1000 * day, at: 8 * day},
		"valid for years, told six days ago":  {valid: 1000 * day, seen: -6 * day, at: 0, event: true, request: true},
		"valid for years, told 8 days ago":    {valid: 1000 * day, seen: -8 * day, at: 0, event: true},
		"told when our clock was ahead":       {valid: 1000 * day, seen: 900 * day, at: 0, event: true},
		"told when it was a little ahead":     {valid: h, seen: h, at: 0, event: true, request: true},
		"expired, before that":                {valid: -h, expired: -h, at: -h - 1e6, event: true, request: true},
		"expired, just then":                  {valid: -h, expired: -h, at: -h},
		"expires in the future":               {valid: h, expired: h, at: 0, event: true, request: true},
		"expired, though said to be valid on": {valid: 10 * h, expired: -h, at: 0},
	} {
		key := storage.ServerKey{ValidUntilMS: now.Add(k.valid).UnixMilli(), SeenMS: now.Add(k.seen).UnixMilli()}
		if k.expired != 0 {
			key.ExpiredMS = now.Add(k.expired).UnixMilli()
		}
		m := moment{at: now.Add(k.at), now: now}
		if got := m.allows(key); got != k.event {
			t.Errorf("%s: of an event: got %t", name, got)
		}
		m.request = true
		if got := m.allows(key); got != k.request {
			t.Errorf("%s: of a request: got %t", name, got)
		}
		if m.at = (time.Time{}); !m.allows(key) {
			t.Errorf("%s: refused without regard to time", name)
		}
	}
}

func TestBadStatements(t *testing.T) {
	t.Parallel()
	many := func(s *statementJSON) {
		for i := range maxVerifyKeys {
			s.Verify[fmt.Sprintf("ed25519:x%d", i)] = publicKey{strings.Repeat("A", 43)}
		}
	}
	replace := func(old, new string) func([]byte) []byte {
		return func(b []byte) []byte {
			if !strings.Contains(string(b), old) {
				panic("nothing to replace in " + string(b))
			}
			return []byte(strings.Replace(string(b), old, new, 1))
		}
	}
	for name, change := range map[string]func(*peer){
		"of another server":        func(p *peer) { p.change = func(s *statementJSON) { s.Server = "victim.test" } },
		"in other letters":         func(p *peer) { p.change = func(s *statementJSON) { s.Server = "PEER.test" } },
		"changed after signing":    func(p *peer) { p.mangle = replace(`"valid_until_ts":`, `"valid_until_ts":1`) },
		"not signed":               func(p *peer) { p.mangle = replace(`"signatures":{`, `"unsigned":{},"x":{`) },
		"signed by another server": func(p *peer) { p.mangle = replace(`"signatures":{"peer.test"`, `"signatures":{"victim.test"`) },
		"signed by a key not in it": func(p *peer) {
			p.change = func(s *statementJSON) { clear(s.Verify); s.Verify["ed25519:9"] = publicKey{strings.Repeat("A", 43)} }
		},
		"without keys":          func(p *peer) { p.change = func(s *statementJSON) { clear(s.Verify) } },
		"with too many keys":    func(p *peer) { p.change = many },
		"key of wrong length":   func(p *peer) { p.change = func(s *statementJSON) { s.Verify["ed25519:1"] = publicKey{"AAAA"} } },
		"not valid at any time": func(p *peer) { p.change = func(s *statementJSON) { s.ValidUntil = 0 } },
		"too long":              func(p *peer) { p.mangle = func(b []byte) []byte { return append(b, make([]byte, maxStatement)...) } },
		"cut":                   func(p *peer) { p.mangle = func(b []byte) []byte { return b[:len(b)-1] } },
		"a key twice":           func(p *peer) { p.mangle = replace(`{`, `{"server_name":"peer.test",`) },
		"nothing":               func(p *peer) { p.mangle = func([]byte) []byte { return nil } },
		"null":                  func(p *peer) { p.mangle = func([]byte) []byte { return []byte("null") } },
		"a number for a name":   func(p *peer) { p.mangle = replace(`"server_name":"peer.test"`, `"server_name":1`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			p := newPeer(c, "peer.test")
			r := openRing(t, c, newNetwork(p))
			change(p)
			want(t, r, p.name, "ed25519:1", c.now(), nil, ErrUnknownKey)
			want(t, r, "victim.test", "ed25519:1", c.now(), nil, ErrUnknownKey)
			if p.timesAsked() != 1 {
				t.Errorf("asked %d times", p.timesAsked())
			}
			if known, err := r.lookup(t.Context(), p.name); known != nil || err != nil {
				t.Errorf("kept %+v, %v", known, err)
			}
			p.set(func() { p.change, p.mangle = nil, nil })
			c.pass(firstBackoff)
			want(t, r, p.name, "ed25519:1", c.now(), p.pub("ed25519:1"), nil)
		})
	}
}

// Keys that did not sign, and kinds of keys that we cannot use, do not spoil
// the others.
func TestStrangeKeysBesideGoodOnes(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	p.change = func(s *statementJSON) {
		s.Verify["ed25519:unproven"] = publicKey{strings.Repeat("A", 43)}
		s.Verify["curve448:1"] = publicKey{"AAAA"}
		s.Old["rsa:1"] = oldPublicKey{"AAAA", 1}
		s.Old["ed25519:both"] = oldPublicKey{strings.Repeat("A", 43), 1}
		for i := range 2 * maxServerKeys {
			s.Old[fmt.Sprintf("ed25519:old%d", i)] = oldPublicKey{strings.Repeat("A", 43), int64(1 + i)}
		}
	}
	r := openRing(t, c, newNetwork(p))
	want(t, r, p.name, "ed25519:1", c.now(), p.pub("ed25519:1"), nil)
	want(t, r, p.name, "ed25519:unproven", c.now(), nil, ErrUnknownKey)
	want(t, r, p.name, "curve448:1", c.now(), nil, ErrUnknownKey)
	known, err := r.lookup(t.Context(), p.name)
	if err != nil || len(known.Keys) != maxServerKeys {
		t.Fatalf("%d keys, %v", len(known.Keys), err)
	}
	want(t, r, p.name, matrix.KeyID(fmt.Sprintf("ed25519:old%d", 2*maxServerKeys-1)), time.UnixMilli(1), make([]byte, 32), nil)
	want(t, r, p.name, "ed25519:old0", time.UnixMilli(0), nil, ErrUnknownKey)
}

func TestNegativeCache(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	p.down = true
	r := openRing(t, c, newNetwork(p))
	asked := 0
	for _, wait := range []time.Duration{0, firstBackoff, 2 * firstBackoff, 4 * firstBackoff} {
		if wait > 0 {
			c.pass(wait - time.Second)
			want(t, r, p.name, "ed25519:1", c.now(), nil, ErrUnknownKey)
			if n := p.timesAsked(); n != asked {
				t.Errorf("asked before %s were over", wait)
			}
			c.pass(time.Second)
		}
		for range 10 {
			want(t, r, p.name, "ed25519:1", c.now(), nil, ErrUnknownKey)
		}
		asked++
		if n := p.timesAsked(); n != asked {
			t.Errorf("after %s asked %d times, want %d", wait, n, asked)
		}
	}
	p.set(func() { p.down = false })
	c.pass(lastBackoff)
	want(t, r, p.name, "ed25519:1", c.now(), p.pub("ed25519:1"), nil)

	// Made-up key IDs cost the server a few questions, not one each.
	before := p.timesAsked()
	for i := range 50 {
		want(t, r, p.name, matrix.KeyID(fmt.Sprintf("ed25519:%d", 100+i)), c.now(), nil, ErrUnknownKey)
	}
	if n := p.timesAsked() - before; n > askBurst {
		t.Errorf("asked %d times, want at most %d", n, askBurst)
	}
	c.pass(askEvery)
	before = p.timesAsked()
	want(t, r, p.name, "ed25519:99", c.now(), nil, ErrUnknownKey)
	if p.timesAsked() != before+1 {
		t.Error("not asked again later")
	}
}

func TestClockSetBack(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	p.down = true
	r := openRing(t, c, newNetwork(p))
	want(t, r, p.name, "ed25519:1", c.now(), nil, ErrUnknownKey)
	p.set(func() { p.down = false })
	c.pass(-365 * 24 * time.Hour)
	want(t, r, p.name, "ed25519:1", c.now(), p.pub("ed25519:1"), nil)
}

// Whoever asks while a fetch runs shares it.
func TestOneFetchAtATime(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	p.gate = make(chan struct{})
	r := openRing(t, c, newNetwork(p))
	e := r.directErrand(p.name)
	var all sync.WaitGroup
	for range storagetest.Scale(50) {
		if _, err := r.start(e, stranger); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { want(t, r, p.name, "ed25519:1", c.now(), p.pub("ed25519:1"), nil) })
	}
	close(p.gate)
	all.Wait()
	// One who looked before the fetch ended and asks after it has no need of another.
	if fl, err := r.start(e, stranger); err != nil || fl.err != nil {
		t.Errorf("got %v", err)
	}
	if n := p.timesAsked(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// Servers that never answer take neither the places of those we know nor those
// of other domains, nor more than their share.
func TestSlowServers(t *testing.T) {
	t.Parallel()
	c := newClock()
	gate := make(chan struct{})
	defer close(gate)
	known, good := newPeer(c, "known.test"), newPeer(c, "good.example")
	n := newNetwork(known, good)
	r := openRing(t, c, n)
	want(t, r, known.name, "ed25519:1", c.now(), known.pub("ed25519:1"), nil)
	slow := func(name string) error {
		p := newPeer(c, matrix.ServerName(name))
		p.gate = gate
		n.mu.Lock()
		n.peers[p.name] = p
		n.mu.Unlock()
		_, err := r.start(r.directErrand(p.name), stranger)
		return err
	}
	for i := range placesPerDomain {
		if err := slow(fmt.Sprintf("m%d.slow.example", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := slow("more.slow.example"); !errors.Is(err, ErrBusy) {
		t.Errorf("more than its share: %v", err)
	}
	want(t, r, "more.slow.example", "ed25519:1", c.now(), nil, ErrBusy)
	want(t, r, good.name, "ed25519:1", c.now(), good.pub("ed25519:1"), nil)
	for i := range places[stranger] - placesPerDomain {
		if err := slow(fmt.Sprintf("slow%d.example", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := slow("another.example"); !errors.Is(err, ErrBusy) {
		t.Errorf("more than there are places: %v", err)
	}
	known.rotate("ed25519:2")
	want(t, r, known.name, "ed25519:2", c.now(), known.pub("ed25519:2"), nil)
	if text, err := r.Notarize(t.Context(), known.name, c.now().Add(1000*time.Hour).UnixMilli()); text == nil || err != nil {
		t.Errorf("as a notary: %s, %v", text, err)
	}
}

func TestPanicFailsAlone(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	p.mangle = func([]byte) []byte { panic("a bug") }
	r := openRing(t, c, newNetwork(p))
	want(t, r, p.name, "ed25519:1", c.now(), nil, ErrUnknownKey)
	p.set(func() { p.mangle = nil })
	c.pass(firstBackoff)
	want(t, r, p.name, "ed25519:1", c.now(), p.pub("ed25519:1"), nil)
}

func TestPlacesAreGivenBack(t *testing.T) {
	t.Parallel()
	c := newClock()
	r := openRing(t, c, newNetwork())
	for i := range 3 * places[stranger] {
		want(t, r, matrix.ServerName(fmt.Sprintf("m%d.gone.example", i)), "ed25519:1", c.now(), nil, ErrUnknownKey)
	}
	r.fetches.mu.Lock()
	defer r.fetches.mu.Unlock()
	if r.fetches.taken != [kinds]int{} || len(r.fetches.domains) != 0 || len(r.fetches.running) != 0 {
		t.Errorf("left: %v, %v, %d running", r.fetches.taken, r.fetches.domains, len(r.fetches.running))
	}
}

// Keys used after half of their life are fetched while they are still good.
func TestRefreshAhead(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	r := openRing(t, c, newNetwork(p))
	key := p.pub("ed25519:1")
	want(t, r, p.name, "ed25519:1", c.now(), key, nil)
	c.pass(11 * time.Hour)
	want(t, r, p.name, "ed25519:1", c.now(), key, nil)
	if p.timesAsked() != 1 {
		t.Errorf("asked %d times in the first half", p.timesAsked())
	}
	c.pass(2 * time.Hour)
	p.gate = make(chan struct{})
	want(t, r, p.name, "ed25519:1", c.now(), key, nil) // does not wait
	r.fetches.mu.Lock()
	fl := r.fetches.running[errandID{server: p.name}]
	r.fetches.mu.Unlock()
	if fl == nil {
		t.Fatal("not fetched ahead")
	}
	close(p.gate)
	<-fl.done
	p.set(func() { p.down = true })
	c.pass(13 * time.Hour) // past the first statement
	want(t, r, p.name, "ed25519:1", c.now(), key, nil)
}

func TestDomainOf(t *testing.T) {
	t.Parallel()
	for server, want := range map[matrix.ServerName]string{
		"matrix.Example.co.uk:8448": "example.co.uk",
		"a.b.example.org":           "example.org",
		"localhost:1":               "localhost",
		"10.1.2.3:8448":             "10.1.2.0/24",
		"[2001:db8:1:2::3]:8448":    "2001:db8:1::/48",
		"[::ffff:10.1.2.3]":         "10.1.2.0/24",
		"example.org.":              "example.org",
	} {
		if got := domainOf(server); got != want {
			t.Errorf("%s: got %s, want %s", server, got, want)
		}
	}
}

// What the disk refuses to cache is used all the same.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newPeer(c, "peer.test")
	r := openRing(t, c, newNetwork(p))
	storagetest.FailCommit(t, r.store)
	for range 3 {
		want(t, r, p.name, "ed25519:1", c.now(), p.pub("ed25519:1"), nil)
	}
	if n := p.timesAsked(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestRestartKeepsKeys(t *testing.T) {
	t.Parallel()
	c, dir := newClock(), t.TempDir()
	p := newPeer(c, "peer.test")
	n := newNetwork(p)
	store := openStore(t, c, dir)
	r := ringOn(t, store, c, n)
	key := p.pub("ed25519:1")
	want(t, r, p.name, "ed25519:1", c.now(), key, nil)
	p.rotate("ed25519:2")
	want(t, r, p.name, "ed25519:2", c.now(), p.pub("ed25519:2"), nil)
	r.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	p.set(func() { p.down = true })
	before := p.timesAsked()
	r = ringOn(t, openStore(t, c, dir), c, n)
	want(t, r, p.name, "ed25519:2", c.now(), p.pub("ed25519:2"), nil)
	want(t, r, p.name, "ed25519:1", c.now().Add(-time.Hour), key, nil)
	if p.timesAsked() != before {
		t.Error("asked for what is in the database")
	}
	want(t, r, p.name, "ed25519:1", c.now(), nil, ErrExpiredKey)
}

// Many callers, many servers, rotations and failures at once, for the race detector.
func TestTogether(t *testing.T) {
	t.Parallel()
	c := newClock()
	var peers []*peer
	for i := range 8 {
		peers = append(peers, newPeer(c, matrix.ServerName(fmt.Sprintf("p%d.example", i))))
	}
	r := openRing(t, c, newNetwork(peers...))
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for k := range storagetest.Scale(30) {
				p := peers[(i+k)%len(peers)]
				_, err := r.PublicKey(t.Context(), p.name, "ed25519:1", c.now())
				if err != nil && !errors.Is(err, ErrExpiredKey) && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrUnknownKey) {
					t.Error(err)
				}
				switch k % 10 {
				case 3:
					p.set(func() { p.down = !p.down })
				case 5:
					c.pass(time.Hour)
				case 7:
					if _, err := r.Notarize(t.Context(), p.name, 0); err != nil {
						t.Error(err)
					}
				case 9:
					if i == 0 {
						if _, err := r.Rotate(t.Context()); err != nil {
							t.Error(err)
						}
					}
				}
			}
		})
	}
	all.Wait()
}

func TestGenerations(t *testing.T) {
	t.Parallel()
	g := newGenerations[int, int](10)
	g.put(0, 0, 1)
	for i := 1; i < 1000; i++ {
		g.put(i, i, 1)
		g.put(i, i, 1) // counts once
		if v, ok := g.get(0); !ok || v != 0 {
			t.Fatalf("what is used was forgotten after %d", i)
		}
		if n := len(g.young) + len(g.old); n > 20 {
			t.Fatalf("%d entries", n)
		}
	}
	if _, ok := g.get(1); ok {
		t.Error("what is not used was not forgotten")
	}
}
