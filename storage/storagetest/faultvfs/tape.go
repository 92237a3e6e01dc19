package faultvfs

import (
	"bytes"
	"os"
	"path/filepath"
)

// record is one call that happened.
type record struct {
	op   Op
	path string
	off  int64 // of a write; the new size at a truncation
	data []byte
}

// Record begins a new tape, or ends the running one. Begin before the files
// exist: an image is made of the tape alone.
func (v *VFS) Record(on bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.recording = on
	v.tape = nil
}

func (v *VFS) record(r record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.recording || r.path == "" {
		return
	}
	r.data = bytes.Clone(r.data)
	v.tape = append(v.tape, r)
}

// Mark is the tape's length now: the moment of an acknowledgement, say.
func (v *VFS) Mark() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.tape)
}

// Image writes into dir the files as a power failure at mark would have left
// them at worst: of each file, exactly what had been synced.
func (v *VFS) Image(dir string, mark int) error {
	v.mu.Lock()
	tape := v.tape[:mark:mark]
	v.mu.Unlock()
	type state struct {
		written []byte // as programs see it
		durable []byte // as the disk holds it; nil: not even its name
	}
	all := map[string]*state{}
	for _, r := range tape {
		f := all[r.path]
		if f == nil {
			f = &state{}
			all[r.path] = f
		}
		switch r.op {
		case Write:
			if need := int(r.off) + len(r.data); need > len(f.written) {
				f.written = append(f.written, make([]byte, need-len(f.written))...)
			}
			copy(f.written[r.off:], r.data)
		case Truncate:
			f.written = f.written[:min(int(r.off), len(f.written))]
		case Sync:
			f.durable = append([]byte{}, f.written...)
		case Delete:
			*f = state{}
		}
	}
	for path, f := range all {
		if f.durable == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), f.durable, 0o600); err != nil {
			return err
		}
	}
	return nil
}
