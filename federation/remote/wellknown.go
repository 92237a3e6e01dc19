package remote

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/singleflight"

	"hearth/storage/matrix"
)

// How long answers of /.well-known/matrix/server are kept, as the
// specification recommends, and what may be read of one.
const (
	wellKnownDefault  = 24 * time.Hour
	wellKnownMax      = 48 * time.Hour
	wellKnownMin      = time.Minute // a peer that forbids caching must not cost a request each
	wellKnownErrorMin = time.Minute
	wellKnownErrorMax = time.Hour
	wellKnownBytes    = 50 << 10
	wellKnownTimeout  = 15 * time.Second
	wellKnownEntries  = 10_000
	wellKnownHops     = 10
)

// wellKnowns asks servers to whom they delegate, and remembers their answers.
type wellKnowns struct {
	http   *http.Client
	now    func() time.Time
	flight singleflight.Group

	mu      sync.Mutex // guards entries
	entries map[string]delegation
}

// delegation is one remembered answer.
type delegation struct {
	to       matrix.ServerName // empty: none
	until    time.Time         // ask again then
	goodTill time.Time         // the last good answer outlives failures until then
	failures int
}

// lookup finds the delegated server name of a host, empty where there is none.
// It fails only where ctx does.
func (w *wellKnowns) lookup(ctx context.Context, host string) (matrix.ServerName, error) {
	host = strings.ToLower(host)
	d, ok := w.known(host)
	if ok && w.now().Before(d.until) {
		return d.to, nil
	}
	// Not on ctx: who asks first must not fail those who ask along.
	ch := w.flight.DoChan(host, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wellKnownTimeout)
		defer cancel()
		return w.refresh(ctx, host, d), nil
	})
	select {
	case r := <-ch:
		return r.Val.(matrix.ServerName), r.Err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (w *wellKnowns) known(host string) (delegation, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d, ok := w.entries[host]
	return d, ok
}

// refresh asks, and remembers the answer. A failure keeps the last good answer
// for as long as any answer may be kept, and doubles the time to the next try.
func (w *wellKnowns) refresh(ctx context.Context, host string, old delegation) matrix.ServerName {
	to, ttl, err := w.fetch(ctx, host)
	now := w.now()
	d := delegation{to: to, until: now.Add(ttl), goodTill: now.Add(wellKnownMax)}
	if err != nil {
		d = delegation{failures: old.failures + 1, goodTill: old.goodTill}
		if now.Before(old.goodTill) {
			d.to = old.to
		}
		d.until = now.Add(min(wellKnownErrorMin<<min(old.failures, 10), wellKnownErrorMax))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.entries == nil {
		w.entries = map[string]delegation{}
	}
	if _, ok := w.entries[host]; !ok && len(w.entries) >= wellKnownEntries {
		for other := range w.entries { // any one: order of maps is random
			delete(w.entries, other)
			break
		}
	}
	w.entries[host] = d
	return d.to
}

func (w *wellKnowns) fetch(ctx context.Context, host string) (matrix.ServerName, time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"/.well-known/matrix/server", http.NoBody)
	if err != nil {
		return "", 0, err
	}
	res, err := w.http.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return "", 0, fmt.Errorf("well-known of %s: HTTP status %d", host, res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, wellKnownBytes+1))
	if err != nil {
		return "", 0, err
	}
	if len(body) > wellKnownBytes {
		return "", 0, fmt.Errorf("well-known of %s: longer than %d bytes", host, wellKnownBytes)
	}
	var answer struct {
		Server matrix.ServerName `json:"m.server"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", 0, fmt.Errorf("well-known of %s: %w", host, err)
	}
	if answer.Server == "" {
		return "", 0, fmt.Errorf("well-known of %s: no m.server", host)
	}
	return answer.Server, lifetime(res.Header, w.now()), nil
}

// lifetime reads the cache headers of an answer.
func lifetime(h http.Header, now time.Time) time.Duration {
	ttl := wellKnownDefault
	if at, err := http.ParseTime(h.Get("Expires")); err == nil {
		ttl = at.Sub(now)
	}
	for _, line := range h.Values("Cache-Control") {
		for _, word := range strings.Split(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
			switch strings.ToLower(name) {
			case "max-age":
				if n, err := strconv.ParseInt(strings.Trim(value, `"`), 10, 32); err == nil {
					ttl = time.Duration(n) * time.Second
				}
			case "no-store", "no-cache":
				return wellKnownMin
			}
		}
	}
	return min(max(ttl, wellKnownMin), wellKnownMax)
}
