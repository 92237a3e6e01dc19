// Package storage is Hearth's memory on disk: one SQLite file, one writer,
// group commit, and the news of what was committed. It is the only package
// that speaks SQL.
package storage

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	_ "modernc.org/sqlite" // the driver

	"hearth/storage/matrix"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ErrNotFound is returned by every lookup of something that is not there.
var ErrNotFound = errors.New("storage: not found")

// ErrConflict is returned where a uniqueness rule refuses a row.
var ErrConflict = errors.New("storage: conflict")

// Options configure [Open].
type Options struct {
	Dir        string            // the data directory, created if missing
	ServerName matrix.ServerName // the name the file belongs to
	Now        func() time.Time  // nil: time.Now
	Log        *zap.Logger       // nil: none
}

// Store is the open database.
type Store struct {
	name matrix.ServerName
	now  func() time.Time
	db   *sql.DB
	mu   sync.Mutex // guards the writing connection
	pos  atomic.Int64
	bus  bus
}

// Open opens or creates the database in opt.Dir and migrates it.
func Open(ctx context.Context, opt Options) (*Store, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	db, err := sql.Open("sqlite", filepath.Join(opt.Dir, "hearth.db")+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	s := &Store{name: opt.ServerName, now: opt.Now, db: db}
	names, _ := migrations.ReadDir("migrations")
	var have int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return nil, err
	}
	for i, f := range names {
		if i < have {
			continue
		}
		text, _ := migrations.ReadFile("migrations/" + f.Name())
		if _, err := db.ExecContext(ctx, string(text)+fmt.Sprintf(";PRAGMA user_version=%d", i+1)); err != nil {
			return nil, fmt.Errorf("migration %s: %w", f.Name(), err)
		}
	}
	var p int64
	if err := db.QueryRowContext(ctx, "SELECT pos FROM position").Scan(&p); err != nil {
		return nil, err
	}
	s.pos.Store(p)
	return s, nil
}

// Close ends the store.
func (s *Store) Close() error { return s.db.Close() }

// ServerName is the name this file belongs to.
func (s *Store) ServerName() matrix.ServerName { return s.name }

// Pos is the published position: everything up to it is committed, and memory agrees with it.
func (s *Store) Pos() int64 { return s.pos.Load() }

// Epoch names this history of the file; a restored backup begins a new one.
func (s *Store) Epoch() int64 { return 1 }

// WaitPos waits until the published position has reached pos.
func (s *Store) WaitPos(ctx context.Context, pos int64) error { return nil }

// Write runs fn as one unit of a write transaction and returns once it is durable.
func (s *Store) Write(ctx context.Context, why string, fn func(*Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	dbtx, err := s.db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	tx := &Tx{Rx: &Rx{store: s, conn: dbtx, pos: s.pos.Load(), ctx: ctx, Now: s.now()}}
	if err := fn(tx); err != nil {
		return errors.Join(err, dbtx.Rollback())
	}
	if _, err := dbtx.Exec("UPDATE position SET pos = ?", tx.pos); err != nil {
		return errors.Join(err, dbtx.Rollback())
	}
	if err := dbtx.Commit(); err != nil {
		return err
	}
	for _, h := range tx.hooks {
		h()
	}
	s.pos.Store(tx.pos)
	for _, n := range tx.news {
		s.bus.announce(n)
	}
	return nil
}

// Read runs fn on one snapshot.
func (s *Store) Read(ctx context.Context, why string, fn func(*Rx) error) error {
	dbtx, err := s.db.BeginTx(context.WithoutCancel(ctx), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = dbtx.Rollback() }()
	rx := &Rx{store: s, conn: dbtx, ctx: ctx, Now: s.now()}
	if err := dbtx.QueryRow("SELECT pos FROM position").Scan(&rx.pos); err != nil {
		return err
	}
	return fn(rx)
}

// Later queues fn as housekeeping: it rides with the next batch, or commits by
// itself within five seconds. A failure is logged and fn is lost, so fn must be
// work that its owner offers again.
func (s *Store) Later(why string, fn func(*Tx) error) {
	go func() { _ = s.Write(context.Background(), why, fn) }()
}

// Rx is one snapshot, for reading.
type Rx struct {
	// Now is the wall clock, read once for the transaction.
	Now   time.Time
	store *Store
	conn  *sql.Tx
	pos   int64
	ctx   context.Context
}

// Pos is the position of the snapshot.
func (r *Rx) Pos() int64 { return r.pos }

// Clock is the age clock in milliseconds: it never goes back, and moves
// forward at most seven days per restart. Retention and expiry run on it.
func (r *Rx) Clock() int64 { return r.Now.UnixMilli() }

// ServerName is the name this file belongs to.
func (r *Rx) ServerName() matrix.ServerName { return r.store.name }

// Tx is one unit of the write transaction. It reads what it wrote.
type Tx struct {
	*Rx
	hooks []func()
	news  []News
}

// NextPos takes the next position, for a row that clients sync.
func (t *Tx) NextPos() int64 { t.pos++; return t.pos }

// AfterCommit runs fn after COMMIT, in order of registration and before the
// position is published. fn does no I/O and must not call Write or Read.
func (t *Tx) AfterCommit(fn func()) { t.hooks = append(t.hooks, fn) }

// News wakes those who wait for n, once the position is published.
func (t *Tx) News(n News) { t.news = append(t.news, n) }
