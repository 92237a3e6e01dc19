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

// TakeDump reads every table of the database file in dir, which may be open
// elsewhere. Columns named in except, as "table.column" or "table.*", are left
// out: those that move by themselves.
func TakeDump(tb testing.TB, dir string, except ...string) Dump {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(dir, "hearth.db"))+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		tb.Fatalf("dump: %v", err)
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(tb.Context(), &sql.TxOptions{ReadOnly: true}) // one snapshot for all tables
	if err != nil {
		tb.Fatalf("dump: %v", err)
	}
	defer func() { _ = tx.Rollback() }()
	d := Dump{}
	for _, column := range texts(tb, tx, `SELECT m.name || '.' || c.name FROM sqlite_schema m, pragma_table_info(m.name) c
		WHERE m.type = 'table' ORDER BY m.name, c.cid`) {
		table, _, _ := strings.Cut(column, ".")
		if !slices.Contains(except, column) && !slices.Contains(except, table+".*") {
			d[table] += `,quote("` + strings.TrimPrefix(column, table+".") + `")`
		}
	}
	for table, columns := range d {
		h := sha256.New()
		for _, row := range texts(tb, tx, `SELECT concat_ws(',', `+columns[1:]+`) AS row FROM "`+table+`" ORDER BY row`) {
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

// texts runs a query of one text column.
func texts(tb testing.TB, tx *sql.Tx, query string) []string {
	tb.Helper()
	rows, err := tx.QueryContext(tb.Context(), query)
	if err != nil {
		tb.Fatalf("dump: %v", err)
	}
	defer func() { _ = rows.Close() }()
	var list []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			tb.Fatalf("dump: %v", err)
		}
		list = append(list, s)
	}
	if err := rows.Err(); err != nil {
		tb.Fatalf("dump: %v", err)
	}
	return list
}
