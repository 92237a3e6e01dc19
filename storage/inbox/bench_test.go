package inbox

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	_ "modernc.org/sqlite" // the plain program

	"hearth/storage"
)

const benchContent = `{"algorithm":"m.olm.v1.curve25519-aes-sha2","ciphertext":"AwogGJJzMhf/S3GQFXAOrCZ3iKyGU5ZScVtjI0KypTYrW5ISIAeHRyVUFT"}`

// BenchmarkEveryDevice sends one message to "*", 1,000 devices of one user, and
// beside it 1,000 rows of the same table in a transaction of a plain program.
func BenchmarkEveryDevice(b *testing.B) { benchDevices(b, 1) }

// BenchmarkEveryUser sends one message to "*" of 1,000 users with one device each.
func BenchmarkEveryUser(b *testing.B) { benchDevices(b, 1000) }

func benchDevices(b *testing.B, users int) {
	w := &world{t: b, dir: b.TempDir(), opt: Options{MaxMessages: 1 << 40}}
	w.open()
	b.Cleanup(w.close)
	request := Messages{}
	for i := range users {
		local := fmt.Sprint("bob", i)
		var ids []string
		for k := range 1000 / users {
			ids = append(ids, fmt.Sprintf("DEVICE%04d", k))
		}
		w.register(local, ids...)
		request[user(local)] = map[string]jsontext.Value{"*": jsontext.Value(benchContent)}
	}
	plain := newPlain(b)
	var ours, theirs time.Duration
	for n := 0; b.Loop(); n++ {
		if n%20 == 19 { // now and then the devices fetch what they have
			w.write(func(tx *storage.Tx) error { _, err := tx.ExpireToDevice(1<<60, 1<<30); return err })
			plain.clear()
		}
		began := time.Now()
		w.send(user("bob0"), request)
		sent := time.Now()
		plain.insert(1000)
		ours, theirs = ours+sent.Sub(began), theirs+time.Since(sent)
	}
	b.ReportMetric(float64(ours)/float64(theirs), "x-plain")
	b.ReportMetric(float64(ours.Microseconds())/float64(b.N)/1000, "µs/device")
}

// plain is a program that does nothing but insert.
type plain struct {
	b    *testing.B
	db   *sql.DB
	stmt *sql.Stmt
	pos  int
}

func newPlain(b *testing.B) *plain {
	db, err := sql.Open("sqlite", filepath.Join(b.TempDir(), "plain.db")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=cache_size(-16384)&_txlock=immediate")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { _ = db.Close() })
	_, err = db.ExecContext(b.Context(), `CREATE TABLE to_device (pos INTEGER PRIMARY KEY, device INTEGER NOT NULL,
		sender INTEGER NOT NULL, type TEXT NOT NULL, content BLOB NOT NULL, bytes INTEGER NOT NULL, at_clock INTEGER NOT NULL) STRICT;
		CREATE INDEX to_device_of ON to_device (device, pos, sender, bytes)`)
	if err != nil {
		b.Fatal(err)
	}
	stmt, err := db.PrepareContext(b.Context(), `INSERT INTO to_device VALUES (?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stmt.Close() })
	return &plain{b: b, db: db, stmt: stmt}
}

func (p *plain) insert(n int) {
	tx, err := p.db.BeginTx(context.Background(), nil)
	if err != nil {
		p.b.Fatal(err)
	}
	stmt := tx.StmtContext(context.Background(), p.stmt)
	for i := range n {
		p.pos++
		if _, err := stmt.ExecContext(context.Background(), p.pos, i+1, 1, "m.test", []byte(benchContent), 200, 1_800_000_000_000); err != nil {
			p.b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		p.b.Fatal(err)
	}
}

func (p *plain) clear() {
	if _, err := p.db.ExecContext(context.Background(), `DELETE FROM to_device`); err != nil {
		p.b.Fatal(err)
	}
}

// BenchmarkStart opens a store with a million waiting messages, and one with a
// single one, up to the first answer.
func BenchmarkStart(b *testing.B) {
	fill := func(messages int) *world {
		w := &world{t: b, dir: b.TempDir(), opt: Options{MaxMessages: 1 << 40, MaxBytes: 1 << 50}}
		w.open()
		var ids []string
		for i := range min(1000, messages) {
			ids = append(ids, fmt.Sprintf("DEVICE%04d", i))
		}
		w.register("bob", ids...)
		for range messages / len(ids) {
			w.send(user("bob"), to("bob", "*", benchContent))
		}
		w.close()
		return w
	}
	start := func(w *world) time.Duration {
		began := time.Now()
		w.open()
		if len(w.batch(1, 0).Messages) == 0 {
			b.Fatal("nothing waits")
		}
		took := time.Since(began)
		w.close()
		return took
	}
	few, many := fill(1), fill(1_000_000)
	var short, long time.Duration
	for b.Loop() {
		short, long = short+start(few), long+start(many)
	}
	b.ReportMetric(float64(long)/float64(short), "x-one")
	b.ReportMetric(float64(long.Microseconds())/float64(b.N)/1000, "ms")
}

// BenchmarkFlood sends to an inbox that is at its limit, and beside it to one
// that is not.
func BenchmarkFlood(b *testing.B) {
	const batch = 200
	one := func(limit int) (*world, func()) {
		w := newWorld(b, Options{MaxMessages: limit})
		w.register("bob", "B")
		return w, func() {
			w.write(func(tx *storage.Tx) error {
				for range batch {
					if err := w.inbox.Enqueue(tx, user("bob"), "m.test", to("bob", "B", benchContent)); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	full, flood := one(10_000)
	_, send := one(1 << 40)
	for full.inbox.Stats().Evicted == 0 {
		flood()
	}
	var slow, fast time.Duration
	for b.Loop() {
		began := time.Now()
		send()
		sent := time.Now()
		flood()
		fast, slow = fast+sent.Sub(began), slow+time.Since(sent)
	}
	b.ReportMetric(float64(slow)/float64(fast), "x-empty")
	b.ReportMetric(float64(slow.Microseconds())/float64(b.N)/batch, "µs/message")
}
