package spill

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// What a killed process left is removed; nothing else is.
func TestClean(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{name + "1", "hearth.db"} {
		if err := os.WriteFile(dir+"/"+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	Clean(dir)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "hearth.db" {
		t.Errorf("left: %v, %v", left, err)
	}
}

// The file gives back exactly what was written, however it was.
func TestBuffer(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, inMemory, inMemory + 1, 3*inMemory + 5} {
		b := New(t.TempDir())
		text := bytes.Repeat([]byte("0123456789"), n/10+1)[:n]
		for rest := text; len(rest) > 0; {
			part := rest[:min(len(rest), 70001)]
			rest = rest[len(part):]
			b.Text(string(part[:len(part)/2]))
			if _, err := b.Write(part[len(part)/2:]); err != nil {
				t.Fatal(err)
			}
		}
		if held := b.buf.Cap(); held > 2*inMemory+piece || n > inMemory && b.file == nil {
			t.Errorf("%d bytes: %d are in memory, the file is %v", n, held, b.file)
		}
		var got bytes.Buffer
		if _, err := b.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), text) {
			t.Errorf("%d bytes: got %d, %v", n, got.Len(), err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Where there is no room for the file, whoever writes learns of it, and the
// answer is not told by half.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	b := New(filepath.Join(t.TempDir(), "missing"))
	part := bytes.Repeat([]byte("x"), piece)
	var err error
	for range inMemory/piece + 1 {
		_, err = b.Write(part)
	}
	if err == nil || b.Err() == nil {
		t.Errorf("writing: %v, kept: %v", err, b.Err())
	}
	b.Text("more")
	if err := b.WriteJSON(io.Discard); err == nil {
		t.Error("half an answer was written")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
