package storage_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"hearth/storage"
	"hearth/storage/storagetest"
)

// TestBackupBesideAWriter takes a backup while units commit, restores it in
// each way, and expects a prefix of what was written, in a new epoch.
func TestBackupBesideAWriter(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	fill(t, s, 400, 8<<10) // several steps
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var written atomic.Int64
	wg.Go(func() {
		for i := int64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			put(t, s, i)
			written.Store(i + 1)
		}
	})
	before := written.Load()
	file := filepath.Join(t.TempDir(), "backup.db")
	var last, total int64
	if err := s.Backup(t.Context(), file, func(d, n int64) { last, total = d, n }); err != nil {
		t.Fatal(err)
	}
	close(stop)
	wg.Wait()
	if last != total || total < 400*8<<10 {
		t.Errorf("progress ended at %d of %d", last, total)
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("backup file: %v, %v", st, err)
	}
	if err := s.Backup(t.Context(), file, nil); err == nil {
		t.Error("a backup overwrote a file")
	}
	for name, place := range restores {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			place(t, file, dir)
			r := storagetest.OpenDir(t, dir)
			n := rowsFrom0(t, r)
			if n < before || n > written.Load() {
				t.Errorf("the restored file has %d rows; %d were there before, %d after", n, before, written.Load())
			}
		})
	}
}

var restores = map[string]func(t *testing.T, file, dir string){
	"by command": func(t *testing.T, file, dir string) {
		if err := storage.Restore(t.Context(), file, dir, nil); err != nil {
			t.Fatal(err)
		}
	},
	"by hand": func(t *testing.T, file, dir string) {
		copyOver(t, file, filepath.Join(dir, storage.FileName))
	},
}

func copyOver(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestEpoch restores one backup twice, in each way, over a store that went on.
func TestEpoch(t *testing.T) {
	t.Parallel()
	for name, place := range restores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := storagetest.OpenDir(t, dir)
			put(t, s, 0)
			file := filepath.Join(t.TempDir(), "b.db")
			if err := s.Backup(t.Context(), file, nil); err != nil {
				t.Fatal(err)
			}
			for i := range int64(100) { // the history that the restore loses
				put(t, s, 1+i)
			}
			lost, epochs := s.Pos(), []int64{s.Epoch()}
			same := reopen(t, s, dir)
			if same.Epoch() != epochs[0] || same.Pos() < lost {
				t.Errorf("a restart: epoch %d, position %d; before: %d, %d", same.Epoch(), same.Pos(), epochs[0], lost)
			}
			s = same
			for range 2 {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				place(t, file, dir)
				s = storagetest.OpenDir(t, dir)
				for _, e := range epochs {
					if s.Epoch() == e {
						t.Errorf("epoch %d began a second time", e)
					}
				}
				epochs = append(epochs, s.Epoch())
				if s.Pos() <= lost {
					t.Errorf("position %d was published before, up to %d", s.Pos(), lost)
				}
				if n := rowsFrom0(t, s); n != 1 {
					t.Errorf("%d rows, want the backup's 1", n)
				}
				again := reopen(t, s, dir)
				if again.Epoch() != epochs[len(epochs)-1] {
					t.Error("the second opening began another epoch")
				}
				s = again
			}
		})
	}
}

// TestBackupOverACrashedFile copies a backup over a file whose log is still
// there, as an operator does after a crash.
func TestBackupOverACrashedFile(t *testing.T) {
	t.Parallel()
	dir, crashed := t.TempDir(), t.TempDir()
	s := storagetest.OpenDir(t, dir)
	put(t, s, 0)
	file := filepath.Join(t.TempDir(), "b.db")
	if err := s.Backup(t.Context(), file, nil); err != nil {
		t.Fatal(err)
	}
	for i := range int64(300) {
		put(t, s, 1+i)
	}
	copyOver(t, filepath.Join(dir, storage.FileName+"-wal"), filepath.Join(crashed, storage.FileName+"-wal"))
	copyOver(t, file, filepath.Join(crashed, storage.FileName))
	r := storagetest.OpenDir(t, crashed)
	if n := rowsFrom0(t, r); n != 1 {
		t.Errorf("%d rows: another file's log was played into the backup", n)
	}
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := storagetest.OpenDir(t, dir)
	put(t, s, 0)
	file := filepath.Join(t.TempDir(), "b.db")
	if err := s.Backup(t.Context(), file, nil); err != nil {
		t.Fatal(err)
	}
	if err := storage.Restore(t.Context(), file, dir, nil); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("restore under a running store: %v", err)
	}
	put(t, s, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "d.db")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text[pageSize : 2*pageSize] {
		text[pageSize+i] ^= 0x5a
	}
	for name, content := range map[string][]byte{"damaged": text, "foreign": []byte("hello"), "cut": text[:3*pageSize]} {
		if err := os.WriteFile(damaged, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := storage.Restore(t.Context(), damaged, dir, nil); err == nil {
			t.Errorf("a %s file was restored", name)
		}
	}
	r := storagetest.OpenDir(t, dir)
	if n := rowsFrom0(t, r); n != 2 {
		t.Errorf("after refused restores the store has %d rows, want 2", n)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := storage.Restore(t.Context(), file, dir, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, storage.FileName+".replaced")); err != nil {
		t.Errorf("the replaced database is gone: %v", err)
	}
}

const pageSize = 4096

// TestBackupLosesItsConnection replaces the writing connection in the middle
// of a backup: the backup must fail, not crash, and leave nothing behind.
func TestBackupLosesItsConnection(t *testing.T) {
	t.Parallel()
	s := storagetest.Open(t)
	fill(t, s, 800, 8<<10)
	dir := t.TempDir()
	failed := false
	err := s.Backup(context.Background(), filepath.Join(dir, "b.db"), func(int64, int64) {
		if !failed {
			failed = true
			go func() {
				storagetest.FailCommit(t, s)
				_ = write(s, 7) // fails, and takes the connection along
			}()
			s.WaitQueued(1)
		}
	})
	if err == nil {
		t.Fatal("the backup did not notice that its connection was replaced")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := s.Backup(context.Background(), filepath.Join(dir, "b.db"), nil); err != nil {
		t.Errorf("the next backup: %v", err)
	}
}

// TestRestoreAfterAKilledOne restores where another restore was killed: what it
// left beside its copy must not be played into this one.
func TestRestoreAfterAKilledOne(t *testing.T) {
	t.Parallel()
	other := t.TempDir()
	s := storagetest.OpenDir(t, other)
	fill(t, s, 40, 8<<10)
	put(t, s, 0)
	file, dir := filepath.Join(t.TempDir(), "b.db"), t.TempDir()
	if err := s.Backup(t.Context(), file, nil); err != nil {
		t.Fatal(err)
	}
	for i := range int64(300) {
		put(t, s, 1+i)
	}
	left := filepath.Join(dir, storage.FileName+".restoring")
	copyOver(t, filepath.Join(other, storage.FileName+"-wal"), left+"-wal")
	for _, name := range []string{left, left + "-journal", left + "-shm"} {
		if err := os.WriteFile(name, []byte("left over"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := storage.Restore(t.Context(), file, dir, nil); err != nil {
		t.Fatal(err)
	}
	if n := rowsFrom0(t, storagetest.OpenDir(t, dir)); n != 1 {
		t.Errorf("%d rows, want the 1 of the backup", n)
	}
}

// TestRestoreKeepsADatabase fails a restore at its last step: there must be a
// database under its name at every moment, or the next start begins an empty one.
func TestRestoreKeepsADatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := storagetest.OpenDir(t, dir)
	put(t, s, 0)
	file := filepath.Join(t.TempDir(), "b.db")
	if err := s.Backup(t.Context(), file, nil); err != nil {
		t.Fatal(err)
	}
	put(t, s, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := storage.SetAside(filepath.Join(dir, storage.FileName)); err != nil {
		t.Fatal(err)
	}
	if n := rowsFrom0(t, storagetest.OpenDir(t, dir)); n != 2 {
		t.Errorf("killed before its last step, a restore left %d rows, want 2", n)
	}
}
