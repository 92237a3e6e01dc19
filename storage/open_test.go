package storage_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hearth/storage"
	"hearth/storage/storagetest"
)

func TestOneStorePerDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := storagetest.OpenDir(t, dir)
	_, err := storage.Open(t.Context(), storage.Options{Dir: dir, ServerName: storagetest.ServerName})
	if !errors.Is(err, storage.ErrLocked) {
		t.Fatalf("a second store of the directory: %v", err)
	}
	if !regexp.MustCompile(`by process \d+`).MatchString(err.Error()) || !strings.Contains(err.Error(), dir) {
		t.Errorf("the error does not say who has what: %v", err)
	}
	put(t, s, 0)
	reopen(t, s, dir)
}

func TestServerNameBelongsToTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := storagetest.OpenDir(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := storage.Open(t.Context(), storage.Options{Dir: dir, ServerName: "other.example"})
	if !errors.Is(err, storage.ErrServerName) {
		t.Errorf("another name: %v", err)
	}
	s = storagetest.OpenDir(t, dir, func(o *storage.Options) { o.ServerName = "" })
	if s.ServerName() != storagetest.ServerName {
		t.Errorf("the file's name is %q", s.ServerName())
	}
}

func TestRefusesFilesOfOthers(t *testing.T) {
	t.Parallel()
	open := func(dir string) error {
		s, err := storage.Open(context.Background(), storage.Options{Dir: dir, ServerName: storagetest.ServerName})
		if err == nil {
			return s.Close()
		}
		return err
	}
	dir := t.TempDir()
	if err := open(dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, storage.FileName)
	storage.EditRaw(t, file, "PRAGMA user_version = 9999")
	if err := open(dir); !errors.Is(err, storage.ErrNewer) {
		t.Errorf("a newer file: %v", err)
	}
	foreign := t.TempDir()
	storage.EditRaw(t, filepath.Join(foreign, storage.FileName), "CREATE TABLE t (x)")
	if err := open(foreign); err == nil {
		t.Error("another program's database was opened")
	}
	text := t.TempDir()
	if err := os.WriteFile(filepath.Join(text, storage.FileName), []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(text); err == nil {
		t.Error("a text file was opened")
	}
}

// TestCheckFinds damages a file in the ways that Check looks for.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	for what, sql := range map[string]string{
		"the counter stands at 0":    "UPDATE position SET pos = 0",
		"refers to a row":            "PRAGMA foreign_keys = OFF; INSERT INTO child VALUES (77)",
		"new epoch wanted: 1":        "UPDATE position SET new_epoch = 1",
		"epoch set: 0":               "UPDATE position SET epoch = 0",
		"position: 0 rows":           "DELETE FROM position",
		"integrity: wrong # of entr": "PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'sqlite_autoindex_meta_1'",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, err := storage.Open(t.Context(), storage.Options{Dir: t.TempDir(), ServerName: storagetest.ServerName})
			if err != nil {
				t.Fatal(err)
			}
			if found := s.Check(t.Context()); len(found) > 0 {
				t.Fatalf("a good file: %v", found)
			}
			s.AddPositionedTable(t)
			storage.EditRaw(t, s.Path(), sql)
			var all string
			for _, p := range s.Check(t.Context()) {
				all += string(p) + "\n"
			}
			if !strings.Contains(all, what) {
				t.Errorf("found %q, want %q", all, what)
			}
			if err := s.Abort(); err != nil {
				t.Error(err)
			}
		})
	}
}
