package server

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/web"
	"hearth/storage/matrix"
)

// controlName is the file in the data directory that tells command-line tools
// how to reach the running server. Who may read it may administer the server.
const controlName = "control.json"

// controlFile is the content of that file.
type controlFile struct {
	Network string `json:"network"` // unix; tcp where there are no Unix sockets or the path is too long
	Address string `json:"address"`
	Secret  string `json:"secret"`
	PID     int    `json:"pid"`

	path string
}

// maxSocketPath is how long the path of a Unix socket may be everywhere: 104
// bytes with the final NUL on macOS, 108 on Linux.
const maxSocketPath = 100

// openControl binds the control socket and announces it. The lock on the data
// directory is held, so what lies there is left over.
func (s *Server) openControl(ctx context.Context) (*controlFile, error) {
	dir, err := filepath.Abs(s.cfg.Server.DataDir)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	c := &controlFile{Network: "unix", Address: filepath.Join(dir, "control.sock"), PID: os.Getpid(), path: filepath.Join(dir, controlName)}
	if runtime.GOOS == "windows" || len(c.Address) > maxSocketPath {
		c.Network, c.Address = "tcp", "127.0.0.1:0"
	} else if err := os.Remove(c.Address); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, c.Network, c.Address)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	var secret [24]byte
	_, _ = rand.Read(secret[:]) // never fails
	c.Address, c.Secret = l.Addr().String(), hex.EncodeToString(secret[:])

	kernel := web.New(web.Options{Log: s.log.Named("control")})
	kernel.Routes([]web.Route{{Method: "POST", Path: "/{command}", Handler: web.PublicStream(s.serveControl)}})
	s.kernels = append(s.kernels, kernel)
	s.sites = append(s.sites, site{l, newHTTPServer(kernel.Handler(), s.log), false})
	if c.Network == "unix" {
		err = os.Chmod(c.Address, 0o600)
	}
	return c, errors.Join(err, c.write())
}

// write puts the file in place whole: readers see the old one or the new one.
func (c *controlFile) write() error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("control file: %w", err)
	}
	if err := WriteFile(c.path, append(text, '\n')); err != nil {
		return fmt.Errorf("control file: %w", err)
	}
	return nil
}

func (c *controlFile) remove() error {
	if err := os.Remove(c.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("control file: %w", err)
	}
	return nil
}

// WriteFile replaces the file at path in one step, readable by its owner only.
func WriteFile(path string, text []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(text)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// line is one line of a control response: progress while the command runs, then
// its result or its error.
type line struct {
	Done   int64          `json:"done,omitzero"`
	Total  int64          `json:"total,omitzero"`
	Result jsontext.Value `json:"result,omitzero"`
	Error  string         `json:"error,omitzero"`
}

// serveControl runs one command. Whoever knows the secret may.
func (s *Server) serveControl(w http.ResponseWriter, r *http.Request, c *web.Call) error {
	want := "Bearer " + s.control.Secret
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(want)) != 1 {
		return matrix.Errorf(matrix.Forbidden, "wrong secret")
	}
	cmd := commands[c.Vars["command"]]
	if cmd == nil {
		return matrix.Errorf(matrix.Unrecognized, "this server does not know the command")
	}
	var in jsontext.Value
	if err := json.UnmarshalRead(http.MaxBytesReader(w, r.Body, web.DefaultMaxBody), &in); err != nil {
		return matrix.Errorf(matrix.NotJSON, "bad command: %v", err)
	}
	say := func(l line) {
		text, err := json.Marshal(l)
		if err == nil {
			_, _ = w.Write(append(text, '\n')) // a tool that left hears nothing, and the command goes on
		}
		_ = http.NewResponseController(w).Flush() // the same
	}
	out, err := cmd(r.Context(), s, in, func(done, total int64) { say(line{Done: done, Total: total}) })
	last := line{Result: out}
	if err != nil {
		last = line{Error: err.Error()}
	}
	say(last)
	return nil
}
