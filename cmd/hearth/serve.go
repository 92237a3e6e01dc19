package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/urfave/cli/v3"
	"go.uber.org/zap"

	"hearth/server"
	"hearth/server/config"
)

func serveFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "ready-json", Usage: "once serving, write a line of JSON with the bound addresses to `FILE`, or to standard output if that is -"},
		&cli.BoolFlag{Name: "exit-with-parent", Usage: "stop when standard input ends, which a parent keeps open as long as it lives"},
	}
}

// serve runs a server until a signal, or the end of its parent, stops it.
func serve(ctx context.Context, cmd *cli.Command) error { return serveWith(ctx, cmd) }

// serveWith is serve with options for tests.
func serveWith(ctx context.Context, cmd *cli.Command, opts ...server.Option) (err error) {
	if err := noArgs(cmd); err != nil {
		return err
	}
	cfg, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	log, err := newLogger(cfg.Log, cmd.Root().ErrWriter)
	if err != nil {
		return err
	}
	for _, name := range strayVariables(os.Environ()) {
		log.Warn("this environment variable means nothing", zap.String("name", name))
	}
	server.LimitMemory(cfg.Limits, log)
	srv, err := server.Open(ctx, cfg, log, opts...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	if err := announce(ctx, cmd, cfg, srv); err != nil {
		return err
	}
	if cmd.Bool("exit-with-parent") {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		defer stop()
		go func() { // ends with the process: a read of standard input cannot be called off
			_, _ = io.Copy(io.Discard, cmd.Root().Reader)
			stop()
		}()
	}
	return srv.Run(ctx)
}

// ready is what --ready-json tells.
type ready struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	URL  string `json:"url,omitzero"` // of the first client listener that is TCP
	server.Addrs
}

// announce says where the server listens, to people and to programs. The
// listeners are bound, so who reads it can connect at once.
func announce(ctx context.Context, cmd *cli.Command, cfg config.Config, srv *server.Server) error {
	addrs := srv.Addrs()
	line := ready{Name: cfg.Server.Name, PID: os.Getpid(), Addrs: addrs}
	for _, a := range addrs.Client {
		if u := url(cfg, a); line.URL == "" && strings.HasPrefix(u, "http") {
			line.URL = u
		}
	}
	people := cmd.Root().Writer
	target := cmd.String("ready-json")
	if target == "-" {
		people = cmd.Root().ErrWriter // standard output is for the one line
	}
	if err := greet(ctx, people, cfg, srv); err != nil {
		return err
	}
	if target == "" {
		return nil
	}
	text, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("--ready-json: %w", err)
	}
	if text = append(text, '\n'); target == "-" {
		_, err = cmd.Root().Writer.Write(text)
	} else {
		err = server.WriteFile(target, text)
	}
	if err != nil {
		return fmt.Errorf("--ready-json: %w", err)
	}
	return nil
}

// greet tells people where the server listens and how the first of them gets in.
func greet(ctx context.Context, w io.Writer, cfg config.Config, srv *server.Server) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Hearth %s serves %s; its data is in %s\n", versionText(), cfg.Server.Name, cfg.Server.DataDir)
	for _, a := range srv.Addrs().Client {
		fmt.Fprintf(&b, "  clients:       %s\n", url(cfg, a))
	}
	for _, a := range srv.Addrs().Federation {
		fmt.Fprintf(&b, "  other servers: %s\n", url(cfg, a))
	}
	if m := srv.Addrs().Metrics; m != "" {
		fmt.Fprintf(&b, "  metrics:       http://%s/metrics\n", m)
	}
	token, err := srv.FirstRunToken(ctx)
	if err != nil {
		return err
	}
	if token != "" {
		fmt.Fprintf(&b, "There is no administrator yet. Whoever registers first with this token is one:\n"+
			"  registration token: %s\n"+
			"Or make one in another terminal: hearth user add --admin NAME\n", token.Reveal())
	}
	_, err = io.WriteString(w, b.String())
	return err
}

func url(cfg config.Config, addr string) string {
	switch {
	case strings.HasPrefix(addr, "unix:"):
		return addr
	case cfg.TLS.Cert != "":
		return "https://" + addr
	default:
		return "http://" + addr
	}
}
