package storage

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// schemaOf lists what a database consists of.
func schemaOf(t *testing.T, c *conn) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := c.each("SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_schema", func(v []driver.Value) error {
		out[v[0].(string)] = v[1].(string)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func openFile(t *testing.T, path string) *conn {
	t.Helper()
	c, err := openConn(dsn{path: path, synchronous: "FULL"}.writer())
	if err != nil {
		t.Fatal(err)
	}
	c.watch()
	c.guard.mayCommit = true
	return c
}

// TestUpgradedEqualsFresh stops before each migration and upgrades from there.
func TestUpgradedEqualsFresh(t *testing.T) {
	t.Parallel()
	all, err := readMigrations()
	if err != nil {
		t.Fatal(err)
	}
	var fresh map[string]string
	for stop := len(all); stop >= 1; stop-- {
		dir := t.TempDir()
		path := filepath.Join(dir, FileName)
		c := openFile(t, path)
		for _, m := range all[:stop] {
			if err := c.apply(m); err != nil {
				t.Fatal(err)
			}
			c.guard.mayCommit = true
		}
		if err := c.close(); err != nil {
			t.Fatal(err)
		}
		s, err := Open(context.Background(), Options{Dir: dir, ServerName: "x"})
		if err != nil {
			t.Fatalf("upgrade after %s: %v", all[stop-1].name, err)
		}
		got := schemaOf(t, s.writer)
		if fresh == nil {
			fresh = got
		}
		if !maps.Equal(got, fresh) {
			t.Errorf("upgraded after %s, the schema differs from a fresh one", all[stop-1].name)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		backups, err := filepath.Glob(path + autoBackupInfix + "*")
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 1, false: 0}[stop < len(all)]; len(backups) != want {
			t.Errorf("upgraded after %s: backups %v, want %d", all[stop-1].name, backups, want)
		}
	}
}

// TestFailedMigration leaves the file as it was.
func TestFailedMigration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), FileName)
	c := openFile(t, path)
	good := migration{1, "0001_a.sql", "CREATE TABLE a (n INTEGER PRIMARY KEY) STRICT; CREATE TABLE b (a INTEGER REFERENCES a (n)) STRICT"}
	if err := c.apply(good); err != nil {
		t.Fatal(err)
	}
	before := schemaOf(t, c)
	for name, sql := range map[string]string{
		"syntax":       "CREATE TABLE c (n INTEGER) STRICT; CREATE TABEL d (n)",
		"foreign keys": "CREATE TABLE c (n INTEGER) STRICT; INSERT INTO b (a) VALUES (7)",
	} {
		if err := c.apply(migration{2, name, sql}); err == nil {
			t.Errorf("%s: the migration succeeded", name)
		}
		if !maps.Equal(schemaOf(t, c), before) {
			t.Errorf("%s: half of the migration stayed", name)
		}
		if v, err := c.number("PRAGMA user_version"); v != 1 || err != nil {
			t.Errorf("%s: schema version %d, %v", name, v, err)
		}
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
}

func TestAutoBackupsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(context.Background(), Options{Dir: dir, ServerName: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for n := range int64(12) {
		if err := s.backupBeforeMigration(context.Background(), 1+n); err != nil {
			t.Fatal(err)
		}
	}
	for n := range int64(12) {
		_, err := os.Stat(fmt.Sprint(s.dsn.path, autoBackupInfix, 1+n))
		if kept := err == nil; kept != (n >= 10) || err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("backup %d: kept %v, %v", 1+n, kept, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestEveryTableIsBounded reads the comment directly above each CREATE TABLE.
func TestEveryTableIsBounded(t *testing.T) {
	t.Parallel()
	all, err := readMigrations()
	if err != nil {
		t.Fatal(err)
	}
	tables := 0
	for _, m := range all {
		for _, name := range unbounded(m.sql, &tables) {
			t.Errorf("%s: the comment directly above table %s must say 'Owner:' and 'Bound:' or 'Sweeper:'", m.name, name)
		}
	}
	if tables < 5 {
		t.Errorf("only %d tables were looked at", tables)
	}
	bad := "-- a: things. Owner: me.\nCREATE TABLE a (x) STRICT;\n\n-- Owner: me. Bound: one.\n\nCREATE TABLE b (x) STRICT;"
	if got := unbounded(bad, &tables); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("of a bad file it finds %v", got)
	}
}

var createTable = regexp.MustCompile(`(?i)^\s*CREATE\s+(?:VIRTUAL\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?"?(\w+)`)

// unbounded names the tables whose comment names no owner, or neither bound nor sweeper.
func unbounded(sql string, tables *int) (names []string) {
	comment := ""
	for line := range strings.Lines(sql) {
		m := createTable.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "--"):
			comment += line
			continue
		case m != nil:
			*tables++
			if !strings.Contains(comment, "Owner:") || !strings.Contains(comment, "Bound:") && !strings.Contains(comment, "Sweeper:") {
				names = append(names, m[1])
			}
		}
		comment = ""
	}
	return names
}
