package web

import (
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"hearth/storage/matrix"
)

// The rate limits that routes name.
const (
	LimitLogin        = "login"        // proving who one is: login, refresh, passwords
	LimitRegistration = "registration" // making accounts and asking for names
	LimitSending      = "sending"      // whatever others receive: to-device messages, events
	LimitFederation   = "federation"   // requests of other servers
	LimitKeyQueries   = "key_queries"  // asking this server for the keys of others
)

// Limit is how often one user or address may do something: PerSecond on
// average, Burst at once.
type Limit struct {
	PerSecond float64
	Burst     int
}

// limiter counts requests per key. It remembers at most two generations of
// keys, so that made-up addresses cannot fill the memory; a key that was busy
// within the present or the last generation keeps its count.
type limiter struct {
	limit Limit
	most  int // keys in one generation

	mu         sync.Mutex // guards young and old
	young, old map[string]*rate.Limiter
}

// maxLimitKeys bounds one generation of one limiter: about 2 MB in all.
const maxLimitKeys = 10_000

func newLimiter(l Limit, most int) *limiter {
	return &limiter{limit: l, most: most, young: map[string]*rate.Limiter{}}
}

// take counts one request of key at now. Where it is one too many it counts
// nothing and returns M_LIMIT_EXCEEDED with the time to wait.
func (l *limiter) take(key string, now time.Time) error { return l.takeN(key, now, 1) }

// giveBack takes one count of key back.
func (l *limiter) giveBack(key string, now time.Time) { l.of(key).AllowN(now, -1) }

// takeN counts n requests of key, or as many as the limit lets through at once
// beside the one that asks.
func (l *limiter) takeN(key string, now time.Time, n int) error {
	r := l.of(key).ReserveN(now, min(n, max(l.limit.Burst-1, 1)))
	wait := time.Minute // a burst of zero: never
	if r.OK() {
		if wait = r.DelayFrom(now); wait == 0 {
			return nil
		}
		r.CancelAt(now)
	}
	return &matrix.Error{
		Status:     matrix.LimitExceeded.Status(),
		Code:       matrix.LimitExceeded,
		Message:    "Too many requests",
		RetryAfter: wait,
	}
}

func (l *limiter) of(key string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.young[key]; b != nil {
		return b
	}
	b := l.old[key]
	if b == nil {
		b = rate.NewLimiter(rate.Limit(l.limit.PerSecond), l.limit.Burst)
	}
	if len(l.young) >= l.most {
		l.old, l.young = l.young, make(map[string]*rate.Limiter)
	}
	l.young[key] = b
	return b
}

// limitKey is whom a request counts against: the user, or the address of one
// who has none. An IPv6 customer has a whole /64.
func limitKey(c *Call) string {
	if c.UserNum != 0 {
		return "u" + strconv.FormatInt(c.UserNum, 10)
	}
	if a, err := netip.ParseAddr(c.RemoteIP); err == nil && a.Is6() && !a.Is4In6() {
		if p, err := a.WithZone("").Prefix(64); err == nil {
			return p.String()
		}
	}
	return c.RemoteIP
}
