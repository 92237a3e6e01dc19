// Package spill holds long answers until their clients have read them.
package spill

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	// inMemory is how much of an answer stays in memory, in bytes. Hardly any
	// answer but a first sync is longer.
	inMemory = 256 << 10
	// piece is how much is written to the file at once, once there is one.
	piece = 64 << 10
	name  = "hearth-answer-"
)

// Buffer takes an answer while it is encoded: the beginning in memory, the whole
// in a temporary file once it is long. So the snapshot it is read from ends
// before the first byte goes to a client, however slow that one is, and a
// thousand long answers cost no memory. It must be closed, and is not for
// concurrent use.
type Buffer struct {
	dir  string
	buf  bytes.Buffer
	file *os.File // nil: all is in buf
	// named is set where the file still has its name, and Close must remove it.
	named bool
	err   error // why the file cannot be written
}

// New makes an empty Buffer, whose file goes to dir, or with "" to where the
// system has such files.
func New(dir string) *Buffer { return &Buffer{dir: dir} }

// Write implements io.Writer. It fails only where the file cannot be written,
// and then always.
func (b *Buffer) Write(p []byte) (int, error) {
	if b.buf.Write(p); b.err == nil && (b.file == nil && b.buf.Len() > inMemory || b.file != nil && b.buf.Len() > piece) {
		b.err = b.flush()
	}
	if b.err != nil {
		b.buf = bytes.Buffer{}
		return 0, b.err
	}
	return len(p), nil
}

// Text writes a short text, which cannot fail: what follows finds out.
func (b *Buffer) Text(t string) { b.buf.WriteString(t) }

// Err tells whether something of what was written is lost.
func (b *Buffer) Err() error { return b.err }

func (b *Buffer) flush() error {
	if b.file == nil {
		f, err := os.CreateTemp(b.dir, name+"*")
		if err != nil {
			return fmt.Errorf("long answer: %w", err)
		}
		b.file = f
		// Where an open file may lose its name, a crash leaves nothing behind.
		b.named = os.Remove(f.Name()) != nil
	}
	if _, err := b.buf.WriteTo(b.file); err != nil {
		return fmt.Errorf("long answer: %w", err)
	}
	if b.buf.Cap() > 2*piece {
		b.buf = bytes.Buffer{}
	}
	return nil
}

// WriteTo implements io.WriterTo. It may be called once, and ends the writing.
func (b *Buffer) WriteTo(w io.Writer) (int64, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.file == nil {
		return b.buf.WriteTo(w)
	}
	if err := b.flush(); err != nil {
		return 0, err
	}
	b.buf = bytes.Buffer{} // the client may be slow, and not the only one
	if _, err := b.file.Seek(0, io.SeekStart); err != nil {
		return 0, fmt.Errorf("long answer: %w", err)
	}
	// The file must not offer its own ways of copying: they may hold a
	// connection for the whole length, without a deadline for each piece.
	return io.CopyBuffer(w, struct{ io.Reader }{b.file}, make([]byte, piece/4))
}

// WriteJSON is [Buffer.WriteTo], as answers are written.
func (b *Buffer) WriteJSON(w io.Writer) error {
	_, err := b.WriteTo(w)
	return err
}

// Close gives up the file. It may be called more than once, and of nil.
func (b *Buffer) Close() error {
	if b == nil || b.file == nil {
		return nil
	}
	f := b.file
	b.file = nil
	_ = f.Close()
	if b.named {
		_ = os.Remove(f.Name())
	}
	return nil
}

// Clean removes what a process left in its directory when it was killed,
// on systems where an open file keeps its name.
func Clean(dir string) {
	if dir == "" {
		return // shared with others
	}
	entries, _ := os.ReadDir(dir) // a directory that cannot be read fails elsewhere
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), name) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
