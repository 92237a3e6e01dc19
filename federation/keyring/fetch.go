package keyring

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/publicsuffix"
	"golang.org/x/time/rate"

	"hearth/storage"
	"hearth/storage/matrix"
)

// kind is on whose account a fetch runs. Each has places of its own, so that
// made-up server names and what others ask of us as a notary do not keep us
// from the keys of those we know.
type kind int

const (
	acquaintance kind = iota // we have had keys of the server
	stranger
	asked // somebody asks us as a notary
	kinds
)

// Bounds of fetching. What finds no place fails at once: a queue would make
// servers wait for each other.
const (
	placesPerDomain = 8 // of strangers and asked ones, so that nobody takes all
	askEvery        = 30 * time.Second
	askBurst        = 3
	firstBackoff    = 10 * time.Second
	lastBackoff     = 10 * time.Minute
	maxHistories    = 4096
)

var places = [kinds]int{acquaintance: 64, stranger: 64, asked: 16}

func kindOf(known *storage.ServerKeys) kind {
	if known != nil {
		return acquaintance
	}
	return stranger
}

// errand is what one fetch does: it asks a server itself, or notaries about it.
type errand struct {
	of       errandID
	since    int64 // see fetches.mark
	run      func(ctx context.Context) error
	patience time.Duration
}

type errandID struct {
	server   matrix.ServerName
	notaries bool
}

// errNotNow means that the server was asked shortly before.
var errNotNow = errors.New("keyring: was asked shortly before")

// fetches is what runs, and what is remembered of what ran.
type fetches struct {
	ctx    context.Context // ends with the ring, not with whoever asks first
	cancel context.CancelFunc
	wait   sync.WaitGroup
	landed atomic.Int64 // counts fetches that ended

	mu        sync.Mutex // guards what follows
	closed    bool
	running   map[errandID]*flight
	taken     [kinds]int
	domains   map[string]int
	histories *generations[errandID, *history]
}

// flight is a fetch that runs, once for all who want it.
type flight struct {
	done chan struct{} // closed when err is set
	err  error
}

// history says when an errand may run again.
type history struct {
	tokens    *rate.Limiter
	failures  int // in a row
	notBefore time.Time
	last      *flight // the last one that ended
	landed    int64   // as which of all
}

// mark is read before looking at what is known: a fetch that ends after it
// serves whoever then finds too little, although it is over when he asks.
func (f *fetches) mark() int64 { return f.landed.Load() }

func (f *fetches) init() {
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.running = map[errandID]*flight{}
	f.domains = map[string]int{}
	f.histories = newGenerations[errandID, *history](maxHistories)
}

func (f *fetches) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	f.wait.Wait()
}

// fetch runs an errand, or joins one that runs, and waits for its end.
func (r *Ring) fetch(ctx context.Context, e errand, k kind) error {
	fl, err := r.start(e, k)
	if err != nil {
		return err
	}
	select {
	case <-fl.done:
		return fl.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start is fetch without the waiting.
func (r *Ring) start(e errand, k kind) (*flight, error) {
	f, now := &r.fetches, r.opt.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.running[e.of]; fl != nil {
		return fl, nil
	}
	if f.closed {
		return nil, context.Canceled
	}
	h, ok := f.histories.get(e.of)
	if !ok {
		h = &history{tokens: rate.NewLimiter(rate.Every(askEvery), askBurst)}
		f.histories.put(e.of, h, 1)
	}
	if h.last != nil && h.landed > e.since {
		return h.last, nil
	}
	// A wait that is longer than any we impose is a clock that was set back.
	if wait := h.notBefore.Sub(now); wait > 0 && wait <= lastBackoff {
		return nil, errNotNow
	}
	domain := domainOf(e.of.server)
	if f.taken[k] >= places[k] || k != acquaintance && f.domains[domain] >= placesPerDomain {
		return nil, ErrBusy
	}
	if !h.tokens.AllowN(now, 1) {
		return nil, errNotNow
	}
	fl := &flight{done: make(chan struct{})}
	f.running[e.of] = fl
	f.taken[k]++
	f.domains[domain]++
	f.wait.Go(func() {
		ctx, cancel := context.WithTimeout(f.ctx, e.patience)
		defer cancel()
		defer func() {
			if p := recover(); p != nil { // a bug, perhaps that server's doing: it fails alone
				fl.err = errors.New("keyring: a fetch ended in a panic")
				r.log.Error("panic in a fetch", zap.String("origin", string(e.of.server)), zap.Any("panic", p), zap.Stack("stack"))
			}
			r.land(e, k, h, fl)
			close(fl.done)
		}()
		fl.err = e.run(ctx)
	})
	return fl, nil
}

// land notes how an errand went.
func (r *Ring) land(e errand, k kind, h *history, fl *flight) {
	f, err := &r.fetches, fl.err
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.running, e.of)
	h.last, h.landed = fl, f.landed.Add(1)
	f.taken[k]--
	domain := domainOf(e.of.server)
	if f.domains[domain]--; f.domains[domain] == 0 {
		delete(f.domains, domain)
	}
	if err == nil {
		h.failures, h.notBefore = 0, time.Time{}
		return
	}
	h.notBefore = r.opt.Now().Add(min(firstBackoff<<min(h.failures, 10), lastBackoff))
	h.failures++
	if f.ctx.Err() == nil {
		r.log.Debug("keys not fetched", zap.String("origin", string(e.of.server)),
			zap.Bool("notaries", e.of.notaries), zap.Int("failures", h.failures), zap.Error(err))
	}
}

// domainOf names what the servers of one owner have in common: the registrable
// domain, or the /24 or /48 of an address.
func domainOf(server matrix.ServerName) string {
	host := strings.ToLower(strings.Trim(server.Host(), "[]."))
	if addr, err := netip.ParseAddr(host); err == nil {
		bits := 48
		if addr = addr.Unmap(); addr.Is4() {
			bits = 24
		}
		block, _ := addr.Prefix(bits) // the bits are right
		return block.String()
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return domain
	}
	return host
}

// refreshAhead fetches keys anew that are used after half of their lifetime, so
// that a server that is away when they end is not cut off.
func (r *Ring) refreshAhead(known *storage.ServerKeys, now time.Time) {
	if r.stale(known, now) {
		_, _ = r.start(r.directErrand(known.Server), acquaintance) // the keys are good still
	}
}

// stale tells whether half the lifetime of a statement is over.
func (r *Ring) stale(known *storage.ServerKeys, now time.Time) bool {
	life := min(known.ValidUntilMS-known.FetchedMS, maxTrust.Milliseconds())
	return now.UnixMilli() >= known.FetchedMS+life/2
}

// directErrand asks a server for its own keys.
func (r *Ring) directErrand(server matrix.ServerName) errand {
	return errand{of: errandID{server: server}, since: r.fetches.mark(), patience: r.opt.Timeout, run: func(ctx context.Context) error {
		raw, err := r.fetcher.ServerKeys(ctx, server)
		if err != nil {
			return err
		}
		now := r.opt.Now()
		s, err := parseStatement(raw, server, now)
		if err != nil {
			return &badStatement{server, err}
		}
		return r.keep(ctx, s, true, now)
	}}
}

// badStatement is an answer that says nothing we can believe.
type badStatement struct {
	server matrix.ServerName
	why    error
}

func (b *badStatement) Error() string {
	return "statement of " + string(b.server) + ": " + b.why.Error()
}

func (b *badStatement) Unwrap() error { return b.why }

// keep adds a statement to the database and then to memory. Where the disk
// refuses it is kept in memory alone: it is a cache, and promises nothing.
func (r *Ring) keep(ctx context.Context, s statement, direct bool, now time.Time) error {
	err := r.store.Write(ctx, "server keys", func(tx *storage.Tx) error {
		before, err := tx.ServerKeys(s.server)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		k := merge(before, s, direct, now)
		tx.AfterCommit(func() { r.remember(k) })
		return tx.PutServerKeys(k)
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	r.log.Warn("keys are not cached", zap.String("origin", string(s.server)), zap.Error(err))
	before, err := r.lookup(ctx, s.server)
	if err != nil {
		return err
	}
	r.remember(merge(before, s, direct, now))
	return nil
}
