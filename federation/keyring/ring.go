// Package keyring holds the signing keys of homeservers: this server's own,
// which it makes, rotates and publishes, and those of others, which it fetches,
// checks and caches. It decides whether a request comes from whom it says.
//
// Nothing here waits for one server on behalf of another: each fetch is its
// own, bounded in time, in number, and in how often a server is asked.
package keyring

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"hearth/storage"
	"hearth/storage/matrix"
)

// Fetcher asks other servers for keys. It is remote.Client outside of tests.
type Fetcher interface {
	// ServerKeys is GET /_matrix/key/v2/server.
	ServerKeys(ctx context.Context, server matrix.ServerName) ([]byte, error)
	// QueryKeys is POST /_matrix/key/v2/query.
	QueryKeys(ctx context.Context, notary matrix.ServerName, query []byte) ([]byte, error)
}

// Options configure [Open].
type Options struct {
	Notaries []matrix.ServerName // asked, in this order, where a server itself does not tell
	Now      func() time.Time    // nil: time.Now
	Timeout  time.Duration       // of one fetch; 0: 20 s
}

// Errors of [Ring.PublicKey], for errors.Is.
var (
	// ErrUnknownKey means that the server is not known to have the key, and
	// that it was asked, now or shortly before.
	ErrUnknownKey = errors.New("keyring: unknown key")
	// ErrExpiredKey means that the server has the key, but not for that time.
	ErrExpiredKey = errors.New("keyring: key is not valid at that time")
	// ErrBusy means that too many keys are being fetched to fetch another.
	ErrBusy = errors.New("keyring: too many keys are being fetched")
)

// Ring is all the keys. It is safe for concurrent use.
type Ring struct {
	store   *storage.Store
	fetcher Fetcher
	opt     Options
	log     *zap.Logger
	own     own
	others  others
	fetches fetches
}

// Retention of keys that nobody asks for.
const (
	unusedLife = 365 * 24 * time.Hour
	sweepEvery = 24 * time.Hour
)

// Open reads this server's own keys, and makes one at the first start.
func Open(ctx context.Context, store *storage.Store, fetcher Fetcher, opt Options, log *zap.Logger) (*Ring, error) {
	if opt.Now == nil {
		opt.Now = time.Now //nolint:forbidigo // the default of the injected clock
	}
	if opt.Timeout == 0 {
		opt.Timeout = 20 * time.Second
	}
	r := &Ring{store: store, fetcher: fetcher, opt: opt, log: log.Named("keyring")}
	r.others.all = newGenerations[matrix.ServerName, *storage.ServerKeys](maxCachedKeys)
	r.fetches.init()
	if err := r.loadOwn(ctx); err != nil {
		r.Close()
		return nil, fmt.Errorf("signing key: %w", err)
	}
	store.Sweep("server keys", sweepEvery, func(tx *storage.Tx, limit int) (int, error) {
		return tx.ExpireServerKeys(tx.Clock()-unusedLife.Milliseconds(), limit)
	})
	return r, nil
}

// Close ends what is being fetched and waits for it.
func (r *Ring) Close() { r.fetches.close() }

// PublicKey finds the key with which a server signed something at the time
// validAt; zero is any time, for room versions 1 to 4, which ignore validity.
// What is neither in memory nor in the database, or not valid there, is fetched
// from the server and then from the notaries. Its errors are [ErrUnknownKey],
// [ErrExpiredKey], [ErrBusy], of ctx, or of the database.
func (r *Ring) PublicKey(ctx context.Context, server matrix.ServerName, id matrix.KeyID, validAt time.Time) (ed25519.PublicKey, error) {
	return r.find(ctx, server, id, moment{at: validAt, now: r.opt.Now()})
}

func (r *Ring) find(ctx context.Context, server matrix.ServerName, id matrix.KeyID, m moment) (ed25519.PublicKey, error) {
	if server == r.store.ServerName() {
		return r.own.find(id, m)
	}
	since := r.fetches.mark()
	known, err := r.lookup(ctx, server)
	if err != nil {
		return nil, err
	}
	pub, miss := pick(known, id, m)
	if miss == nil {
		r.refreshAhead(known, m.now)
		return pub, nil
	}
	for _, ask := range r.sources(server, id, m, since) {
		err := r.fetch(ctx, ask, kindOf(known))
		if err != nil && (ctx.Err() != nil || errors.Is(err, ErrBusy)) {
			return nil, err
		}
		if known, err = r.lookup(ctx, server); err != nil {
			return nil, err
		}
		if pub, miss = pick(known, id, m); miss == nil {
			return pub, nil
		}
	}
	return nil, fmt.Errorf("%w: %s of %s", miss, id, server)
}

// moment is when a key is to be valid, and when that is asked.
type moment struct {
	at      time.Time // zero: any time
	now     time.Time
	request bool // for a request, which is made now by a server that can be asked
}

// maxTrust bounds how long a key is trusted on its server's word alone, so that
// one that was stolen is not good for ever.
// Server-Server API, "Retrieving server keys", valid_until_ts.
const maxTrust = 7 * 24 * time.Hour

// pick finds a usable key among what is known, nil for nothing. A key that the
// server's last statement does not name any more is good for what it signed,
// but no longer for requests: whoever has it since may not be the server.
func pick(known *storage.ServerKeys, id matrix.KeyID, m moment) (ed25519.PublicKey, error) {
	if known == nil {
		return nil, ErrUnknownKey
	}
	for _, k := range known.Keys {
		if k.ID != id {
			continue
		}
		if !m.allows(k) || m.request && k.SeenMS < known.FetchedMS {
			return nil, ErrExpiredKey
		}
		return k.Public, nil
	}
	return nil, ErrUnknownKey
}

// allows tells whether a key is good. An old key is, for what was signed before
// it expired. Another one is up to its valid_until_ts, but never longer than a
// week ahead, and for requests never longer than a week after it was told: a
// server that makes requests can be asked again, one whose events are read
// later perhaps not.
func (m moment) allows(k storage.ServerKey) bool {
	if m.at.IsZero() {
		return true
	}
	at := m.at.UnixMilli()
	if k.ExpiredMS != 0 {
		return at < k.ExpiredMS
	}
	until := min(k.ValidUntilMS, m.now.Add(maxTrust).UnixMilli())
	if m.request {
		until = min(until, k.SeenMS+maxTrust.Milliseconds())
		if k.SeenMS > m.now.Add(maxTrust).UnixMilli() {
			return false // told while our clock was wrong: who knows when
		}
	}
	return at <= until
}

// others caches what is known of other servers, in front of the database.
type others struct {
	mu  sync.Mutex // guards all
	all *generations[matrix.ServerName, *storage.ServerKeys]
}

// maxCachedKeys bounds each of the two generations of others: 1 MB at most.
const maxCachedKeys = 4096

// lookup returns what is known of a server's keys, nil for nothing. It is not
// to be changed.
func (r *Ring) lookup(ctx context.Context, server matrix.ServerName) (*storage.ServerKeys, error) {
	r.others.mu.Lock()
	k, ok := r.others.all.get(server)
	r.others.mu.Unlock()
	if ok {
		return k, nil
	}
	untouched := false
	err := r.store.Point(ctx, "server keys", func(rx *storage.Rx) (err error) {
		if k, err = rx.ServerKeys(server); err == nil {
			untouched = k.Untouched(rx.Clock())
		}
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if untouched {
		r.store.Later("server keys in use", func(tx *storage.Tx) error { return tx.TouchServerKeys(server) })
	}
	r.others.mu.Lock()
	defer r.others.mu.Unlock()
	if newer, ok := r.others.all.get(server); ok { // fetched meanwhile
		return newer, nil
	}
	r.others.all.put(server, k, 1+len(k.Keys))
	return k, nil
}

// remember puts fetched keys before what the database may still say.
func (r *Ring) remember(k *storage.ServerKeys) {
	r.others.mu.Lock()
	defer r.others.mu.Unlock()
	r.others.all.put(k.Server, k, 1+len(k.Keys))
}
