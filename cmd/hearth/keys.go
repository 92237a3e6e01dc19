package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v3"

	"hearth/server"
)

func keyCommand() *cli.Command {
	return &cli.Command{
		Name: "key", Usage: "the key this server signs with", Action: needCommand,
		Commands: []*cli.Command{
			{Name: "export", Usage: "print it, as in a signing.key file of Synapse; keep it secret", Action: keyExport},
			{Name: "import", Usage: "sign with the key in FILE, \"-\" for standard input, from now on", ArgsUsage: "FILE", Action: keyImport},
			{Name: "rotate", Usage: "sign with a new key from now on", Action: keyRotate},
		},
	}
}

func keyExport(ctx context.Context, cmd *cli.Command) error {
	if err := noArgs(cmd); err != nil {
		return err
	}
	return withAdmin(ctx, cmd, func(a *server.Admin) error {
		text, err := a.ExportKey(ctx)
		if err != nil {
			return err
		}
		return say(cmd, "%s", text)
	})
}

// maxKeyFile bounds a key file in bytes.
const maxKeyFile = 64 << 10

func keyImport(ctx context.Context, cmd *cli.Command) error {
	path, err := oneArg(cmd)
	if err != nil {
		return err
	}
	in := cmd.Root().Reader
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxKeyFile))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return withAdmin(ctx, cmd, func(a *server.Admin) error {
		id, err := a.ImportKey(ctx, string(text))
		if err != nil {
			return err
		}
		return say(cmd, "%s", id)
	})
}

func keyRotate(ctx context.Context, cmd *cli.Command) error {
	if err := noArgs(cmd); err != nil {
		return err
	}
	return withAdmin(ctx, cmd, func(a *server.Admin) error {
		id, err := a.RotateKey(ctx)
		if err != nil {
			return err
		}
		return say(cmd, "%s", id)
	})
}
