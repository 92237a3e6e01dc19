//go:build unix

package storage_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"hearth/storage"
	"hearth/storage/storagetest"
	"hearth/storage/storagetest/faultvfs"
)

// The environment of a process that is to die in a migration: where, and at
// which of its calls that change the disk; 0: it counts them.
const (
	killDir  = "HEARTH_TEST_KILL_DIR"
	killCall = "HEARTH_TEST_KILL_CALL"
)

const oldRows = `INSERT INTO users (localpart, created_ms) VALUES ('alice', 1), ('bob', 2);
	INSERT INTO devices (user_num, device_id, created_ms, last_seen_clock) VALUES (1, 'D', 1, 1)`

// TestKilledInMigration kills a process with SIGKILL at many of the points where
// an upgrade changes the disk. What is left opens, upgraded, with all that was
// in it, and nothing is left lying about.
func TestKilledInMigration(t *testing.T) {
	if dir := os.Getenv(killDir); dir != "" {
		migrateAndDie(t, dir)
		return
	}
	t.Parallel()
	fresh := storagetest.Open(t)
	want, newest := fresh.SchemaOf(t)
	calls := int64(0)
	out, err := migrateInProcess(t, oldDir(t), 0)
	if err != nil {
		t.Fatalf("an upgrade that nobody kills: %v\n%s", err, out)
	}
	if _, err := fmt.Sscanf(out[strings.Index(out, "calls "):], "calls %d", &calls); err != nil || calls < 10 {
		t.Fatalf("an upgrade changes the disk %d times, %v", calls, err)
	}
	points := int64(storagetest.Scale(10))
	for i := range points {
		dir, at := oldDir(t), 1+i*(calls-1)/(points-1)
		out, err := migrateInProcess(t, dir, at)
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("call %d of %d: not killed: %v\n%s", at, calls, err, out)
		}
		s := storagetest.OpenDir(t, dir)
		got, version := s.SchemaOf(t)
		if version != newest || !maps.Equal(got, want) {
			t.Errorf("call %d of %d: opens with schema %d, want %d as in a new file", at, calls, version, newest)
		}
		err = s.Read(t.Context(), "test", func(rx *storage.Rx) error {
			users, err := rx.Users(0, 10)
			if len(users) != 2 {
				t.Errorf("call %d of %d: users %v", at, calls, users)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		wantFiles(t, dir, newest)
	}
}

// oldDir is a data directory of an earlier version, not yet upgraded.
func oldDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	storage.WriteOldFile(t, filepath.Join(dir, storage.FileName), 2, oldRows)
	return dir
}

// wantFiles wants the database, its log and the backup before the upgrade.
func wantFiles(t *testing.T, dir string, newest int64) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	backup := false
	for _, f := range list {
		switch f.Name() {
		case storage.FileName, storage.FileName + "-wal", storage.FileName + "-shm", "hearth.lock":
		case fmt.Sprint(storage.FileName, ".before-schema-", newest):
			backup = true
		default:
			t.Errorf("%s is left behind", f.Name())
		}
	}
	if !backup {
		// Killed between the last migration's COMMIT and the end: the backup is
		// from before and must be there in every case.
		t.Error("there is no backup from before the upgrade")
	}
}

// migrateInProcess upgrades dir in another process.
func migrateInProcess(t *testing.T, dir string, call int64) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledInMigration$", "-test.v")
	cmd.Env = append(os.Environ(), killDir+"="+dir, killCall+"="+strconv.FormatInt(call, 10))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// migrateAndDie is the other process.
func migrateAndDie(t *testing.T, dir string) {
	disk, err := faultvfs.New()
	if err != nil {
		t.Fatal(err)
	}
	at, err := strconv.ParseInt(os.Getenv(killCall), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	disk.OnCall(func(faultvfs.Call) faultvfs.Code {
		if calls.Add(1) == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // it takes effect at once, though not in this line
		}
		return 0
	})
	s, err := storage.Open(context.Background(), storage.Options{Dir: dir, ServerName: storagetest.ServerName, VFS: disk.Name()})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("calls %d\n", calls.Load())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
