package storagetest

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
)

// Sizes are the bytes that each table and index takes in the database file in
// dir, which may be open elsewhere. Under "" stand those that are free.
func Sizes(tb testing.TB, dir string) map[string]int64 {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(dir, "hearth.db"))+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		tb.Fatalf("sizes: %v", err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(context.Background(), `SELECT name, sum(pgsize) FROM dbstat GROUP BY name
		UNION ALL SELECT '', freelist_count * page_size FROM pragma_freelist_count, pragma_page_size`)
	if err != nil {
		tb.Fatalf("sizes: %v", err)
	}
	defer func() { _ = rows.Close() }()
	sizes := map[string]int64{}
	for rows.Next() {
		var name string
		var bytes int64
		if err := rows.Scan(&name, &bytes); err != nil {
			tb.Fatalf("sizes: %v", err)
		}
		sizes[name] = bytes
	}
	if err := rows.Err(); err != nil {
		tb.Fatalf("sizes: %v", err)
	}
	return sizes
}
