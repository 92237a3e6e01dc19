package keyring

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const us = matrix.ServerName(storagetest.ServerName)

// clock is a wall clock that moves when told to.
type clock struct {
	mu sync.Mutex // guards t
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// peer is another server with keys.
type peer struct {
	name  matrix.ServerName
	clock *clock

	mu     sync.Mutex // guards what follows
	keys   map[string]ed25519.PrivateKey
	old    map[string]oldPublicKey
	life   time.Duration
	down   bool
	gate   chan struct{} // if set, answers wait for it to close
	asked  int
	change func(*statementJSON)         // of what it says, before it signs
	mangle func([]byte) []byte          // of what it says, after it has signed
	knows  map[matrix.ServerName][]byte // as a notary
	signs  matrix.ServerName            // as a notary, in whose name; empty: nobody's
}

func newPeer(c *clock, name matrix.ServerName) *peer {
	p := &peer{name: name, signs: name, clock: c, life: 24 * time.Hour, keys: map[string]ed25519.PrivateKey{}, old: map[string]oldPublicKey{}}
	p.addKey("ed25519:1")
	return p
}

func (p *peer) addKey(id string) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	p.keys[id] = key
}

// rotate replaces all keys by a new one.
func (p *peer) rotate(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, k := range p.keys {
		p.old[id] = oldPublicKey{matrix.EncodeBase64(public(k)), p.clock.now().UnixMilli()}
	}
	clear(p.keys)
	p.addKey(id)
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func (p *peer) pub(id string) ed25519.PublicKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return public(p.keys[id])
}

func (p *peer) set(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
}

func (p *peer) timesAsked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// statement is what the server says now.
func (p *peer) statement() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := statementJSON{Server: p.name, Verify: map[string]publicKey{}, Old: maps.Clone(p.old), ValidUntil: p.clock.now().Add(p.life).UnixMilli()}
	for id, k := range p.keys {
		s.Verify[id] = publicKey{matrix.EncodeBase64(public(k))}
	}
	if p.change != nil {
		p.change(&s)
	}
	text, err := json.Marshal(s)
	for id, k := range p.keys {
		if err == nil {
			text, err = matrix.SignJSON(text, matrix.Signer{Server: p.name, KeyID: matrix.KeyID(id), Key: k})
		}
	}
	if err != nil {
		panic(err)
	}
	if p.mangle != nil {
		text = p.mangle(text)
	}
	return text
}

var errDown = errors.New("no answer")

// answer is statement with the server's troubles.
func (p *peer) answer(ctx context.Context) ([]byte, error) {
	p.mu.Lock()
	p.asked++
	down, gate := p.down, p.gate
	p.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if down {
		return nil, errDown
	}
	return p.statement(), nil
}

// notarize answers a query with what the peer knows, signed by it.
func (p *peer) notarize(query []byte) ([]byte, error) {
	var q Query
	if err := json.Unmarshal(query, &q); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.down {
		return nil, errDown
	}
	answer := QueryAnswer{}
	for server := range q.Servers {
		text, ok := p.knows[matrix.ServerName(server)]
		for id, k := range p.keys {
			var err error
			if ok && p.signs != "" {
				text, err = matrix.SignJSON(text, matrix.Signer{Server: p.signs, KeyID: matrix.KeyID(id), Key: k})
			}
			if err != nil {
				return nil, err
			}
			if ok {
				answer.Keys = append(answer.Keys, text)
			}
		}
	}
	return json.Marshal(answer)
}

// network is a [Fetcher] without a network.
type network struct {
	mu    sync.Mutex // guards peers
	peers map[matrix.ServerName]*peer
}

func newNetwork(peers ...*peer) *network {
	n := &network{peers: map[matrix.ServerName]*peer{}}
	for _, p := range peers {
		n.peers[p.name] = p
	}
	return n
}

func (n *network) find(name matrix.ServerName) *peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.peers[name]
}

func (n *network) ServerKeys(ctx context.Context, server matrix.ServerName) ([]byte, error) {
	if p := n.find(server); p != nil {
		return p.answer(ctx)
	}
	return nil, errDown
}

func (n *network) QueryKeys(_ context.Context, notary matrix.ServerName, query []byte) ([]byte, error) {
	if p := n.find(notary); p != nil {
		return p.notarize(query)
	}
	return nil, errDown
}

// openRing opens a ring on a store of the test's own.
func openRing(t testing.TB, c *clock, f Fetcher, notaries ...matrix.ServerName) *Ring {
	t.Helper()
	return ringOn(t, openStore(t, c, t.TempDir()), c, f, notaries...)
}

func openStore(t testing.TB, c *clock, dir string) *storage.Store {
	t.Helper()
	return storagetest.OpenDir(t, dir, func(o *storage.Options) { o.Now = c.now; o.Log = zap.NewNop() })
}

func ringOn(t testing.TB, s *storage.Store, c *clock, f Fetcher, notaries ...matrix.ServerName) *Ring {
	t.Helper()
	r, err := Open(t.Context(), s, f, Options{Notaries: notaries, Now: c.now, Timeout: 5 * time.Minute}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// want asks for a key and compares the outcome: an error, or else the key.
func want(t *testing.T, r *Ring, server matrix.ServerName, id matrix.KeyID, at time.Time, key ed25519.PublicKey, wantErr error) {
	t.Helper()
	got, err := r.PublicKey(t.Context(), server, id, at)
	if !errors.Is(err, wantErr) || err == nil && !got.Equal(key) {
		t.Errorf("%s of %s: got %x, %v; want %x, %v", id, server, got, err, key, wantErr)
	}
}
