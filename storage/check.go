package storage

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
)

// Problem is something Check found, in words for an operator.
type Problem string

// Check looks at the file as a whole, in one snapshot on a connection of its
// own: SQLite's structure, foreign keys, that no row has a position beyond the
// counter, and the states of rooms. It reads the whole file. An empty answer: all is well.
func (s *Store) Check(ctx context.Context) []Problem {
	if err := ctx.Err(); err != nil {
		return []Problem{Problem(err.Error())}
	}
	c, err := openConn(s.dsn.reader())
	if err != nil {
		return []Problem{Problem("cannot be opened: " + err.Error())}
	}
	found, err := c.check()
	if err := errors.Join(err, c.close()); err != nil {
		found = append(found, Problem("cannot be checked: "+err.Error()))
	}
	return found
}

// check runs every check of one snapshot.
func (c *conn) check() (found []Problem, err error) {
	note := func(format string, args ...any) { found = append(found, Problem(fmt.Sprintf(format, args...))) }
	if err := c.run("BEGIN"); err != nil {
		return nil, err
	}
	err = errors.Join(
		c.each("PRAGMA integrity_check(20)", func(v []driver.Value) error {
			if v[0] != "ok" {
				note("integrity: %v", v[0])
			}
			return nil
		}),
		c.each("PRAGMA foreign_key_check", func(v []driver.Value) error {
			note("row %v of %v refers to a row of %v that is not there", v[1], v[0], v[2])
			return nil
		}),
		c.each("SELECT count(*), min(epoch) <> 0, max(new_epoch) FROM position", func(v []driver.Value) error {
			if v[0] != int64(1) || v[1] != int64(1) || v[2] != int64(0) {
				note("position: %v rows, epoch set: %v, new epoch wanted: %v", v[0], v[1], v[2])
			}
			return nil
		}),
		c.checkPositions(note),
		c.checkState(note),
		c.checkRooms(note),
	)
	return found, errors.Join(err, c.run("ROLLBACK"))
}

// checkPositions finds rows beyond the counter, in every table that has positions.
func (c *conn) checkPositions(note func(string, ...any)) error {
	var tables []string
	err := c.each(`SELECT m.name FROM sqlite_schema m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND c.name = 'pos' AND m.name <> 'position'`, func(v []driver.Value) error {
		tables = append(tables, fmt.Sprint(v[0]))
		return nil
	})
	if err != nil {
		return err
	}
	limit, err := c.number("SELECT pos FROM position")
	if err != nil {
		return err
	}
	for _, t := range tables {
		highest, err := c.number(`SELECT coalesce(max(pos), 0) FROM "` + t + `"`)
		if err != nil {
			return err
		}
		if highest > limit {
			note("%s has position %d, the counter stands at %d", t, highest, limit)
		}
	}
	return nil
}
