// Package faultvfs puts a SQLite file system of the tests' own over the
// system's: it can refuse a chosen call as a full or broken disk would, make
// calls slow, and record what was written and what was synced, from which it
// builds the files that a power failure would have left behind. It is for
// tests, and registered in the process until it ends.
package faultvfs

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Op is a kind of call that changes a file or makes a change durable.
type Op int

// The calls that can be watched.
const (
	Write Op = iota
	Sync
	Truncate
	Delete
)

func (o Op) String() string { return [...]string{"write", "sync", "truncate", "delete"}[o] }

// Code is what SQLite is told a call ended with; 0 lets the call happen.
type Code int32

// What a disk says.
const (
	Full       Code = sqlite3.SQLITE_FULL
	WriteError Code = sqlite3.SQLITE_IOERR_WRITE
	SyncError  Code = sqlite3.SQLITE_IOERR_FSYNC
)

// Call is one call before it happens.
type Call struct {
	Op     Op
	File   string // its base name
	Offset int64  // of a write; the new size at a truncation
	Size   int    // of a write
}

// WAL tells whether the call is about a write-ahead log.
func (c Call) WAL() bool { return filepath.Ext(c.File) == ".db-wal" }

// VFS is one registered file system.
type VFS struct {
	name string
	self uintptr // the sqlite3_vfs
	base uintptr // the system's sqlite3_vfs

	hook atomic.Pointer[func(Call) Code]

	mu        sync.Mutex // guards what follows
	recording bool
	tape      []record
}

var (
	// serial numbers the registered file systems of the process.
	serial atomic.Int64
	// registering is held while one is registered: SQLite links it into the
	// system's sqlite3_vfs, which the next one copies.
	registering sync.Mutex
)

// New registers a file system over the system's. Its Name goes into
// storage.Options.VFS.
func New() (*VFS, error) {
	tls := libc.NewTLS()
	defer tls.Close()
	registering.Lock()
	defer registering.Unlock()
	v := &VFS{name: fmt.Sprintf("fault%d", serial.Add(1))}
	if v.base = sqlite3.Xsqlite3_vfs_find(tls, 0); v.base == 0 {
		return nil, fmt.Errorf("faultvfs: no default file system")
	}
	name, err := libc.CString(v.name)
	if err != nil {
		return nil, err
	}
	v.self = libc.Xcalloc(tls, 1, vfsSize)
	if v.self == 0 {
		return nil, fmt.Errorf("faultvfs: out of memory")
	}
	install(v, name)
	vfss.Store(v.self, v)
	if rc := sqlite3.Xsqlite3_vfs_register(tls, v.self, 0); rc != sqlite3.SQLITE_OK {
		return nil, fmt.Errorf("faultvfs: register: code %d", rc)
	}
	return v, nil
}

// Named returns the file system registered under name; nil where there is none.
func Named(name string) (v *VFS) {
	vfss.Range(func(_, got any) bool {
		if got.(*VFS).name == name {
			v = got.(*VFS)
		}
		return v == nil
	})
	return v
}

// Name is the name it is registered under.
func (v *VFS) Name() string { return v.name }

// OnCall has fn decide over every call from now on; nil lets all happen. fn
// may block, and is called on several goroutines.
func (v *VFS) OnCall(fn func(Call) Code) {
	if fn == nil {
		v.hook.Store(nil)
		return
	}
	v.hook.Store(&fn)
}

// FailNext refuses the next n calls that match, after letting skip of them
// happen, with code. fired tells how many were refused so far.
func (v *VFS) FailNext(match func(Call) bool, skip, n int, code Code) (fired func() int) {
	var mu sync.Mutex
	seen, refused := 0, 0
	v.OnCall(func(c Call) Code {
		mu.Lock()
		defer mu.Unlock()
		if !match(c) {
			return 0
		}
		seen++
		if seen <= skip || refused >= n {
			return 0
		}
		refused++
		return code
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return refused
	}
}

// decide asks the hook.
func (v *VFS) decide(c Call) Code {
	if fn := v.hook.Load(); fn != nil {
		return (*fn)(c)
	}
	return 0
}
