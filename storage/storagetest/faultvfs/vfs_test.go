package faultvfs

import (
	"database/sql"
	"path/filepath"
	"sync"
	"testing"

	_ "modernc.org/sqlite" // the driver
)

func TestImageHoldsWhatWasSynced(t *testing.T) {
	v, err := New()
	if err != nil {
		t.Fatal(err)
	}
	v.Record(true)
	dir := t.TempDir()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "a.db")+"?vfs="+v.Name()+"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec("CREATE TABLE t (x); INSERT INTO t VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	v.FailNext(func(c Call) bool { return c.Op == Sync && c.WAL() }, 0, 1, SyncError)
	if _, err := db.Exec("INSERT INTO t VALUES (2)"); err == nil {
		t.Fatal("a refused sync was not noticed")
	}
	v.OnCall(nil)
	image := t.TempDir()
	if err := v.Image(image, v.Mark()); err != nil {
		t.Fatal(err)
	}
	got, err := sql.Open("sqlite", filepath.Join(image, "a.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Close() }()
	var n int
	if err := got.QueryRow("SELECT count(*) FROM t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n != 1 {
		t.Fatalf("the image has %d rows, want 1", n)
	}
}

// TestNewAtOnce registers file systems side by side, as parallel tests do; the
// race detector judges.
func TestNewAtOnce(t *testing.T) {
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			v, err := New()
			if err != nil {
				t.Error(err)
			} else if Named(v.Name()) != v {
				t.Errorf("%s is not found by its name", v.Name())
			}
		})
	}
	wg.Wait()
}
