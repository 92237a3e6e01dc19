package storage

import (
	"database/sql"
	"errors"
	"fmt"
)

// statement is a registered piece of SQL. Open prepares every one of them.
type statement struct{ sql string }

var statements []*statement

func stmt(sql string) *statement {
	s := &statement{sql}
	statements = append(statements, s)
	return s
}

// rows iterates over a result: for rows.Next() { rows.Scan(…) }, then rows.Err().
type rows = sql.Rows

// query runs a SELECT of several rows. Close the rows.
func (r *Rx) query(s *statement, args ...any) (*rows, error) { return r.conn.Query(s.sql, args...) }

// row runs a SELECT of at most one row and scans it; no row is ErrNotFound.
func (r *Rx) row(s *statement, args []any, dest ...any) error {
	err := r.conn.QueryRow(s.sql, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

// exec runs a statement and returns how many rows it changed.
// A broken uniqueness rule is ErrConflict.
func (t *Tx) exec(s *statement, args ...any) (int64, error) {
	res, err := t.conn.Exec(s.sql, args...)
	if err != nil {
		return 0, fmt.Errorf("exec: %w", err)
	}
	return res.RowsAffected()
}

// insert runs an INSERT and returns the row's number.
func (t *Tx) insert(s *statement, args ...any) (int64, error) {
	res, err := t.conn.Exec(s.sql, args...)
	if err != nil {
		return 0, fmt.Errorf("insert: %w", err)
	}
	return res.LastInsertId()
}
