package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"hearth/server"
)

// check looks for everything that may be wrong. Its exit code is 0 if nothing is.
func check(ctx context.Context, cmd *cli.Command) error {
	if err := noArgs(cmd); err != nil {
		return err
	}
	cfg, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	if err := say(cmd, "configuration: good"); err != nil {
		return err
	}
	if _, err := os.Stat(cfg.Server.DataDir); errors.Is(err, os.ErrNotExist) {
		return say(cmd, "data: none yet in %s", cfg.Server.DataDir)
	}
	return withAdmin(ctx, cmd, func(a *server.Admin) error {
		problems, err := a.Check(ctx)
		if err != nil {
			return err
		}
		for _, p := range problems {
			if err := say(cmd, "problem: %s", p); err != nil {
				return err
			}
		}
		if len(problems) > 0 {
			return fmt.Errorf("%d problems found", len(problems))
		}
		return say(cmd, "data: good")
	})
}

func backup(ctx context.Context, cmd *cli.Command) error {
	file, err := fileArg(cmd)
	if err != nil {
		return err
	}
	return withAdmin(ctx, cmd, func(a *server.Admin) error {
		bar, done := newProgress(cmd, "backup")
		err := a.Backup(ctx, file, bar)
		done()
		if err != nil {
			return err
		}
		return say(cmd, "backed up to %s", file)
	})
}

func restore(ctx context.Context, cmd *cli.Command) error {
	file, err := fileArg(cmd)
	if err != nil {
		return err
	}
	cfg, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	bar, done := newProgress(cmd, "restore")
	err = server.Restore(ctx, cfg, file, bar)
	done()
	if err != nil {
		return err
	}
	return say(cmd, "restored to %s", cfg.Server.DataDir)
}

// fileArg is the command's file, absolute: a running server has another
// working directory.
func fileArg(cmd *cli.Command) (string, error) {
	file, err := oneArg(cmd)
	if err != nil {
		return "", err
	}
	return filepath.Abs(file)
}

// newProgress draws a bar if people watch, and returns how to end it.
func newProgress(cmd *cli.Command, what string) (server.Progress, func()) {
	w := cmd.Root().ErrWriter
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, func() {}
	}
	return drawProgress(w, what)
}

func drawProgress(w io.Writer, what string) (server.Progress, func()) {
	bar := progressbar.NewOptions64(1,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish())
	// What a bar cannot draw is no reason to stop a backup.
	step := func(done, total int64) {
		bar.ChangeMax64(max(total, 1))
		_ = bar.Set64(min(done, max(total, 1)))
	}
	return step, func() { _ = bar.Finish() }
}
