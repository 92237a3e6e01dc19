// Package storage is Hearth's memory on disk: one SQLite file, one writer,
// group commit, and the news of what was committed. It is the only package
// that speaks SQL, and it knows nothing of HTTP or of other homeservers.
package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"modernc.org/sqlite"

	"hearth/storage/matrix"
)

// ErrNotFound is returned by every lookup of something that is not there.
var ErrNotFound = errors.New("storage: not found")

// ErrConflict is returned where a uniqueness rule refuses a row.
var ErrConflict = errors.New("storage: conflict")

// FileName is the database's name in the data directory. The write-ahead log
// and its index lie beside it while a server runs.
const FileName = "hearth.db"

// Options configure [Open].
type Options struct {
	Dir        string               // the data directory, created if missing (mode 0700)
	ServerName matrix.ServerName    // the name the file belongs to
	Now        func() time.Time     // the wall clock; nil: time.Now
	Mono       func() time.Duration // the steady clock under the age clock; nil: the process's own
	Log        *zap.Logger          // nil: none
	VFS        string               // for tests: the SQLite VFS that carries the file; empty: the system's

	// Strict, for tests, has every Write and Read look whether it is inside
	// another, and panic; otherwise only those look that have to wait.
	Strict bool

	synchronous string // for a test that shows why it is FULL
	cacheKiB    int    // for tests that make SQLite write before COMMIT
}

// Store is the open database.
type Store struct {
	name   matrix.ServerName
	dsn    dsn
	now    func() time.Time
	log    *zap.Logger
	strict bool
	lock   *dirLock
	age    ageClock
	epoch  int64
	die    func(cause any) // ends the process

	queue    queue
	writer   *conn // the leader's; nil: to be opened by the next batch
	readers  *readers
	position position
	bus      bus
	sweepers sweepers
	count    counters
	backup   *liveBackup // the leader's
	walBound int64       // from which size on the leader resets the log
	blamed   time.Time   // the leader's: the long read that was logged last, by its start
	degraded atomic.Bool
	closing  chan struct{} // closed when Close begins
	closed   chan struct{} // closed when Close is done
}

// Open opens or creates the database in opt.Dir, alone: another process that
// has it open is an error that names it. It migrates the file (after a backup
// beside it), begins a new epoch where the file was a backup, and prepares
// every statement.
func Open(ctx context.Context, opt Options) (*Store, error) {
	s := newStore(opt)
	if err := makeDir(opt.Dir); err != nil {
		return nil, err
	}
	var err error
	if s.lock, err = lockDir(opt.Dir); err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		s.discard()
		return nil, errors.Join(err, s.lock.release())
	}
	return s, nil
}

func newStore(opt Options) *Store {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Mono == nil {
		opt.Mono = monotonic()
	}
	if opt.Log == nil {
		opt.Log = zap.NewNop()
	}
	if opt.synchronous == "" {
		opt.synchronous = "FULL"
	}
	// Process-wide. Record locks of the other kind vanish when anybody closes
	// any descriptor of the file; a commit waits for its data, not for a
	// timestamp. Both are refused where the system lacks them.
	_, _ = sqlite.OFDLocking(true)
	_, _ = sqlite.Fdatasync(true)
	s := &Store{
		name:     opt.ServerName,
		dsn:      dsn{path: filepath.Join(opt.Dir, FileName), vfs: opt.VFS, synchronous: opt.synchronous, cacheKiB: opt.cacheKiB},
		now:      opt.Now,
		log:      opt.Log.Named("storage"),
		strict:   opt.Strict,
		age:      ageClock{now: opt.Now, mono: opt.Mono},
		die:      die,
		walBound: walBound,
		closing:  make(chan struct{}),
		closed:   make(chan struct{}),
	}
	s.ownSweeps()
	s.roomSweeps()
	return s
}

func (s *Store) open(ctx context.Context) error {
	if err := s.prepareFile(); err != nil {
		return err
	}
	if err := s.reopen(); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	if err := s.writer.prepareAll(); err != nil {
		return err
	}
	if err := s.load(); err != nil {
		return err
	}
	n := max(2, runtime.GOMAXPROCS(0))
	var err error
	s.readers, err = openReaders(s.dsn.reader(), n)
	return err
}

// Close flushes housekeeping, waits for units and reads that run, and closes
// the file. Later calls of anything return ErrClosed.
func (s *Store) Close() error { return s.close(s.flush) }

// Abort is Close without the last words: housekeeping that waits is lost, as in
// a crash. For tests.
func (s *Store) Abort() error { return s.close(func() error { return nil }) }

func (s *Store) close(flush func() error) error {
	last := &unit{signal: make(chan signal, 1)}
	if !s.queue.close(last) {
		<-s.closed
		return nil
	}
	defer close(s.closed)
	close(s.closing)
	<-last.signal // the slot is ours, and stays
	err := errors.Join(flush(), s.readers.close())
	s.discard()
	return errors.Join(err, s.lock.release())
}

// flush commits what waits, and the age clock with it.
func (s *Store) flush() error {
	if s.degraded.Load() {
		return nil
	}
	for first := true; first || s.queue.laterWaits(); first = false {
		b, err := s.begin()
		if err != nil {
			return fmt.Errorf("last commit: %w", err)
		}
		b.dirty = true
		b.finish()
		if b.lost != nil {
			return fmt.Errorf("last commit: %w", b.lost)
		}
	}
	return nil
}

// ServerName is the name this file belongs to.
func (s *Store) ServerName() matrix.ServerName { return s.name }

// die ends the process where nobody can recover it: on a goroutine of its own.
func die(cause any) {
	go panic(cause)
	select {}
}
