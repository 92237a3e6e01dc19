package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"hearth/storage/matrix"
)

var (
	beginDeferred = stmt(`BEGIN`)
	endRead       = stmt(`COMMIT`)
)

// slowRead is how long a snapshot may be held before the log names its holder:
// while it is, the WAL cannot be reset.
const slowRead = 2 * time.Second

// Read runs fn on one snapshot. ctx governs only the wait for a connection.
// There are about as many connections as cores, so fn must not wait for
// anything, nor call Read or Write, nor write to a client.
//
// why labels logs and metrics; it is a constant.
func (s *Store) Read(ctx context.Context, why string, fn func(*Rx) error) error {
	if s.strict {
		refuseNested(unitEntry, readEntry)
	}
	c, err := s.readers.take(ctx, s.closing, nil)
	if err != nil {
		return err
	}
	s.count.reads.Add(1)
	began := time.Now()
	c.hold(why, began)
	defer func() {
		s.readers.put(c)
		if took := time.Since(began); took > slowRead {
			s.log.Warn("a read held its snapshot for long", zap.String("why", why), zap.Duration("took", took))
		}
	}()
	if _, err := c.exec(beginDeferred, nil); err != nil {
		return fmt.Errorf("read %s: %w", why, err)
	}
	rx := s.newRx(c.conn)
	var epoch, age int64
	if err := rx.row(readPosition, nil, &rx.pos, &epoch, &age); err != nil {
		return fmt.Errorf("read %s: %w", why, err)
	}
	return rx.run(fn)
}

// Point is Read for one or two look-ups by key, authentication above all. It
// has a connection of its own beside the pool, so that a burst of long reads
// never locks everybody out, and it saves the transaction: each statement sees
// a snapshot of its own, and Rx.Pos is the published position at the start.
func (s *Store) Point(ctx context.Context, why string, fn func(*Rx) error) error {
	if s.strict {
		refuseNested(unitEntry, readEntry)
	}
	c, err := s.readers.take(ctx, s.closing, s.readers.point)
	if err != nil {
		return err
	}
	c.hold(why, time.Now())
	s.count.reads.Add(1)
	defer s.readers.put(c)
	rx := s.newRx(c.conn)
	rx.pos = s.Pos()
	return rx.run(fn)
}

// Rx is one snapshot, for reading.
type Rx struct {
	// Now is the wall clock, read once for the transaction.
	Now   time.Time
	store *Store
	conn  *conn
	pos   int64
	clock int64
	over  bool

	lastRoom    RoomNum // whose version is lastVersion
	lastVersion *matrix.Version
}

func (s *Store) newRx(c *conn) *Rx {
	age, _ := s.age.read()
	return &Rx{store: s, conn: c, Now: s.now(), clock: age}
}

// run calls fn. It is never inlined, so that refuseNested finds it on the stack.
//
//go:noinline
func (r *Rx) run(fn func(*Rx) error) error {
	defer func() { r.over = true }()
	return fn(r)
}

func (r *Rx) usable() error {
	if r.over {
		return errors.New("storage: a transaction was used after its end")
	}
	return nil
}

// Pos is the position of the snapshot. In a unit it is the last position handed out.
func (r *Rx) Pos() int64 { return r.pos }

// Epoch is the epoch the positions of this snapshot belong to.
func (r *Rx) Epoch() int64 { return r.store.epoch }

// Clock is the age clock in milliseconds: it never goes back, runs with the
// monotonic clock, and moves forward at most seven days per restart. Retention
// and expiry of durable things run on it. It is not the time of day.
func (r *Rx) Clock() int64 { return r.clock }

// ServerName is the name this file belongs to.
func (r *Rx) ServerName() matrix.ServerName { return r.store.name }
