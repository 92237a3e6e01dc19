package acceptance

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hearth/server/testserver"
)

// Clients that take their time over a long answer cost the server no memory for
// the rest of it, whichever endpoint they ask. It measures the memory of the
// process, so no other test may run beside it.
func TestSlowReaders(t *testing.T) { //nolint:paralleltest // see above
	hs := testserver.New(t)
	alice := hs.Register("alice")
	room := alice.CreateRoom(`{"preset":"public_chat"}`)
	const size = 150 * 60_000
	for i := range 150 {
		alice.SetState(room, "x.big", fmt.Sprint(i), `{"x":"`+strings.Repeat("x", 60_000)+`"}`)
	}
	said := alice.Say(room, "hello")
	for _, path := range []string{
		testserver.RoomPath(room, "state"), testserver.RoomPath(room, "initialSync") + "?limit=1",
		testserver.RoomPath(room, "context", string(said)) + "?limit=0", v3 + "/sync",
	} {
		const readers = 6
		before := inUse()
		var bodies []io.Closer
		for range readers {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, alice.Site().URL()+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+alice.Token.Reveal())
			resp, err := (&http.Transport{}).RoundTrip(req) // a connection of its own
			if err != nil {
				t.Fatal(err)
			}
			if _, err := resp.Body.Read(make([]byte, 1)); err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s, %v", path, resp.Status, err)
			}
			bodies = append(bodies, resp.Body)
		}
		if held := inUse() - before; held > size {
			t.Errorf("%s: %d readers of %d bytes each hold %d bytes", path, readers, size, held)
		}
		for _, b := range bodies {
			_ = b.Close()
		}
	}
	// Once nobody reads any more, no file is left: open, or with its name.
	giveUp := time.After(time.Minute)
	for tick := time.NewTicker(time.Millisecond); openAnswers(t, hs.Dir()) > 0; {
		select {
		case <-tick.C:
		case <-giveUp:
			t.Fatal("answers stay on disk after their readers went away")
		}
	}
}

// openAnswers counts the answers that are on disk. Where the system tells which
// files are open, those count that have lost their name.
func openAnswers(t *testing.T, dir string) (n int) {
	t.Helper()
	for _, d := range []string{dir, "/proc/self/fd"} {
		files, err := os.ReadDir(d)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			name := f.Name()
			if to, err := os.Readlink(filepath.Join(d, name)); err == nil {
				name = filepath.Base(to)
			}
			if strings.HasPrefix(name, "hearth-answer-") {
				n++
			}
		}
	}
	return n
}
