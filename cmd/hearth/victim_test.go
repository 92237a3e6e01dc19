package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"hearth/storage/matrix"
)

// victim is the real binary on a directory of its own, to be killed and started
// again and again.
type victim struct {
	tb   testing.TB
	name matrix.ServerName
	dir  string
	env  []string
	// holds makes the process this test binary, whose COMMITs can be held.
	holds bool

	mu   sync.Mutex // guards base
	base string

	cmd *exec.Cmd
}

// newVictim prepares a server that listens on a free port of loopback,
// with open registration and no rate limits.
func newVictim(tb testing.TB) *victim {
	tb.Helper()
	dir := tb.TempDir()
	p := &victim{tb: tb, name: "crash.test", dir: dir, env: []string{
		"HEARTH_SERVER_NAME=crash.test",
		"HEARTH_LISTEN_CLIENT=127.0.0.1:0",
		"HEARTH_LISTEN_FEDERATION=",
		"HEARTH_REGISTRATION_MODE=open",
		"HEARTH_RATE_LIMITS_ENABLED=false",
		"HEARTH_LOG_LEVEL=warn",
	}}
	tb.Cleanup(p.kill)
	return p
}

// url is where the server listens now.
func (p *victim) url() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.base
}

// start runs the server and waits until it listens.
func (p *victim) start() {
	p.tb.Helper()
	cmd := exec.Command(binary, "serve", "--ready-json", "-")
	cmd.Env = append(cleanEnv(), p.env...)
	if p.holds {
		self, err := os.Executable()
		if err != nil {
			p.tb.Fatal(err)
		}
		cmd.Path, cmd.Args = self, []string{self}
		cmd.Env = append(cmd.Env, holdVariable+"=1")
	}
	cmd.Dir = p.dir
	cmd.Stderr = &tail{}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.tb.Fatalf("start: %v", err)
	}
	p.cmd = cmd
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		var ready struct {
			URL string `json:"url"`
		}
		if json.Unmarshal(line, &ready) == nil && ready.URL != "" {
			p.mu.Lock()
			p.base = ready.URL
			p.mu.Unlock()
			break
		}
		if err != nil {
			p.tb.Fatalf("the server ended before it was ready: %v\n%s", err, cmd.Stderr)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
}

// kill ends the server with SIGKILL and waits until it is gone.
func (p *victim) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.cmd = nil
}

// tail keeps the last few kilobytes of what the server logged.
type tail struct {
	mu   sync.Mutex // guards text
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - 8<<10; over > 0 {
		t.text = t.text[over:]
	}
	return len(b), nil
}

// String implements fmt.Stringer.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
