package storagetest

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver
)

// Dump is what the tables of a database hold: a hash per table. Two dumps are
// equal where nothing was stored between them.
type Dump map[string]string

// Watch reads a database file that is open elsewhere, over a connection of its
// own, to tell what was stored between two moments.
type Watch struct {
	tb      testing.TB
	conn    *sql.Conn
	except  []string
	version string // of the file, as SQLite counts the commits of others
	last    Dump
}

// NewWatch watches the database file in dir until the test ends. Columns named
// in except, as "table.column" or "table.*", are left out of dumps: those that
// move by themselves.
func NewWatch(tb testing.TB, dir string, except ...string) *Watch {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(dir, "hearth.db"))+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		tb.Fatalf("dump: %v", err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(tb.Context())
	if err != nil {
		tb.Fatalf("dump: %v", err)
	}
	return &Watch{tb: tb, conn: conn, except: except}
}

// Take reads every table, unless nothing at all was committed since it last did.
func (w *Watch) Take() Dump {
	w.tb.Helper()
	version := w.texts("PRAGMA data_version")[0]
	if version == w.version {
		return w.last
	}
	// The version first: what is committed while the tables are read makes the
	// next Take read them again.
	w.version, w.last = version, w.read()
	return w.last
}

func (w *Watch) read() Dump {
	w.tb.Helper()
	// One statement at a time, not one snapshot: PRAGMA data_version cannot tell
	// of commits inside one. What is committed in between is found by the next.
	d := Dump{}
	for _, column := range w.texts(`SELECT m.name || '.' || c.name FROM sqlite_schema m, pragma_table_info(m.name) c
		WHERE m.type = 'table' ORDER BY m.name, c.cid`) {
		table, _, _ := strings.Cut(column, ".")
		if !slices.Contains(w.except, column) && !slices.Contains(w.except, table+".*") {
			d[table] += `,quote("` + strings.TrimPrefix(column, table+".") + `")`
		}
	}
	for table, columns := range d {
		h := sha256.New()
		for _, row := range w.texts(`SELECT concat_ws(',', ` + columns[1:] + `) AS row FROM "` + table + `" ORDER BY row`) {
			_, _ = fmt.Fprintln(h, row)
		}
		d[table] = hex.EncodeToString(h.Sum(nil))
	}
	return d
}

// Changed names the tables that differ between two dumps.
func (d Dump) Changed(later Dump) []string {
	var changed []string
	for table, hash := range later {
		if d[table] != hash {
			changed = append(changed, table)
		}
	}
	slices.Sort(changed)
	return changed
}

// texts runs a query of one column.
func (w *Watch) texts(query string) []string {
	w.tb.Helper()
	rows, err := w.conn.QueryContext(w.tb.Context(), query)
	if err != nil {
		w.tb.Fatalf("dump: %v", err)
	}
	defer func() { _ = rows.Close() }()
	var list []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			w.tb.Fatalf("dump: %v", err)
		}
		list = append(list, s)
	}
	if err := rows.Err(); err != nil {
		w.tb.Fatalf("dump: %v", err)
	}
	return list
}
