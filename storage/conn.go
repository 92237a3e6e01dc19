package storage

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// background is the context of every statement. A cancellable one costs a
// goroutine per statement, and an interrupted statement may roll back a whole
// batch, so no caller's context ever reaches the driver.
var background = context.Background()

// rawConn is what the driver's connection offers and this package uses.
// database/sql is left out: on the hot path it costs a quarter to a third.
type rawConn interface {
	driver.Conn
	driver.ExecerContext
	driver.QueryerContext
	RegisterCommitHook(sqlite.CommitHookFn)
	RegisterRollbackHook(sqlite.RollbackHookFn)
	NewBackup(dsn string) (*sqlite.Backup, error)
}

// conn is one connection with its prepared statements. One goroutine at a time
// uses it.
type conn struct {
	raw   rawConn
	stmts []*prepared         // by statement number, filled at first use
	args  []driver.NamedValue // reused from call to call
	open  map[*rows]struct{}  // results that were not closed yet
	dirty bool                // a statement of the transaction may have changed something
	dead  error               // the error after which the running unit may not go on
	guard *guard              // writer only
}

// guard watches the writing connection's transaction from inside SQLite.
type guard struct {
	mayCommit  bool // COMMIT is refused unless the leader asked for it
	rolledBack bool // the transaction ended in a rollback since BEGIN
}

// prepared is a statement compiled for one connection.
type prepared struct {
	stmt interface {
		driver.StmtExecContext
		driver.StmtQueryContext
		Close() error
	}
	busy bool // its rows are being read
}

func openConn(dsn string) (*conn, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	raw, err := connector.Connect(background)
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw.(rawConn), open: map[*rows]struct{}{}}, nil
}

// watch installs the guard. From here on nothing commits on c but the leader's
// own COMMIT: where SQLite has rolled the transaction back by itself, a
// statement that follows would otherwise commit alone.
func (c *conn) watch() {
	g := &guard{}
	c.guard = g
	c.raw.RegisterCommitHook(func() int32 {
		if g.mayCommit {
			return 0
		}
		return 1
	})
	c.raw.RegisterRollbackHook(func() { g.rolledBack = true })
}

// close ends the connection. SQLite rolls back what is open on it.
func (c *conn) close() error {
	var errs []error
	for r := range c.open {
		errs = append(errs, r.Close())
	}
	for _, p := range c.stmts {
		if p != nil {
			errs = append(errs, p.stmt.Close())
		}
	}
	c.stmts = nil
	return errors.Join(append(errs, c.raw.Close())...)
}

// run executes SQL text that is not worth preparing.
func (c *conn) run(sql string) error {
	_, err := c.raw.ExecContext(background, sql, nil)
	return err
}

// number reads one integer by SQL text that is not worth preparing.
func (c *conn) number(sql string) (n int64, err error) {
	err = c.each(sql, func(v []driver.Value) error {
		got, ok := v[0].(int64)
		if !ok {
			return fmt.Errorf("%s: %v is not an integer", sql, v[0])
		}
		n = got
		return nil
	})
	return n, err
}

// each calls fn with every row of SQL text that is not worth preparing.
func (c *conn) each(sql string, fn func([]driver.Value) error) (err error) {
	r, err := c.raw.QueryContext(background, sql, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	vals := make([]driver.Value, len(r.Columns()))
	for {
		switch err := r.Next(vals); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := fn(vals); err != nil {
			return err
		}
	}
}

func (c *conn) prepare(sql string) (*prepared, error) {
	st, err := c.raw.Prepare(sql)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", sql, err)
	}
	p := &prepared{}
	p.stmt = st.(interface {
		driver.StmtExecContext
		driver.StmtQueryContext
		Close() error
	})
	return p, nil
}

// prepareAll compiles every registered statement, so that a typo stops the
// program at its start.
func (c *conn) prepareAll() error {
	var errs []error
	for _, s := range statements {
		_, err := c.statement(s)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *conn) statement(s *statement) (*prepared, error) {
	if c.stmts == nil {
		c.stmts = make([]*prepared, len(statements))
	}
	if p := c.stmts[s.n]; p != nil {
		return p, nil
	}
	p, err := c.prepare(s.sql)
	if err != nil {
		return nil, err
	}
	c.stmts[s.n] = p
	return p, nil
}

// exec runs a registered statement to its end.
func (c *conn) exec(s *statement, args []any) (driver.Result, error) {
	p, err := c.ready(s, args)
	if err != nil {
		return nil, err
	}
	if p.busy {
		return nil, fmt.Errorf("%q runs while its own rows are being read", s.sql)
	}
	c.dirty = true
	res, err := p.stmt.ExecContext(background, c.args)
	return res, c.note(err)
}

// query runs a registered SELECT. A statement whose earlier rows are still
// being read is compiled a second time.
func (c *conn) query(s *statement, args []any) (*rows, error) {
	p, err := c.ready(s, args)
	if err != nil {
		return nil, err
	}
	spare := p.busy
	if spare {
		if p, err = c.prepare(s.sql); err != nil {
			return nil, c.note(err)
		}
	}
	dr, err := p.stmt.QueryContext(background, c.args)
	if err != nil {
		if spare {
			err = errors.Join(err, p.stmt.Close())
		}
		return nil, c.note(err)
	}
	p.busy = true
	r := &rows{c: c, p: p, spare: spare, rows: dr, vals: make([]driver.Value, len(dr.Columns()))}
	c.open[r] = struct{}{}
	return r, nil
}

func (c *conn) ready(s *statement, args []any) (*prepared, error) {
	if c.dead != nil {
		return nil, c.dead
	}
	p, err := c.statement(s)
	if err != nil {
		return nil, c.note(err)
	}
	return p, c.bind(args)
}

// note looks at a statement's error. After some of them SQLite may have rolled
// back the statement, the savepoint or the whole transaction; which, is the
// leader's business: the unit itself may run no further statement.
func (c *conn) note(err error) error {
	if err == nil {
		return nil
	}
	if poisonous(err) || c.guard != nil && c.guard.rolledBack {
		c.dead = err
	}
	return err
}

// closeRows closes results that a unit left open.
func (c *conn) closeRows() error {
	var errs []error
	for r := range c.open {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// code is the SQLite result code of err, extended; 0 where err is not SQLite's.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// poisonous tells whether SQLite may have ended the transaction with err.
// SQLite documentation, "Automatic Rollback"; BUSY and the constraint codes
// leave a transaction as it was.
func poisonous(err error) bool {
	switch code(err) & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT,
		sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_INTERNAL, sqlite3.SQLITE_ABORT:
		return true
	}
	return false
}

// refined turns a broken uniqueness rule into ErrConflict.
func refined(err error) error {
	switch code(err) {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID:
		return fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return err
}
