//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadOnlyDataDir: a directory that cannot be written to is named, with
// what is wrong with it, by every command that needs it.
func TestReadOnlyDataDir(t *testing.T) {
	t.Parallel()
	root, err := os.MkdirTemp("", "readonly")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	dir := filepath.Join(root, "data")
	p := startProcess(t, root, "--data-dir", dir)
	stop(t, p)
	for _, d := range []string{root, filepath.Dir(binary)} {
		if err := os.Chmod(d, 0o755); err != nil { //nolint:gosec // another user runs the program
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o555); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) //nolint:gosec // to be removed
	for _, args := range [][]string{{}, {"user", "list"}, {"check"}} {
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"--listen", "127.0.0.1:0", "--data-dir", dir}, args...)...)
		cmd.Dir, cmd.Env = root, cleanEnv()
		if os.Getuid() == 0 { // whom no mode keeps from writing
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err := cmd.Run()
		if got := stderr.String(); err == nil || !strings.Contains(got, "the data directory "+dir+" is read-only") || strings.Count(got, "\n") != 1 {
			t.Errorf("%q: %v, %s", args, err, got)
		}
	}
}
