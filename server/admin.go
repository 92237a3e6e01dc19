package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"hearth/server/config"
	"hearth/storage"
	"hearth/storage/matrix"
)

// Progress is told how far a long command has come.
type Progress func(done, total int64)

// Admin runs administrative commands: in the server that has the data directory
// open, or, if none has, on the data directory itself. Its methods are in commands.go.
type Admin struct {
	run   func(ctx context.Context, name string, in jsontext.Value, p Progress) (jsontext.Value, error)
	close func() error
}

// Attach finds the running server of the configuration's data directory, or
// opens that directory. A directory that does not exist is an error: only
// serving makes one.
func Attach(ctx context.Context, cfg config.Config, log *zap.Logger) (*Admin, error) {
	dir := cfg.Server.DataDir
	if _, err := os.Stat(filepath.Join(dir, storage.FileName)); err != nil {
		return nil, fmt.Errorf("no server has used this data directory yet: %w", err)
	}
	if a := dialControl(ctx, dir); a != nil {
		return a, nil
	}
	s, _, err := openParts(ctx, cfg, log, nil)
	if err != nil {
		return nil, err
	}
	return &Admin{
		run: func(ctx context.Context, name string, in jsontext.Value, p Progress) (jsontext.Value, error) {
			return commands[name](ctx, s, in, p)
		},
		close: s.Close,
	}, nil
}

// Close lets go of the server or the data directory.
func (a *Admin) Close() error { return a.close() }

// dialControl returns nil where no server answers, for example because it was
// killed and left its file behind.
func dialControl(ctx context.Context, dir string) *Admin {
	text, err := os.ReadFile(filepath.Join(dir, controlName))
	if err != nil {
		return nil
	}
	var c controlFile
	if json.Unmarshal(text, &c) != nil {
		return nil
	}
	var d net.Dialer
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, c.Network, c.Address)
	}}
	client := &http.Client{Transport: transport}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://control/health", nil)
	if err != nil {
		return nil
	}
	res, err := client.Do(req)
	if err != nil {
		return nil
	}
	_ = res.Body.Close()
	return &Admin{
		run: func(ctx context.Context, name string, in jsontext.Value, p Progress) (jsontext.Value, error) {
			return callControl(ctx, client, c.Secret, name, in, p)
		},
		close: func() error { transport.CloseIdleConnections(); return nil },
	}
}

// callControl sends a command and follows its lines to the last.
func callControl(ctx context.Context, client *http.Client, secret, name string, in jsontext.Value, p Progress) (jsontext.Value, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://control/"+name, bytes.NewReader(in))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 4096)) // any part of it is better than none
		return nil, fmt.Errorf("the running server refused: %s", text)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var l line
		switch err := json.Unmarshal(lines.Bytes(), &l); {
		case err != nil:
			return nil, fmt.Errorf("control socket: %w", err)
		case l.Error != "":
			return nil, errors.New(l.Error)
		case l.Result != nil:
			return l.Result, nil
		case p != nil:
			p(l.Done, l.Total)
		}
	}
	return nil, errors.Join(errors.New("the running server stopped before the command was done"), lines.Err())
}

// command is one entry of what a server can be told.
type command func(ctx context.Context, s *Server, in jsontext.Value, p Progress) (jsontext.Value, error)

// commandOf adapts a typed function.
func commandOf[In, Out any](fn func(context.Context, *Server, In, Progress) (Out, error)) command {
	return func(ctx context.Context, s *Server, in jsontext.Value, p Progress) (jsontext.Value, error) {
		var typed In
		if err := json.Unmarshal(in, &typed); err != nil {
			return nil, fmt.Errorf("bad command: %w", err)
		}
		out, err := fn(ctx, s, typed, p)
		if err != nil {
			return nil, plain(err)
		}
		return json.Marshal(out)
	}
}

// plain says for people what the API says with codes.
func plain(err error) error {
	var told *matrix.Error
	switch {
	case errors.As(err, &told):
		return errors.New(told.Message)
	case errors.Is(err, storage.ErrNotFound):
		return errors.New("not found")
	default:
		return err
	}
}

// do runs a command through a.
func do[Out any](ctx context.Context, a *Admin, name string, in any, p Progress) (Out, error) {
	var out Out
	text, err := json.Marshal(in)
	if err != nil {
		return out, fmt.Errorf("%s: %w", name, err)
	}
	result, err := a.run(ctx, name, text, p)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(result, &out); err != nil {
		return out, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}
