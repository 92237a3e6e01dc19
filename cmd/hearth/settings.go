package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"hearth/server/config"
)

// defaultFile is read where no other is named, if it exists.
const defaultFile = "homeserver.toml"

// flagKeys are the flags that override a key of the configuration.
var flagKeys = []struct{ flag, key, usage string }{
	{"name", "server.name", "server `NAME`, the part of user IDs after the colon"},
	{"data-dir", "server.data_dir", "`DIR`ectory of the database"},
	{"listen", "listen.client", "`ADDRESSES` for clients, separated by commas: host:port or unix:path"},
	{"listen-federation", "listen.federation", "`ADDRESSES` for other servers"},
	{"public-url", "server.public_url", "`URL` that clients reach the server by"},
	{"registration", "registration.mode", "who may register, `MODE` closed, token or open"},
	{"metrics", "metrics.listen", "`ADDRESS` for Prometheus"},
	{"log-level", "log.level", "`LEVEL` debug, info, warn or error"},
	{"log-format", "log.format", "`FORMAT` console or json"},
}

func commonFlags() []cli.Flag {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "configuration `FILE`", Sources: cli.EnvVars("HEARTH_CONFIG"), DefaultText: "./" + defaultFile + " if it exists"},
	}
	for _, f := range flagKeys {
		flags = append(flags, &cli.StringFlag{Name: f.flag, Usage: f.usage + " (" + config.EnvName(f.key) + ")"})
	}
	return flags
}

// loadConfig reads file, environment and flags, in this order of rising
// weight, and reports every problem at once.
func loadConfig(cmd *cli.Command) (config.Config, error) {
	path := cmd.String("config")
	if path == "" {
		if _, err := os.Stat(defaultFile); err == nil {
			path = defaultFile
		}
	}
	cfg, err := config.Parse(path, os.LookupEnv)
	problems := []error{err}
	for _, f := range flagKeys {
		if !cmd.IsSet(f.flag) {
			continue
		}
		if err := cfg.Set(f.key, cmd.String(f.flag)); err != nil {
			problems = append(problems, fmt.Errorf("--%s: %w", f.flag, err))
		}
	}
	if err := errors.Join(append(problems, cfg.Validate())...); err != nil {
		return cfg, fmt.Errorf("configuration:\n%w", err)
	}
	return cfg, nil
}

// strayVariables are variables that look like ours and mean nothing, most
// likely for a slip of the pen.
func strayVariables(environ []string) []string {
	known := []string{"HEARTH_CONFIG", "HEARTH_TEST_SCALE"}
	for _, key := range config.Keys() {
		known = append(known, config.EnvName(key))
	}
	var stray []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "HEARTH_") && !slices.Contains(known, name) {
			stray = append(stray, name)
		}
	}
	return stray
}

// newLogger logs to w as the configuration says.
func newLogger(c config.Log, w io.Writer) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(c.Level)
	if err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	var enc zapcore.Encoder
	if c.Format == "json" {
		ec := zap.NewProductionEncoderConfig()
		ec.EncodeTime = zapcore.RFC3339NanoTimeEncoder
		enc = zapcore.NewJSONEncoder(ec)
	} else {
		ec := zap.NewDevelopmentEncoderConfig()
		ec.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02 15:04:05.000")
		enc = zapcore.NewConsoleEncoder(ec)
	}
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(w)), level)), nil
}
