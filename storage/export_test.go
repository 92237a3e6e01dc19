package storage

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// What tests from outside the package may reach into.

// Rows that tests write: one per number, with some bytes.
var (
	testInsert = stmt(`INSERT INTO meta (name, value) VALUES ('test ' || ?, ?)`)
	testOrEnd  = stmt(`INSERT OR ROLLBACK INTO meta (name, value) VALUES ('test ' || ?, 'v')`)
	testMany   = stmt(`WITH RECURSIVE n (n) AS (VALUES (?1) UNION ALL SELECT n + 1 FROM n WHERE n < ?1 + ?2)
		INSERT INTO meta (name, value) SELECT 'test ' || n, hex(zeroblob(1000)) FROM n`)
	testCount = stmt(`SELECT count(*) FROM meta WHERE name LIKE 'test %'`)
	testList  = stmt(`SELECT name, value FROM meta WHERE name LIKE 'test %' ORDER BY CAST(substr(name, 6) AS INTEGER)`)
	testBad   = stmt(`INSERT INTO meta (name, value) VALUES (?, NULL)`)
)

// Put inserts test row n.
func (t *Tx) Put(n int64, value string) error {
	_, err := t.insert(testInsert, n, value)
	return err
}

// PutOrRollback inserts test row n, and ends the transaction if it is there.
func (t *Tx) PutOrRollback(n int64) error {
	_, err := t.exec(testOrEnd, n)
	return err
}

// PutMany inserts many rows, from n on, by one statement.
func (t *Tx) PutMany(n, count int64) error {
	_, err := t.exec(testMany, n, count)
	return err
}

// LimitPages lets the file grow by so many pages.
func (s *Store) LimitPages(tb testing.TB, more int64) {
	tb.Helper()
	err := s.exclusive(background, func() error {
		have, err := s.writer.number("PRAGMA page_count")
		if err != nil {
			return err
		}
		return s.writer.run(fmt.Sprint("PRAGMA max_page_count = ", have+more))
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// PutBad breaks a rule that is not uniqueness.
func (t *Tx) PutBad() error {
	_, err := t.exec(testBad, "x")
	return err
}

// Count counts test rows.
func (r *Rx) Count() (n int64, err error) {
	return n, r.row(testCount, nil, &n)
}

// Values reads the test rows in order of their numbers.
func (r *Rx) Values() (names, values []string, err error) {
	rows, err := r.query(testList)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var n, v string
		if err := rows.Scan(&n, &v); err != nil {
			return nil, nil, err
		}
		names, values = append(names, strings.TrimPrefix(n, "test ")), append(values, v)
	}
	return names, values, rows.Err()
}

// LeakRows leaves a result open, as a forgotten Close does.
func (r *Rx) LeakRows() error {
	rows, err := r.query(testList)
	if err != nil {
		return err
	}
	rows.Next()
	return nil
}

// Synchronous opens the file with another setting than FULL.
func Synchronous(o *Options, v string) { o.synchronous = v }

// SmallCache makes SQLite write the log before COMMIT after a few rows.
func SmallCache(o *Options) { o.cacheKiB = 64 }

// BoundWAL sets another bound of the log.
func (s *Store) BoundWAL(bytes int64) { s.walBound = bytes }

// OnDeath has fn called instead of the process ending.
func (s *Store) OnDeath(fn func(any)) { s.die = fn }

// WaitQueued waits until n callers wait behind the leader.
func (s *Store) WaitQueued(n int) {
	for {
		s.queue.mu.Lock()
		got := len(s.queue.waiting)
		s.queue.mu.Unlock()
		if got >= n {
			return
		}
		runtime.Gosched()
	}
}

// Batch runs units as one batch, in order, and returns their results.
func (s *Store) Batch(units ...func(*Tx) error) []error {
	errs := make([]error, len(units))
	answered := make(chan struct{}, len(units))
	err := s.exclusive(background, func() error {
		for i, fn := range units {
			go func() {
				defer func() { answered <- struct{}{} }()
				errs[i] = s.Write(background, fmt.Sprint("unit ", i), fn)
			}()
			s.WaitQueued(i + 1)
		}
		return nil
	})
	for range units {
		<-answered
	}
	if err != nil {
		return []error{err}
	}
	return errs
}

// BatchUnwinding is Batch for units that may panic or exit: left holds what
// unwound each caller, as recover gives it, or "exit".
func (s *Store) BatchUnwinding(units ...func(*Tx) error) (errs []error, left []any) {
	errs, left = make([]error, len(units)), make([]any, len(units))
	var wg sync.WaitGroup
	_ = s.exclusive(background, func() error {
		for i, fn := range units {
			wg.Add(1)
			go func() {
				defer wg.Done()
				returned := false
				defer func() {
					if v := recover(); v != nil {
						left[i] = v
					} else if !returned {
						left[i] = "exit"
					}
				}()
				errs[i] = s.Write(background, "unit", fn)
				returned = true
			}()
			s.WaitQueued(i + 1)
		}
		return nil
	})
	wg.Wait()
	return errs, left
}

// Topics is how many topics somebody waits for.
func (s *Store) Topics() int {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	return len(s.bus.topics)
}

// Path is the database file.
func (s *Store) Path() string { return s.dsn.path }

// EditRaw runs SQL on a file behind the store's back.
func EditRaw(tb testing.TB, path, sql string) {
	tb.Helper()
	c, err := openConn(dsn{path: path}.name("_busy_timeout=5000"))
	if err != nil {
		tb.Fatal(err)
	}
	if err := errors.Join(c.run(sql), c.close()); err != nil {
		tb.Fatal(err)
	}
}

// AddPositionedTable adds a table with a row that has the current position, and
// one that refers to it.
func (s *Store) AddPositionedTable(tb testing.TB) {
	tb.Helper()
	EditRaw(tb, s.dsn.path, "CREATE TABLE positioned (pos INTEGER PRIMARY KEY) STRICT; INSERT INTO positioned SELECT pos FROM position;"+
		"CREATE TABLE child (parent INTEGER REFERENCES positioned (pos)) STRICT")
}

// SetAside is the last step of Restore but one.
var SetAside = setAside
