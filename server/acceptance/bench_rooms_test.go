package acceptance

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/testserver"
	"hearth/storage"
	"hearth/storage/matrix"
)

// BenchmarkRoom has eight people talk in a room while a ninth follows it, and
// compares with a bare net/http handler that commits the same rows with the same
// group commit, of events that were made before. It tells how long a message
// took from its request to the reader.
func BenchmarkRoom(b *testing.B) {
	hs := testserver.New(b)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	talk, other := alice.CreateRoom(`{"preset":"public_chat"}`), alice.CreateRoom(`{"preset":"public_chat"}`)
	enter(talk, alice, bob)
	const clients, turns = 8, 10
	n := b.N/turns + clients
	reader := newRoomReader(b, bob, turns*n)
	speak := newSenders(b, hs.URL(), clients, alice.Token, func(i int64) (string, string) {
		reader.sent[i] = time.Now()
		return testserver.RoomPath(talk, "send", "m.room.message", fmt.Sprint("t", i)), message(i)
	})
	plain := newSenders(b, startBareRoom(b, hs, alice, other, turns*n), clients, alice.Token, func(i int64) (string, string) {
		return "/" + strconv.FormatInt(i, 10), message(i)
	})
	var units, commits int64
	b.ResetTimer()
	for range turns {
		s := hs.Store().Stats()
		speak.send(n)
		e := hs.Store().Stats()
		units, commits = units+e.Units-s.Units, commits+e.Commits-s.Commits
		plain.send(n)
	}
	b.StopTimer()
	took := reader.end()
	b.ReportMetric(speak.rate(), "hearth/s")
	b.ReportMetric(plain.rate(), "bare/s")
	b.ReportMetric(speak.rate()/plain.rate(), "ratio")
	b.ReportMetric(float64(units)/float64(commits), "units/COMMIT")
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
}

func message(i int64) string {
	return fmt.Sprintf(`{"msgtype":"m.text","body":"a message as people write them, of no great length","number":%d}`, i)
}

// roomReader is one client that follows the room by long polls.
type roomReader struct {
	b    *testing.B
	sent []time.Time // when each message's request began
	conn net.Conn
	took []time.Duration
	done chan struct{}
}

func newRoomReader(b *testing.B, c *testserver.Client, n int) *roomReader {
	b.Helper()
	c.Sync()
	r := &roomReader{b: b, sent: make([]time.Time, n), done: make(chan struct{})}
	w := dial(b, c.Site().URL())
	r.conn = w.conn
	go func() {
		defer close(r.done)
		for since := c.Since(); ; {
			err := w.ask("GET", `/_matrix/client/v3/sync?timeout=60000&filter={"room":{"timeline":{"limit":100}}}&since=`+since, c.Token, "")
			var body []byte
			if err == nil {
				body, err = w.answer()
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			var next struct {
				Since string `json:"next_batch"`
			}
			if err == nil {
				err = json.Unmarshal(body, &next)
			}
			if err != nil {
				b.Error(err)
				return
			}
			r.note(body, time.Now())
			since = next.Since
		}
	}()
	return r
}

// note notes when the messages of an answer arrived.
func (r *roomReader) note(body []byte, at time.Time) {
	for {
		_, rest, found := bytes.Cut(body, []byte(`"number":`))
		if !found {
			return
		}
		digits := bytes.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
		if i, err := strconv.Atoi(string(rest[:digits])); err == nil {
			r.took = append(r.took, at.Sub(r.sent[i]))
		}
		body = rest
	}
}

// end ends the reader, and returns how long messages took, in order.
func (r *roomReader) end() []time.Duration {
	_ = r.conn.Close()
	<-r.done
	if 2*len(r.took) < len(r.sent) {
		r.b.Errorf("%d of %d messages were told", len(r.took), len(r.sent))
	}
	slices.Sort(r.took)
	return r.took
}

// startBareRoom serves PUT /{anything}: read, one unit with the rows of the next
// event, answer.
func startBareRoom(b *testing.B, hs *testserver.Server, from *testserver.Client, id matrix.RoomID, n int) string {
	b.Helper()
	var room storage.Room
	var device int64
	var last storage.Event
	err := hs.Store().Read(b.Context(), "bench", func(rx *storage.Rx) (err error) {
		if room, err = rx.Room(id); err != nil {
			return err
		}
		leaves, err := rx.Extremities(room.Num)
		if err != nil {
			return err
		}
		last = leaves[0]
		user, err := rx.UserByID(from.UserID)
		if err != nil {
			return err
		}
		devices, err := rx.DevicesOf(user.Num)
		device = devices[0].Num
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	signer := matrix.Signer{Server: hs.Name(), KeyID: "ed25519:1", Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	events := make([]*matrix.Event, n)
	for i := range events {
		events[i], err = matrix.Build(room.Version, matrix.Template{
			RoomID: id, Type: "m.room.message", Sender: from.UserID, Content: jsontext.Value(message(int64(i))),
			OriginServerTS: last.OriginServerTS(), PrevEvents: []matrix.EventID{last.ID()}, AuthEvents: last.AuthEvents(),
		}, signer)
		if err != nil {
			b.Fatal(err)
		}
	}
	var next atomic.Int64
	return serveBare(b, func(r *http.Request) error {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return err
		}
		i := next.Add(1) - 1
		e := storage.NewEvent{
			Event: events[i], Place: storage.Live, Depth: last.Depth + 1 + i, Generation: last.Generation + 1,
			StateBefore: room.State, Device: device, TxnID: strconv.FormatInt(i, 10),
		}
		scope := storage.TransactionScope{Device: device, Method: r.Method, Template: "/bare", Vars: map[string]string{"path": r.URL.Path}}
		return hs.Store().Write(context.WithoutCancel(r.Context()), "bare", func(tx *storage.Tx) error {
			stored, err := tx.AddEvent(room, e)
			if err != nil {
				return err
			}
			if err := tx.SetExtremities(room.Num, []storage.EventNum{stored.Num}); err != nil {
				return err
			}
			return tx.RecordTransaction(scope, []byte(`{"event_id":"`+string(stored.ID())+`"}`))
		})
	})
}
