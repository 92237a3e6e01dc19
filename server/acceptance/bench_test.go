package acceptance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/testserver"
	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
)

// wire is a keep-alive connection of a client that costs next to nothing, so
// that what is measured is the server.
type wire struct {
	tb   testing.TB
	host string
	conn net.Conn
	r    *bufio.Reader
}

func dial(tb testing.TB, base string) *wire {
	tb.Helper()
	host := strings.TrimPrefix(base, "http://")
	conn, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", host)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return &wire{tb: tb, host: host, conn: conn, r: bufio.NewReaderSize(conn, 512)}
}

// ask sends a request.
func (w *wire) ask(method, path string, token matrix.Token, body string) error {
	_, err := fmt.Fprintf(w.conn, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		method, path, w.host, token.Reveal(), len(body), body)
	return err
}

// answer reads a response, which must have status 200.
func (w *wire) answer() ([]byte, error) {
	resp, err := http.ReadResponse(w.r, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return body, err
}

// BenchmarkSendToDevice compares the endpoint with a bare net/http handler that
// does the same group commit with the same store: what authentication, routing,
// decoding, checks and logging cost. One message of 1 kB to one device each.
func BenchmarkSendToDevice(b *testing.B) {
	for _, clients := range []int{1, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			hs := testserver.New(b)
			alice, bob := hs.Register("alice"), hs.Register("bob")
			bare := startBare(b, hs, alice.UserID)
			body := testserver.Messages{bob.UserID: {string(bob.DeviceID): fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 1000))}}.Body()
			request := func(i int64) (string, string) { return testserver.ToDevicePath("m.test", fmt.Sprint(i)), body }
			endpoint, plain := newSenders(b, hs.URL(), clients, alice.Token, request), newSenders(b, bare, clients, alice.Token, request)
			b.ResetTimer()
			const turns = 10 // in turns, so that both see the same weather
			for range turns {
				endpoint.send(b.N/turns + clients)
				plain.send(b.N/turns + clients)
			}
			b.ReportMetric(endpoint.rate(), "hearth/s")
			b.ReportMetric(plain.rate(), "bare/s")
			b.ReportMetric(endpoint.rate()/plain.rate(), "ratio")
		})
	}
}

// senders send requests, numbered from 0, from several connections.
type senders struct {
	b       *testing.B
	wires   []*wire
	token   matrix.Token
	request func(i int64) (path, body string)
	next    atomic.Int64
	took    time.Duration
}

func newSenders(b *testing.B, base string, clients int, token matrix.Token, request func(i int64) (path, body string)) *senders {
	b.Helper()
	s := &senders{b: b, token: token, request: request}
	for range clients {
		s.wires = append(s.wires, dial(b, base))
	}
	return s
}

func (s *senders) send(n int) {
	end := s.next.Load() + int64(n)
	began := time.Now()
	var wg sync.WaitGroup
	for _, w := range s.wires {
		wg.Go(func() {
			for {
				i := s.next.Add(1) - 1
				if i >= end {
					return
				}
				path, body := s.request(i)
				err := w.ask("PUT", path, s.token, body)
				if err == nil {
					_, err = w.answer()
				}
				if err != nil {
					s.b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	s.took += time.Since(began)
	s.next.Store(end) // the connections counted too far
}

func (s *senders) rate() float64 { return float64(s.next.Load()) / s.took.Seconds() }

// startBare serves PUT /{anything}: read, decode, one unit with the same rows,
// answer. It returns its base URL.
func startBare(b *testing.B, hs *testserver.Server, from matrix.UserID) string {
	b.Helper()
	device := int64(-1) // a sender's device that the endpoint does not use
	err := hs.Store().Read(b.Context(), "bench", func(rx *storage.Rx) error {
		user, err := rx.UserByID(from)
		if err != nil {
			return err
		}
		devices, err := rx.DevicesOf(user.Num)
		if err == nil {
			device = devices[0].Num
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return serveBare(b, func(r *http.Request) error { return bareSend(hs, from, device, r) })
}

// serveBare serves what handle does, and answers {}.
func serveBare(b *testing.B, handle func(*http.Request) error) string {
	b.Helper()
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := handle(r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte("{}"))
	})}
	l, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = srv.Serve(l); close(done) }()
	b.Cleanup(func() { _ = srv.Close(); <-done })
	return "http://" + l.Addr().String()
}

func bareSend(hs *testserver.Server, from matrix.UserID, device int64, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var in struct {
		Messages map[matrix.UserID]map[string]jsontext.Value `json:"messages"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	scope := storage.TransactionScope{Device: device, Method: r.Method, Template: "/bare", Vars: map[string]string{"path": r.URL.Path}}
	return hs.Store().Write(context.WithoutCancel(r.Context()), "bare", func(tx *storage.Tx) error {
		if _, err := tx.FindTransaction(scope); err == nil {
			return nil
		}
		if err := hs.Inbox().Enqueue(tx, from, "m.test", inbox.Messages(in.Messages)); err != nil {
			return err
		}
		return tx.RecordTransaction(scope, []byte("{}"))
	})
}

// idle opens n long polls that nothing will answer, eight for each device of
// the user "idle".
func idle(b *testing.B, hs *testserver.Server, n int) {
	b.Helper()
	var c *testserver.Client
	var path string
	for i := range n {
		if i%8 == 0 {
			c = hs.Login("idle")
			path = "/_matrix/client/v3/sync?timeout=170000&since=" + c.Sync().NextBatch
		}
		if err := dial(b, hs.URL()).ask("GET", path, c.Token, ""); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCommitToSync measures the time from the return of COMMIT to the first
// byte at the client that waits for it, beside 1,000 idle polls.
func BenchmarkCommitToSync(b *testing.B) {
	hs := testserver.New(b)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	hs.Register("idle")
	idle(b, hs, 1000)
	bob.Sync()
	since := bob.Since()
	w := dial(b, hs.URL())
	var took []time.Duration
	for b.Loop() {
		if err := w.ask("GET", "/_matrix/client/v3/sync?timeout=60000&since="+since, bob.Token, ""); err != nil {
			b.Fatal(err)
		}
		for hs.Store().Stats().Waiters <= 1000 { // until the poll listens as well
			runtime.Gosched()
		}
		first := make(chan time.Time, 1)
		go func() { _, _ = w.r.Peek(1); first <- time.Now() }()
		committed := send(b, hs, alice.UserID, bob)
		took = append(took, (<-first).Sub(committed))
		body, err := w.answer()
		var next struct {
			Since string `json:"next_batch"`
		}
		if err == nil {
			err = json.Unmarshal(body, &next)
		}
		if err != nil {
			b.Fatal(err)
		}
		since = next.Since
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
}

// send queues one message and tells when COMMIT had returned.
func send(b *testing.B, hs *testserver.Server, from matrix.UserID, to *testserver.Client) (committed time.Time) {
	b.Helper()
	err := hs.Store().Write(b.Context(), "bench", func(tx *storage.Tx) error {
		tx.AfterCommit(func() { committed = time.Now() })
		return hs.Inbox().Enqueue(tx, from, "m.test", inbox.Messages{to.UserID: {string(to.DeviceID): []byte(`{}`)}})
	})
	if err != nil {
		b.Fatal(err)
	}
	return committed
}

// BenchmarkIdlePoll measures what one waiting poll costs: heap and stacks of
// this process, the client's end of the connection included.
func BenchmarkIdlePoll(b *testing.B) {
	hs := testserver.New(b)
	hs.Register("idle")
	const polls = 2000
	for b.Loop() {
		idle(b, hs, 8) // what the first ones need for all
		before := inUse()
		idle(b, hs, polls)
		b.ReportMetric(float64(inUse()-before)/polls, "B/poll")
	}
}

func inUse() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC() // stacks shrink by half at each
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
