package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v3"

	"hearth/server"
	"hearth/storage/storagetest/faultvfs"
)

// holdVariable makes this test binary the server, on a file system that holds a
// COMMIT when told to, so that it can be killed there.
const holdVariable = "TEST_HOLD_COMMITS"

// Where a COMMIT is held.
const (
	beforeCommit = "write" // its units have run, and nothing is in the file
	insideCommit = "sync"  // it is in the file, and nobody was told
)

// The victim's end: holdFile names where the next COMMIT is to be held, and
// heldFile says that it is.
const (
	holdFile = "hold"
	heldFile = "held"
)

// serveHolding is main with such a file system, in the working directory.
func serveHolding() int {
	disk, err := faultvfs.New()
	if err == nil {
		disk.OnCall(func(c faultvfs.Call) faultvfs.Code {
			if c.WAL() && (c.Op == faultvfs.Write || c.Op == faultvfs.Sync) {
				if where, err := os.ReadFile(holdFile); err == nil && string(where) == c.Op.String() {
					_ = os.WriteFile(heldFile, nil, 0o600)
					select {} // until SIGKILL
				}
			}
			return 0
		})
		app := newApp(os.Stdin, os.Stdout, os.Stderr)
		app.Commands, app.Action = nil, func(ctx context.Context, cmd *cli.Command) error {
			return serveWith(ctx, cmd, server.WithVFS(disk.Name()))
		}
		err = app.Run(context.Background(), []string{"hearth", "--ready-json", "-"})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// hold has the victim's next COMMIT held, at the point named.
func (p *victim) hold(where string) {
	file := filepath.Join(p.dir, holdFile)
	err := os.WriteFile(file+"-new", []byte(where), 0o600)
	if err == nil {
		err = os.Rename(file+"-new", file)
	}
	if err != nil {
		p.tb.Errorf("hold: %v", err)
	}
}

// waitHeld waits until a COMMIT is held.
func (p *victim) waitHeld() {
	for {
		_, err := os.Stat(filepath.Join(p.dir, heldFile))
		if err == nil {
			return
		}
		if !errors.Is(err, fs.ErrNotExist) || p.tb.Context().Err() != nil {
			p.tb.Fatalf("waiting for a COMMIT: %v", err)
		}
		<-time.After(time.Millisecond)
	}
}

// release lets the next life of the victim commit.
func (p *victim) release() {
	for _, name := range []string{holdFile, heldFile} {
		if err := os.Remove(filepath.Join(p.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.tb.Errorf("release: %v", err)
		}
	}
}
