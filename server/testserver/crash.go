package testserver

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"hearth/storage"
)

var errCrashed = errors.New("testserver: the server crashed here")

// Crash ends the server as SIGKILL does, and starts it again: connections
// break, and nothing that was not committed is there afterwards.
//
// The process cannot be killed, because the test is in it. Instead one write
// unit, inside which nothing else can commit, breaks all connections, so that
// no client hears of anything later, and copies the database files as they
// are. The new server runs on the copy. The old one comes to its end on files
// that nobody reads again.
func (hs *Server) Crash() {
	hs.tb.Helper()
	old, to := hs.run, hs.newDir()
	ctx := context.WithoutCancel(hs.tb.Context())
	var copied error
	err := old.hs.Store().Write(ctx, "crash", func(*storage.Tx) error {
		if hs.fed != nil {
			hs.fed.dead.Store(true)
		}
		old.hs.Abort()
		copied = copyDir(hs.dir, to)
		return errCrashed
	})
	if !errors.Is(err, errCrashed) || copied != nil {
		hs.tb.Fatalf("crash: %v, %v", err, copied)
	}
	hs.halt()
	hs.dir = to
	hs.start()
}

// copyDir copies the regular files of a data directory, except those that die
// with a process: SQLite's shared memory, locks and sockets.
func copyDir(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.HasSuffix(e.Name(), "-shm") || strings.HasSuffix(e.Name(), "lock") {
			continue
		}
		if err := copyFile(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Backup makes a backup of the running server and returns its path.
func (hs *Server) Backup() string {
	hs.tb.Helper()
	file := hs.newDir() + ".db"
	if err := hs.Store().Backup(hs.tb.Context(), file, nil); err != nil {
		hs.tb.Fatalf("backup: %v", err)
	}
	return file
}

// Restore stops the server, puts a backup in place of its database, and starts
// it on that.
func (hs *Server) Restore(backup string) {
	hs.tb.Helper()
	hs.halt()
	hs.dir = hs.newDir()
	if err := storage.Restore(hs.tb.Context(), backup, hs.dir, nil); err != nil {
		hs.tb.Fatalf("restore: %v", err)
	}
	hs.start()
}
