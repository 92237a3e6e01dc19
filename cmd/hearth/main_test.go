package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
)

// binary is the program under test, built once as users build it: without cgo.
var binary string

func TestMain(m *testing.M) {
	if os.Getenv(holdVariable) != "" {
		os.Exit(serveHolding())
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hearth")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "hearth")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// hearth runs a command in dir, with env added, and returns output and exit code.
func hearth(t *testing.T, dir string, env []string, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(cleanEnv(), env...), strings.NewReader(stdin)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatalf("%v: %v", args, err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// cleanEnv is the environment without what configures Hearth.
func cleanEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HEARTH_") {
			env = append(env, kv)
		}
	}
	return env
}

// process is a server that runs as its own process.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	ready  struct {
		Name   string   `json:"name"`
		PID    int      `json:"pid"`
		URL    string   `json:"url"`
		Client []string `json:"client"`
	}
}

// startProcess starts a server in dir on a free port and waits for its ready line.
func startProcess(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), binary,
		append([]string{"--listen", "127.0.0.1:0", "--ready-json", "-"}, args...)...)}
	p.cmd.Dir, p.cmd.Env = dir, cleanEnv()
	p.cmd.Stderr = os.Stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	line, err := p.stdout.ReadBytes('\n')
	if err != nil {
		t.Fatalf("no ready line: %v", err)
	}
	if err := json.Unmarshal(line, &p.ready); err != nil {
		t.Fatalf("ready line %s: %v", line, err)
	}
	return p
}

// wait returns how the process ended.
func (p *process) wait() error {
	_, _ = io.Copy(io.Discard, p.stdout)
	return p.cmd.Wait()
}

func get(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func TestServeFromNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startProcess(t, dir)
	if p.ready.Name != "localhost" || p.ready.PID != p.cmd.Process.Pid || len(p.ready.Client) != 1 {
		t.Errorf("ready line: %+v", p.ready)
	}
	if got := get(t, p.ready.URL+"/_matrix/client/versions"); got != 200 {
		t.Errorf("got %d", got)
	}
	if info, err := os.Stat(filepath.Join(dir, "hearth-data")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("data directory: %v, %v", info, err)
	}
	if _, stderr, code := hearth(t, dir, nil, "", "--listen", "127.0.0.1:0"); code != 1 || !strings.Contains(stderr, "in use") {
		t.Errorf("a second server: %d %s", code, stderr)
	}
	stop(t, p)
}

func stop(t *testing.T, p *process) {
	t.Helper()
	if runtime.GOOS == "windows" {
		return // no signals there; killed by the cleanup
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// TestFirstRunToken: it is printed while there is no administrator, admits one,
// and is gone.
func TestFirstRunToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	greeting := func() string {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "serve", "--listen", "127.0.0.1:0", "--exit-with-parent")
		cmd.Dir, cmd.Env = dir, cleanEnv()
		out, err := cmd.Output() // no standard input: it stops as soon as it has started
		if err != nil {
			t.Fatalf("%v", err)
		}
		return string(out)
	}
	text := greeting()
	if !strings.Contains(text, "http://127.0.0.1:") {
		t.Errorf("no address: %s", text)
	}
	m := regexp.MustCompile(`registration token: (\S+)`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no token: %s", text)
	}
	p := startProcess(t, dir)
	for _, tt := range []struct {
		name string
		want int
	}{{"boss", 200}, {"second", 401}} {
		body := fmt.Sprintf(`{"username":%q,"password":"correct horse","auth":{"type":"m.login.registration_token","token":%q,"session":%q}}`,
			tt.name, m[1], session(t, p.ready.URL))
		status, answer := post(t, p.ready.URL+"/_matrix/client/v3/register", body)
		if tt.want == 200 && status != 200 || tt.want != 200 && status == 200 {
			t.Errorf("%s: got %d %v", tt.name, status, answer)
		}
	}
	stop(t, p)
	out, _, code := hearth(t, dir, nil, "", "user", "list")
	if code != 0 || !regexp.MustCompile(`@boss:localhost +admin`).MatchString(out) || strings.Contains(out, "second") {
		t.Errorf("user list: %d %s", code, out)
	}
	if text := greeting(); strings.Contains(text, "token") {
		t.Errorf("there is an administrator: %s", text)
	}
}

// session begins a registration and returns its interactive-auth session.
func session(t *testing.T, url string) string {
	t.Helper()
	_, answer := post(t, url+"/_matrix/client/v3/register", `{"username":"someone","password":"correct horse"}`)
	s, _ := answer["session"].(string)
	return s
}

func post(t *testing.T, url, body string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer := map[string]any{}
	if err := json.UnmarshalRead(res.Body, &answer); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, answer
}

func TestExitWithParent(t *testing.T) {
	t.Parallel()
	p := startProcess(t, t.TempDir(), "--exit-with-parent")
	if got := get(t, p.ready.URL+"/health"); got != 200 {
		t.Errorf("got %d", got)
	}
	if err := p.stdin.Close(); err != nil { // as the kernel does when a parent dies
		t.Fatal(err)
	}
	if err := p.wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// TestRestartAfterKill: what a kill leaves behind is in nobody's way.
func TestRestartAfterKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startProcess(t, dir)
	if _, stderr, code := hearth(t, dir, nil, "some password", "user", "add", "--password-stdin", "alice"); code != 0 {
		t.Fatalf("user add: %d %s", code, stderr)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.wait() // killed
	if out, stderr, code := hearth(t, dir, nil, "", "user", "list"); code != 0 || !strings.Contains(out, "@alice:localhost") {
		t.Errorf("user list beside a stale control file: %d %s %s", code, out, stderr)
	}
	p = startProcess(t, dir)
	if out, stderr, code := hearth(t, dir, nil, "", "user", "list"); code != 0 || !strings.Contains(out, "@alice:localhost") {
		t.Errorf("user list after the restart: %d %s %s", code, out, stderr)
	}
	stop(t, p)
}

func TestReadyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "ready.json")
	if _, stderr, code := hearth(t, dir, nil, "", "--listen", "127.0.0.1:0", "--ready-json", file, "--exit-with-parent"); code != 0 {
		t.Fatalf("%d %s", code, stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), `"client":["127.0.0.1:`) || !strings.HasSuffix(string(text), "}\n") {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestBadStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.toml")
	if err := os.WriteFile(bad, []byte("[server]\nnmae = 'x'\nname = 3\n[log]\nlevel = 'loud'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		env  []string
		args []string
		want []string
	}{
		{"file", nil, []string{"--config", bad}, []string{"server.nmae: unknown key", "server.name: want a string", "log.level"}},
		{"file and flag and environment", []string{"HEARTH_TO_DEVICE_SYNC_BATCH=x"}, []string{"-c", bad, "--registration", "maybe"},
			[]string{"server.nmae", "HEARTH_TO_DEVICE_SYNC_BATCH", "registration.mode", "log.level"}},
		{"no file", nil, []string{"--config", filepath.Join(dir, "none.toml")}, []string{"none.toml"}},
		{"check", nil, []string{"check", "--config", bad}, []string{"server.nmae"}},
		{"unknown flag", nil, []string{"--frobnicate"}, []string{"hearth: flag provided but not defined: -frobnicate; see hearth --help\n"}},
		{"unknown flag of a command", nil, []string{"user", "list", "--x"}, []string{"hearth: flag provided but not defined: -x; see hearth user list --help\n"}},
		{"unknown command", nil, []string{"sreve"}, []string{"sreve"}},
		{"unknown subcommand", nil, []string{"user", "frob"}, []string{"hearth: hearth user has no command \"frob\"; see hearth user --help\n"}},
		{"argument", nil, []string{"serve", "now"}, []string{"now"}},
		{"address", nil, []string{"--listen", "nowhere"}, []string{"listen.client"}},
		{"no data", nil, []string{"user", "list"}, []string{"no server has used"}},
		{"no name", nil, []string{"user", "add"}, []string{"usage: hearth user add NAME"}},
		{"no subcommand", nil, []string{"token"}, []string{"needs a command"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := hearth(t, dir, tt.env, "", tt.args...)
			if code != 1 {
				t.Errorf("exit code %d", code)
			}
			if strings.Count(stderr, "hearth: ") != 1 || stdout != "" {
				t.Errorf("said more than once what is wrong: %s%s", stdout, stderr)
			}
			for _, want := range tt.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q does not name %q", stderr+stdout, want)
				}
			}
		})
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "homeserver.toml"), []byte("[server]\nname='file.test'\n[listen]\nclient=['127.0.0.1:1']\n[log]\nlevel='error'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func(env []string, args ...string) string {
		t.Helper()
		out, stderr, code := hearth(t, t.TempDir(), env, "", append([]string{"--config", filepath.Join(dir, "homeserver.toml"), "--listen", "127.0.0.1:0", "--exit-with-parent", "--ready-json", "-"}, args...)...)
		if code != 0 {
			t.Fatalf("%d %s", code, stderr)
		}
		var ready struct{ Name string }
		if err := json.Unmarshal([]byte(out), &ready, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		return ready.Name
	}
	for _, tt := range []struct {
		env  []string
		args []string
		want string
	}{
		{nil, nil, "file.test"},
		{[]string{"HEARTH_SERVER_NAME=env.test"}, nil, "env.test"},
		{[]string{"HEARTH_SERVER_NAME=env.test"}, []string{"--name", "flag.test"}, "flag.test"},
	} {
		if got := serve(tt.env, tt.args...); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// TestAccounts runs each account command, with and without a running server.
func TestAccounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startProcess(t, dir)
	ok := func(stdin string, args ...string) string {
		t.Helper()
		out, stderr, code := hearth(t, dir, nil, stdin, args...)
		if code != 0 || stderr != "" {
			t.Fatalf("%v: %d %s%s", args, code, out, stderr)
		}
		return out
	}
	if got := ok("", "user", "add", "--admin", "alice"); !regexp.MustCompile(`^@alice:localhost\npassword: \S{20,}\n$`).MatchString(got) {
		t.Errorf("got %q", got)
	}
	if got := ok("some password\n", "user", "add", "bob", "--password-stdin"); got != "@bob:localhost\n" {
		t.Errorf("got %q", got)
	}
	login := func(password string) int {
		status, _ := post(t, p.ready.URL+"/_matrix/client/v3/login", fmt.Sprintf(`{"type":"m.login.password","identifier":{"type":"m.id.user","user":"bob"},"password":%q}`, password))
		return status
	}
	if got := login("some password"); got != 200 {
		t.Errorf("log in: %d", got)
	}
	ok("another password", "user", "reset-password", "--password-stdin", "@bob:localhost")
	if got := login("some password"); got != 403 {
		t.Errorf("log in with the old password: %d", got)
	}
	state := func(want string) {
		t.Helper()
		if got := ok("", "user", "list"); !regexp.MustCompile(`(?m)^@bob:localhost +` + want + `  +\d`).MatchString(got) {
			t.Errorf("want %q in %s", want, got)
		}
	}
	ok("", "user", "lock", "bob")
	state("user, locked")
	if got := login("another password"); got != 401 {
		t.Errorf("log in to a locked account: %d", got)
	}
	ok("", "user", "suspend", "@bob:localhost")
	state("user, locked, suspended")
	ok("", "user", "unlock", "bob")
	state("user, suspended")
	if got := login("another password"); got != 200 {
		t.Errorf("log in to an unlocked account: %d", got)
	}
	ok("", "user", "unsuspend", "bob")
	state("user")
	if _, stderr, code := hearth(t, dir, nil, "", "user", "lock", "nobody"); code != 1 || stderr != "hearth: there is no user @nobody:localhost\n" {
		t.Errorf("lock nobody: %d %s", code, stderr)
	}
	ok("", "user", "deactivate", "bob")
	if got := login("another password"); got == 200 {
		t.Error("logged in to a deactivated account")
	}
	if got := ok("", "token", "add", "--uses", "2", "--expires", "7d", "welcome"); got != "welcome\n" {
		t.Errorf("got %q", got)
	}
	stop(t, p)
	if got := ok("", "token", "list"); !regexp.MustCompile(`welcome +0 of 2 +in [67]d\S* +valid`).MatchString(got) {
		t.Errorf("got %s", got)
	}
	ok("", "token", "revoke", "welcome")
	if got := ok("", "user", "list"); !regexp.MustCompile(`@bob:localhost +deactivated`).MatchString(got) {
		t.Errorf("got %s", got)
	}
	if _, stderr, code := hearth(t, dir, nil, "", "token", "revoke", "welcome"); code != 1 || stderr != "hearth: there is no such registration token; see hearth token list\n" {
		t.Errorf("revoked twice: %d %s", code, stderr)
	}
}

// TestBackupAndRestore: a backup of a running server, restored, is that server
// as it was.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startProcess(t, dir)
	run := func(want int, args ...string) string {
		t.Helper()
		out, stderr, code := hearth(t, dir, nil, "some password", args...)
		if code != want {
			t.Fatalf("%v: %d %s%s", args, code, out, stderr)
		}
		return out + stderr
	}
	run(0, "user", "add", "--password-stdin", "alice")
	run(0, "backup", "saved.db")
	if got := run(1, "backup", "saved.db"); !strings.Contains(got, "exists already") {
		t.Errorf("a second backup over the first: %s", got)
	}
	run(0, "user", "add", "--password-stdin", "bob")
	if got := run(0, "check"); !strings.Contains(got, "data: good") {
		t.Errorf("check: %s", got)
	}
	if got := run(1, "restore", "saved.db"); !strings.HasSuffix(got, fmt.Sprintf("the data directory is in use: hearth-data, by process %d\n", p.cmd.Process.Pid)) {
		t.Errorf("restore under a running server: %s", got)
	}
	stop(t, p)
	if got := run(1, "restore", "homeserver.toml"); !strings.Contains(got, "homeserver.toml") {
		t.Errorf("restore of nothing: %s", got)
	}
	for name, want := range wrongBackups(t, dir) {
		if got := run(1, "restore", name); !strings.Contains(got, filepath.Join(dir, name)) || !strings.Contains(got, want) {
			t.Errorf("restore of %s: %s; want its path and %q", name, got, want)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "hearth-data", "*.restoring*")); len(left) > 0 || err != nil {
		t.Errorf("refused backups leave %v, %v", left, err)
	}
	run(0, "restore", "saved.db")
	if got := run(0, "user", "list"); !strings.Contains(got, "@alice:") || strings.Contains(got, "@bob:") {
		t.Errorf("after the restore: %s", got)
	}
	if got := run(0, "check"); !strings.Contains(got, "data: good") {
		t.Errorf("check after the restore: %s", got)
	}
	run(0, "backup", "offline.db")
	damage(t, filepath.Join(dir, "hearth-data", "hearth.db"))
	run(1, "check")
}

// wrongBackups makes files in dir that are no backups, with what is said of each.
func wrongBackups(t *testing.T, dir string) map[string]string {
	t.Helper()
	good, err := os.ReadFile(filepath.Join(dir, "saved.db"))
	if err != nil {
		t.Fatal(err)
	}
	foreign := bytes.Clone(good)
	copy(foreign[68:72], "else") // the application ID in the header of an SQLite file
	for name, content := range map[string][]byte{
		"text.db": []byte(strings.Repeat("not a database ", 100)), "empty.db": nil, "half.db": good[:len(good)/2], "foreign.db": foreign,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "directory.db"), 0o700); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"text.db": "cannot be restored: file is not a database", "empty.db": "not a database of this program",
		"half.db": "cannot be restored", "foreign.db": "not a database of this program",
		"directory.db": "is not a file", "none.db": "no such file",
	}
}

// damage overwrites the middle of a file.
func damage(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteAt(bytes.Repeat([]byte("x"), 100_000), 4096); err != nil {
		t.Fatal(err)
	}
}

// TestProgressBar draws what people see on a terminal.
func TestProgressBar(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	step, done := drawProgress(&b, "backup")
	step(50, 200)
	if !strings.Contains(b.String(), "25%") {
		t.Errorf("drew %q", b.String())
	}
	done()
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if out, _, code := hearth(t, t.TempDir(), nil, "", "version"); code != 0 || !strings.HasPrefix(out, "hearth ") || !strings.Contains(out, "go1.") {
		t.Errorf("got %d %s", code, out)
	}
}
