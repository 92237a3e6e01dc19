package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"hearth/server"
	"hearth/server/config"
)

func userCommand() *cli.Command {
	stdin := &cli.BoolFlag{Name: "password-stdin", Usage: "read the password from standard input"}
	return &cli.Command{
		Name: "user", Usage: "accounts", Action: needCommand,
		Commands: []*cli.Command{
			{Name: "add", Usage: "make an account", ArgsUsage: "NAME", Action: userAdd,
				Flags: []cli.Flag{&cli.BoolFlag{Name: "admin", Usage: "make it an administrator"}, stdin}},
			{Name: "list", Usage: "list all accounts", Action: userList},
			{Name: "deactivate", Usage: "end an account for ever and log it out", ArgsUsage: "NAME", Action: userDeactivate,
				Flags: []cli.Flag{&cli.BoolFlag{Name: "erase", Usage: "erase what the user said, too"}}},
			{Name: "reset-password", Usage: "set a new password and log out all devices", ArgsUsage: "NAME", Action: userResetPassword,
				Flags: []cli.Flag{&cli.BoolFlag{Name: "keep-devices", Usage: "leave devices logged in"}, stdin}},
			{Name: "lock", Usage: "let an account do nothing but log out; its devices stay logged in", ArgsUsage: "NAME", Action: userModerate((*server.Admin).LockUser, true)},
			{Name: "unlock", Usage: "end that", ArgsUsage: "NAME", Action: userModerate((*server.Admin).LockUser, false)},
			{Name: "suspend", Usage: "let an account read, but neither say nor join anything", ArgsUsage: "NAME", Action: userModerate((*server.Admin).SuspendUser, true)},
			{Name: "unsuspend", Usage: "end that", ArgsUsage: "NAME", Action: userModerate((*server.Admin).SuspendUser, false)},
		},
	}
}

func tokenCommand() *cli.Command {
	return &cli.Command{
		Name: "token", Usage: "registration tokens", Action: needCommand,
		Commands: []*cli.Command{
			{Name: "add", Usage: "make a registration token, a random one if none is given", ArgsUsage: "[TOKEN]", Action: tokenAdd,
				Flags: []cli.Flag{
					&cli.Int64Flag{Name: "uses", Usage: "how many users it admits, 0: any number", Value: 1},
					&cli.StringFlag{Name: "expires", Usage: "how long it is good for, `DURATION` such as 12h or 7d; none: for ever"},
				}},
			{Name: "list", Usage: "list registration tokens", Action: tokenList},
			{Name: "revoke", Usage: "delete a registration token", ArgsUsage: "TOKEN", Action: tokenRevoke},
		},
	}
}

func needCommand(_ context.Context, cmd *cli.Command) error {
	if cmd.Args().Present() {
		return fmt.Errorf("%s has no command %q; see %s --help", cmd.FullName(), cmd.Args().First(), cmd.FullName())
	}
	return fmt.Errorf("%s needs a command; see %s --help", cmd.FullName(), cmd.FullName())
}

// withAdmin runs fn on the running server or, where none runs, on its data.
func withAdmin(ctx context.Context, cmd *cli.Command, fn func(*server.Admin) error) (err error) {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	cfg.Log.Level = "error" // what the store says when it opens is for servers
	log, err := newLogger(cfg.Log, cmd.Root().ErrWriter)
	if err != nil {
		return err
	}
	admin, err := server.Attach(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, admin.Close()) }()
	return fn(admin)
}

func userAdd(ctx context.Context, cmd *cli.Command) error {
	name, err := oneArg(cmd)
	if err != nil {
		return err
	}
	return withAdmin(ctx, cmd, func(a *server.Admin) error {
		password, made, err := newPassword(cmd)
		if err != nil {
			return err
		}
		id, err := a.AddUser(ctx, server.NewUser{Name: name, Password: password, Admin: cmd.Bool("admin")})
		if err != nil {
			return err
		}
		return errors.Join(say(cmd, "%s", id), tell(cmd, password, made))
	})
}

func userList(ctx context.Context, cmd *cli.Command) error {
	if err := noArgs(cmd); err != nil {
		return err
	}
	return withAdmin(ctx, cmd, func(a *server.Admin) error {
		table := newTable(cmd, "USER", "STATE", "DEVICES", "CREATED")
		err := a.ListUsers(ctx, func(u server.User) {
			table.row(string(u.ID), userState(u), fmt.Sprint(u.Devices), u.Created.Format(time.DateOnly))
		})
		return errors.Join(err, table.Flush())
	})
}

// userState says in a word or more what an account may do.
func userState(u server.User) string {
	state := "user"
	switch {
	case u.Deactivated:
		state = "deactivated"
	case u.Admin:
		state = "admin"
	}
	if u.Locked {
		state += ", locked"
	}
	if u.Suspended {
		state += ", suspended"
	}
	return state
}

// userModerate makes the action of a command that switches something on or off
// for an account.
func userModerate(set func(*server.Admin, context.Context, server.Moderation) error, on bool) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		name, err := oneArg(cmd)
		if err != nil {
			return err
		}
		return withAdmin(ctx, cmd, func(a *server.Admin) error {
			return set(a, ctx, server.Moderation{Name: name, On: on})
		})
	}
}

func userDeactivate(ctx context.Context, cmd *cli.Command) error {
	name, err := oneArg(cmd)
	if err != nil {
		return err
	}
	return withAdmin(ctx, cmd, func(a *server.Admin) error {
		return a.DeactivateUser(ctx, server.Deactivation{Name: name, Erase: cmd.Bool("erase")})
	})
}

func userResetPassword(ctx context.Context, cmd *cli.Command) error {
	name, err := oneArg(cmd)
	if err != nil {
		return err
	}
	return withAdmin(ctx, cmd, func(a *server.Admin) error {
		password, made, err := newPassword(cmd)
		if err != nil {
			return err
		}
		err = a.ResetPassword(ctx, server.NewPassword{Name: name, Password: password, Logout: !cmd.Bool("keep-devices")})
		if err != nil {
			return err
		}
		return tell(cmd, password, made)
	})
}

func tokenAdd(ctx context.Context, cmd *cli.Command) error {
	t := server.NewToken{Uses: cmd.Int64("uses")}
	if cmd.Args().Present() {
		name, err := oneArg(cmd)
		if err != nil {
			return err
		}
		t.Name = name
	}
	if s := cmd.String("expires"); s != "" {
		var d config.Duration
		if err := d.UnmarshalText([]byte(s)); err != nil {
			return fmt.Errorf("--expires: %w", err)
		}
		t.Lifetime = d
	}
	return withAdmin(ctx, cmd, func(a *server.Admin) error {
		token, err := a.AddToken(ctx, t)
		if err != nil {
			return err
		}
		return say(cmd, "%s", token)
	})
}

func tokenList(ctx context.Context, cmd *cli.Command) error {
	if err := noArgs(cmd); err != nil {
		return err
	}
	return withAdmin(ctx, cmd, func(a *server.Admin) error {
		list, err := a.ListTokens(ctx)
		if err != nil {
			return err
		}
		table := newTable(cmd, "TOKEN", "USED", "EXPIRES", "STATE")
		for _, t := range list {
			used, expires, state := fmt.Sprint(t.Used), "never", "valid"
			if t.Allowed > 0 {
				used += fmt.Sprintf(" of %d", t.Allowed)
			}
			if d := time.Duration(t.ExpiresIn); d != 0 {
				expires = "in " + config.Duration(d.Round(time.Minute)).String()
			}
			if !t.Valid {
				state = "no longer valid"
			}
			table.row(t.Token, used, expires, state)
		}
		return table.Flush()
	})
}

func tokenRevoke(ctx context.Context, cmd *cli.Command) error {
	token, err := oneArg(cmd)
	if err != nil {
		return err
	}
	return withAdmin(ctx, cmd, func(a *server.Admin) error { return a.RevokeToken(ctx, token) })
}

// newPassword reads a password from standard input if told to, asks for it on a
// terminal, and else makes one up.
func newPassword(cmd *cli.Command) (password string, made bool, err error) {
	in := cmd.Root().Reader
	if cmd.Bool("password-stdin") {
		line, err := bufio.NewReader(io.LimitReader(in, 4096)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", false, fmt.Errorf("read the password: %w", err)
		}
		return strings.TrimRight(line, "\r\n"), false, nil
	}
	f, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return rand.Text(), true, nil
	}
	first, err := ask(cmd, f, "Password: ")
	if err != nil {
		return "", false, err
	}
	second, err := ask(cmd, f, "Once more: ")
	if err == nil && first != second {
		err = errors.New("the two passwords differ")
	}
	return first, false, err
}

func ask(cmd *cli.Command, f *os.File, prompt string) (string, error) {
	_, _ = fmt.Fprint(cmd.Root().ErrWriter, prompt)
	text, err := term.ReadPassword(int(f.Fd()))
	_, _ = fmt.Fprintln(cmd.Root().ErrWriter)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return string(text), nil
}

// tell prints a password that was made up.
func tell(cmd *cli.Command, password string, made bool) error {
	if !made {
		return nil
	}
	return say(cmd, "password: %s", password)
}

// table aligns columns.
type table struct{ *tabwriter.Writer }

func newTable(cmd *cli.Command, heads ...string) table {
	t := table{tabwriter.NewWriter(cmd.Root().Writer, 0, 0, 2, ' ', 0)}
	t.row(heads...)
	return t
}

func (t table) row(cells ...string) {
	_, _ = fmt.Fprintln(t, strings.Join(cells, "\t")) // Flush reports the error
}
