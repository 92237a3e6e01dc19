package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"hearth/server"
	"hearth/server/config"
)

func federationCommand() *cli.Command {
	return &cli.Command{
		Name: "federation", Usage: "other servers", Action: needCommand,
		Commands: []*cli.Command{
			{Name: "queue", Usage: "list what waits for other servers, or for SERVER", ArgsUsage: "[SERVER]", Action: federationQueue},
			{Name: "retry", Usage: "send to SERVER now, not when its next attempt is due", ArgsUsage: "SERVER", Action: federationRetry},
		},
	}
}

func federationQueue(ctx context.Context, cmd *cli.Command) error {
	only := ""
	if cmd.Args().Present() {
		var err error
		if only, err = oneArg(cmd); err != nil {
			return err
		}
	}
	return withAdmin(ctx, cmd, func(a *server.Admin) error {
		list, err := a.Queues(ctx, only)
		if err != nil {
			return err
		}
		table := newTable(cmd, "SERVER", "ITEMS", "BYTES", "OLDEST", "FAILURES", "NEXT", "SUCCESS", "ERROR")
		for _, q := range list {
			table.row(string(q.Server), fmt.Sprint(q.Items), fmt.Sprint(q.Bytes), span(q.Oldest, "", "-"), fmt.Sprint(q.Failures),
				next(q), span(q.LastSuccess, " ago", "never"), fmt.Sprintf("%q", q.LastError))
		}
		return table.Flush()
	})
}

// next is when the queue is sent.
func next(q server.Queue) string {
	if q.Items == 0 {
		return "-"
	}
	return span(q.NextAttempt, "", "now")
}

// span prints a span of time to the second.
func span(d config.Duration, suffix, zero string) string {
	if d == 0 {
		return zero
	}
	return config.Duration(max(time.Duration(d).Round(time.Second), time.Second)).String() + suffix
}

func federationRetry(ctx context.Context, cmd *cli.Command) error {
	name, err := oneArg(cmd)
	if err != nil {
		return err
	}
	return withAdmin(ctx, cmd, func(a *server.Admin) error {
		failing, err := a.RetryQueue(ctx, name)
		if err != nil {
			return err
		}
		if !failing {
			return say(cmd, "%s does not fail: there is nothing to hurry", name)
		}
		return say(cmd, "%s is tried again now", name)
	})
}
