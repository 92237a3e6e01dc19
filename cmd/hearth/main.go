// Command hearth is a Matrix homeserver: one program, one process, one SQLite
// file. This package reads the command line, the environment and signals, and
// makes the logger; everything else is in hearth/server.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/urfave/cli/v3"

	"hearth/server"
)

func main() {
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// run is main with its surroundings passed in, and returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal stops gracefully, the second one at once.
	context.AfterFunc(ctx, stop)
	if err := newApp(stdin, stdout, stderr).Run(ctx, args); err != nil {
		_, _ = fmt.Fprintln(stderr, "hearth:", err)
		return 1
	}
	return 0
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.Command {
	app := &cli.Command{
		Name:           "hearth",
		Usage:          "a Matrix homeserver",
		Description:    "Without a command, hearth serves: on ./homeserver.toml, or on built-in defaults where there is no such file.",
		Flags:          append(commonFlags(), serveFlags()...),
		Action:         serve,
		Reader:         stdin,
		Writer:         stdout,
		ErrWriter:      stderr,
		ExitErrHandler: func(context.Context, *cli.Command, error) {}, // run reports
		Commands: []*cli.Command{
			{Name: "serve", Usage: "serve (the default)", Action: serve},
			userCommand(),
			tokenCommand(),
			keyCommand(),
			federationCommand(),
			{Name: "check", Usage: "check configuration, database and invariants", Action: check},
			{Name: "backup", Usage: "copy the database to FILE, while the server runs", ArgsUsage: "FILE", Action: backup},
			{Name: "restore", Usage: "make the backup FILE the database", ArgsUsage: "FILE", Action: restore},
			{Name: "version", Usage: "print the version", Action: version},
		},
	}
	reportUsageOnce(app)
	return app
}

// reportUsageOnce leaves it to run to print what is wrong with the flags of a
// command, one line as of every other error: the help would hide it.
func reportUsageOnce(cmd *cli.Command) {
	cmd.OnUsageError = func(_ context.Context, cmd *cli.Command, err error, _ bool) error {
		return fmt.Errorf("%w; see %s --help", err, cmd.FullName())
	}
	for _, sub := range cmd.Commands {
		reportUsageOnce(sub)
	}
}

func version(_ context.Context, cmd *cli.Command) error {
	if err := noArgs(cmd); err != nil {
		return err
	}
	return say(cmd, "hearth %s", versionText())
}

// versionText is what was built, and with what.
func versionText() string {
	return fmt.Sprintf("%s (%s)", server.Version(), runtime.Version())
}

// say prints one line of output.
func say(cmd *cli.Command, format string, args ...any) error {
	_, err := fmt.Fprintf(cmd.Root().Writer, format+"\n", args...)
	return err
}

// noArgs refuses arguments, which would otherwise be ignored.
func noArgs(cmd *cli.Command) error {
	if cmd.Args().Present() {
		return fmt.Errorf("unknown command or argument %q; see hearth --help", cmd.Args().First())
	}
	return nil
}

// oneArg returns the command's only argument.
func oneArg(cmd *cli.Command) (string, error) {
	if cmd.Args().Len() != 1 || cmd.Args().First() == "" {
		return "", fmt.Errorf("usage: %s %s", cmd.FullName(), cmd.ArgsUsage)
	}
	return cmd.Args().First(), nil
}
