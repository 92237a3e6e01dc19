package testserver

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hearth/federation/remote"
	"hearth/storage/matrix"
)

// Fate is what a link does with one request.
type Fate int

// What a link may do with a request. Where the answer is lost, the connection
// breaks, and whoever asked cannot know whether it was acted on.
const (
	Pass       Fate = iota
	Lose            // does not arrive
	LoseAnswer      // arrives, and its answer is lost
	Twice           // arrives twice, one after the other
	Late            // its connection breaks; it arrives after requests that came later
	Slow            // arrives up to 5 ms later
	Hang            // does not arrive and is not answered, until the link's judge is replaced
	HoldAnswer      // arrives, and its answer hangs in the same way
	HalfAnswer      // arrives, and half of its answer comes back; the rest hangs in the same way
	fates
)

// Status answers with this HTTP status and an M_UNKNOWN, without forwarding.
func Status(code int) Fate { return Fate(code) }

// Transit is one request on a link.
type Transit struct {
	Origin matrix.ServerName // of the Authorization header; empty: none
	Method string
	Path   string
	Body   []byte

	request *http.Request
}

// Transaction tells whether the request is PUT /_matrix/federation/v1/send.
func (r *Transit) Transaction() bool {
	return strings.HasPrefix(r.Path, "/_matrix/federation/v1/send/")
}

// Judge decides a request's fate.
type Judge func(*Transit) Fate

// Faulty loses, delays, repeats and reorders half of all transactions, by the
// seed and the order in which they come.
func Faulty(seed uint64) Judge {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // to be repeated
	return func(r *Transit) Fate {
		if !r.Transaction() || random.IntN(2) == 0 {
			return Pass
		}
		return Lose + Fate(random.IntN(int(Hang-Lose)))
	}
}

// Link is the network in front of one server: it has the address that is the
// server's name, ends TLS, and forwards requests one by one, over TLS, to where
// the server listens at the moment. It stays while the server is down; then
// connections to it break.
type Link struct {
	tb     testing.TB
	addr   string
	target func() string // host:port; empty: down
	muted  func(origin matrix.ServerName) bool
	http   *http.Client

	mu      sync.Mutex // guards what follows, and is held while judge runs
	judge   Judge
	changed chan struct{} // closed when judge is replaced
	late    []*Transit
	counts  map[Fate]int
	answers map[int]int // by status, of what was forwarded
	held    int
}

// NewLink opens a link that forwards everything. It ends with the test.
func NewLink(tb testing.TB, a *Authority, target func() string) *Link {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: a.client(), ForceAttemptHTTP2: true, DisableCompression: true}
	l := &Link{
		tb: tb, addr: listener.Addr().String(), target: target,
		muted:   func(matrix.ServerName) bool { return false },
		http:    &http.Client{Transport: transport},
		changed: make(chan struct{}), counts: map[Fate]int{}, answers: map[int]int{},
	}
	srv := &http.Server{Handler: l, TLSConfig: a.server(), ReadHeaderTimeout: time.Minute, ErrorLog: silent()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.ServeTLS(listener, "", "")
	}()
	tb.Cleanup(func() {
		l.Set(nil)
		_ = srv.Close()
		<-done
		transport.CloseIdleConnections()
	})
	return l
}

// Name is the server name of whoever is behind the link.
func (l *Link) Name() matrix.ServerName { return matrix.ServerName(l.addr) }

// Set replaces who decides the fate of requests; nil lets all pass. Requests
// that hang break, and those that are late arrive at once.
func (l *Link) Set(j Judge) {
	l.mu.Lock()
	l.judge = j
	close(l.changed)
	l.changed = make(chan struct{})
	late := l.late
	l.late = nil
	l.mu.Unlock()
	l.deliver(late)
}

// Count is how many requests had this fate.
func (l *Link) Count(f Fate) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[f]
}

// Held is how many requests, or answers, were made to hang so far.
func (l *Link) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Answers is how many transactions the server behind the link answered so.
func (l *Link) Answers(status int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers[status]
}

// ServeHTTP implements http.Handler.
func (l *Link) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	t := &Transit{Method: r.Method, Path: r.RequestURI, Body: body, request: r}
	if x, err := remote.ParseAuthorization(r.Header.Get("Authorization")); err == nil {
		t.Origin = x.Origin
	}
	if l.muted(t.Origin) {
		panic(http.ErrAbortHandler)
	}
	fate, changed, after := l.decide(t)
	answer := l.carry(r.Context(), t, fate, changed)
	l.deliver(after)
	if answer == nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	if fate == HalfAnswer {
		w.Header().Set("Content-Length", strconv.Itoa(len(answer.Body)))
		w.WriteHeader(answer.Status)
		_, _ = w.Write(answer.Body[:len(answer.Body)/2])
		_ = http.NewResponseController(w).Flush()
		l.hang(r.Context(), changed)
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body)
}

// hang waits until the link's judge is replaced, or who asked is gone.
func (l *Link) hang(ctx context.Context, changed <-chan struct{}) {
	l.mu.Lock()
	l.held++
	l.mu.Unlock()
	select {
	case <-changed:
	case <-ctx.Done():
	}
}

// decide returns a request's fate, and the late ones that arrive after it.
func (l *Link) decide(t *Transit) (fate Fate, changed <-chan struct{}, after []*Transit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.judge != nil {
		fate = l.judge(t)
	}
	l.counts[fate]++
	switch {
	case fate == Late:
		l.late = append(l.late, t)
	case fate == Pass && len(l.late) > 0 && len(t.Body)%3 != 0:
		after, l.late = l.late, nil
	}
	return fate, l.changed, after
}

// carry does to a request what is its fate. The answer is nil where the
// connection shall break.
func (l *Link) carry(ctx context.Context, t *Transit, f Fate, changed <-chan struct{}) *Answer {
	switch f {
	case Lose, Late:
		return nil
	case LoseAnswer:
		l.forward(ctx, t)
		return nil
	case Twice:
		l.forward(ctx, t)
	case Slow:
		select {
		case <-time.After(rand.N(5 * time.Millisecond)): //nolint:gosec // a delay is the point
		case <-ctx.Done():
		}
	case Hang, HoldAnswer:
		if f == HoldAnswer {
			l.forward(ctx, t)
		}
		l.hang(ctx, changed)
		return nil
	}
	if f >= fates {
		return &Answer{Status: int(f), Body: []byte(`{"errcode":"M_UNKNOWN","error":"A fault of the link"}`)}
	}
	return l.forward(ctx, t)
}

func (l *Link) deliver(late []*Transit) {
	for _, t := range late {
		l.forward(context.Background(), t)
	}
}

// forward returns nil where there was no answer.
func (l *Link) forward(ctx context.Context, t *Transit) *Answer {
	target := l.target()
	if target == "" {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, t.Method, "https://"+target+t.Path, bytes.NewReader(t.Body))
	if err != nil {
		return nil
	}
	req.Host = t.request.Host
	req.Header = t.request.Header.Clone()
	resp, err := l.http.Do(req)
	if err != nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil
	}
	if t.Transaction() {
		l.mu.Lock()
		l.answers[resp.StatusCode]++
		l.mu.Unlock()
	}
	return &Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}
}
