//go:build unix

package storage_test

import (
	"os"
	"path/filepath"
	"testing"

	"hearth/storage"
	"hearth/storage/storagetest"
)

// Only whoever runs the server may read what it keeps.
func TestModes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "data")
	s := storagetest.OpenDir(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, storage.FileName), 0o644); err != nil { // as a copy may be
		t.Fatal(err)
	}
	s = storagetest.OpenDir(t, dir)
	put(t, s, 0)
	for name, want := range map[string]os.FileMode{"": 0o700, storage.FileName: 0o600, storage.FileName + "-wal": 0o600, "hearth.lock": 0o600} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("%q: %v, %v, want %o", name, st, err, want)
		}
	}
}
