package storage_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hearth/storage"
	"hearth/storage/storagetest"
)

// write commits test row n as one unit.
func write(s *storage.Store, n int64) error {
	return s.Write(context.Background(), "put", func(tx *storage.Tx) error { return tx.Put(n, "v") })
}

func put(t testing.TB, s *storage.Store, n int64) {
	t.Helper()
	if err := write(s, n); err != nil {
		t.Errorf("put %d: %v", n, err)
	}
}

// fill writes n large rows with negative numbers, which rowsFrom0 leaves out.
func fill(t testing.TB, s *storage.Store, n int64, size int) {
	t.Helper()
	value := strings.Repeat("x", size)
	err := s.Write(context.Background(), "fill", func(tx *storage.Tx) error {
		for i := range n {
			if err := tx.Put(-1-i, value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// rowsFrom0 counts the test rows 0, 1, 2 …, which must have no gap.
func rowsFrom0(t testing.TB, s *storage.Store) (n int64) {
	t.Helper()
	for i, name := range names(t, s) {
		if want := int64(i); name != want {
			t.Errorf("row %d is missing", want)
			break
		}
		n++
	}
	return n
}

// names lists the numbers, from 0 on, of the test rows.
func names(t testing.TB, s *storage.Store) (out []int64) {
	t.Helper()
	err := s.Read(context.Background(), "test", func(rx *storage.Rx) error {
		all, _, err := rx.Values()
		for _, n := range all {
			if !strings.HasPrefix(n, "-") {
				out = append(out, number(t, n))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func reopen(t testing.TB, s *storage.Store, dir string, opts ...storagetest.Option) *storage.Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return storagetest.OpenDir(t, dir, opts...)
}

func number(t testing.TB, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// copyFiles copies a database and its log as they are, the way a crash leaves
// them. What SQLite keeps in shared memory dies with a process.
func copyFiles(t testing.TB, from, to string) {
	t.Helper()
	for _, name := range []string{storage.FileName, storage.FileName + "-wal"} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// wait lets a second pass on the clock of a synctest bubble.
func wait(t testing.TB) {
	t.Helper()
	timer := time.NewTimer(time.Second)
	<-timer.C
}
