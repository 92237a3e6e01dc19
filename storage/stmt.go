package storage

import (
	"fmt"
)

// statement is a registered piece of SQL. Open prepares every one of them on
// the writing connection; readers prepare what they use.
type statement struct {
	sql string
	n   int
}

var statements []*statement

// stmt registers SQL. Call it for package variables only: one statement, one
// constant, beside the method that uses it.
func stmt(sql string) *statement {
	s := &statement{sql: sql, n: len(statements)}
	statements = append(statements, s)
	return s
}

// query runs a SELECT of several rows. Close the rows.
func (r *Rx) query(s *statement, args ...any) (*rows, error) {
	if err := r.usable(); err != nil {
		return nil, err
	}
	return r.conn.query(s, args)
}

// row runs a SELECT of at most one row and scans it; no row is ErrNotFound.
func (r *Rx) row(s *statement, args []any, dest ...any) (err error) {
	rows, err := r.query(s, args...)
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	if !rows.Next() {
		if rows.Err() != nil {
			return rows.Err()
		}
		return ErrNotFound
	}
	return rows.Scan(dest...)
}

// exec runs a statement and returns how many rows it changed.
// A broken uniqueness rule is ErrConflict; the unit may go on after it.
func (t *Tx) exec(s *statement, args ...any) (int64, error) {
	if err := t.usable(); err != nil {
		return 0, err
	}
	res, err := t.conn.exec(s, args)
	if err != nil {
		return 0, fmt.Errorf("exec: %w", refined(err))
	}
	return res.RowsAffected()
}

// insert runs an INSERT and returns the row's number.
// A broken uniqueness rule is ErrConflict; the unit may go on after it.
func (t *Tx) insert(s *statement, args ...any) (int64, error) {
	if err := t.usable(); err != nil {
		return 0, err
	}
	res, err := t.conn.exec(s, args)
	if err != nil {
		return 0, fmt.Errorf("insert: %w", refined(err))
	}
	return res.LastInsertId()
}
