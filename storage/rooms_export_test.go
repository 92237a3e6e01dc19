package storage

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Texts runs a query of one column on a connection of its own, and joins what
// it finds by lines.
func (s *Store) Texts(tb testing.TB, sql string) string {
	tb.Helper()
	c, err := openConn(s.dsn.reader())
	if err != nil {
		tb.Fatal(err)
	}
	var lines []string
	err = c.each(sql, func(v []driver.Value) error {
		lines = append(lines, fmt.Sprint(v[0]))
		return nil
	})
	if err := errors.Join(err, c.close()); err != nil {
		tb.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// Break runs SQL on the writing connection, as no unit would.
func (s *Store) Break(tb testing.TB, sql string) {
	tb.Helper()
	err := s.exclusive(background, func() error {
		s.writer.guard.mayCommit = true
		defer func() { s.writer.guard.mayCommit = false }()
		return s.writer.run(sql)
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// PurgeSome is one step of the sweeper of purged rooms.
func (t *Tx) PurgeSome(limit int) (int, error) { return t.sweepPurgedRooms(limit) }
