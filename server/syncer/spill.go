package syncer

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	// spillAt is how much of an answer stays in memory, in bytes. Hardly any
	// answer but a first sync is longer.
	spillAt = 256 << 10
	// spillPiece is how much is written to the file at once, once there is one.
	spillPiece = 64 << 10
	spillName  = "hearth-sync-"
)

// spill takes an answer while it is encoded: the beginning in memory, the whole
// in a temporary file once it is long. So the snapshot it is read from ends
// before the first byte goes to a client, however slow that one is, and a
// thousand long answers cost no memory. It must be closed.
type spill struct {
	dir  string // where the file goes; "": where the system has such files
	buf  bytes.Buffer
	file *os.File // nil: all is in buf
	// named is set where the file still has its name, and Close must remove it.
	named bool
	n     int64
}

// Write implements io.Writer. It fails only where the file cannot be written.
func (s *spill) Write(p []byte) (int, error) {
	s.n += int64(len(p))
	s.buf.Write(p)
	if s.file == nil && s.buf.Len() > spillAt || s.file != nil && s.buf.Len() > spillPiece {
		if err := s.flush(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// text writes what cannot make the spill fail: the next Write finds out.
func (s *spill) text(t string) {
	s.n += int64(len(t))
	s.buf.WriteString(t)
}

// Len is the number of bytes written.
func (s *spill) Len() int64 { return s.n }

func (s *spill) flush() error {
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, spillName+"*")
		if err != nil {
			return fmt.Errorf("long answer: %w", err)
		}
		s.file = f
		// Where an open file may lose its name, a crash leaves nothing behind.
		s.named = os.Remove(f.Name()) != nil
	}
	if _, err := s.buf.WriteTo(s.file); err != nil {
		return fmt.Errorf("long answer: %w", err)
	}
	if s.buf.Cap() > 2*spillPiece {
		s.buf = bytes.Buffer{}
	}
	return nil
}

// WriteTo implements io.WriterTo. It may be called once, and ends the writing.
func (s *spill) WriteTo(w io.Writer) (int64, error) {
	if s.file == nil {
		return s.buf.WriteTo(w)
	}
	if err := s.flush(); err != nil {
		return 0, err
	}
	s.buf = bytes.Buffer{} // the client may be slow, and not the only one
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return 0, fmt.Errorf("long answer: %w", err)
	}
	// The file must not offer its own ways of copying: they may hold a
	// connection for the whole length, without a deadline for each piece.
	return io.CopyBuffer(w, struct{ io.Reader }{s.file}, make([]byte, spillPiece/4))
}

// Close gives up the file. It may be called more than once.
func (s *spill) Close() error {
	if s == nil || s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	_ = f.Close()
	if s.named {
		_ = os.Remove(f.Name())
	}
	return nil
}

// removeSpills removes what a process left in its directory when it was killed,
// on systems where an open file keeps its name.
func removeSpills(dir string) {
	if dir == "" {
		return // shared with others
	}
	entries, _ := os.ReadDir(dir) // a directory that cannot be read fails elsewhere
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), spillName) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
