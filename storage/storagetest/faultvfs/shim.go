package faultvfs

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite's C code, transpiled, calls a file system through tables of function
// pointers. A file of ours is a header followed by the system's own file
// object; every method forwards to that object's methods.

type (
	cVFS     = sqlite3.Tsqlite3_vfs
	cFile    = sqlite3.Tsqlite3_file
	cMethods = sqlite3.Tsqlite3_io_methods
)

// header is the beginning of a file object of ours.
type header struct {
	methods uintptr
	id      uintptr
}

const (
	vfsSize    = uint64(unsafe.Sizeof(cVFS{}))
	headerSize = unsafe.Sizeof(header{})
)

// file is what a header's id stands for.
type file struct {
	v    *VFS
	path string // as SQLite named it; empty: a temporary file
}

var (
	vfss    sync.Map // address of a sqlite3_vfs → *VFS
	files   sync.Map // header.id → *file
	fileIDs atomic.Uintptr
	methods = sync.OnceValue(newMethods)
)

// at views C memory.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// pointer is a Go function as the transpiled code calls it; fn has a C function's type.
func pointer[F any](fn F) uintptr { return *(*uintptr)(unsafe.Pointer(&fn)) }

// function is the inverse of pointer.
func function[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }

// inner is the system's file object inside ours, and its methods.
func inner(f uintptr) (uintptr, *cMethods) {
	r := f + headerSize
	return r, at[cMethods](at[cFile](r).FpMethods)
}

func lookup(f uintptr) *file {
	v, _ := files.Load(at[header](f).id)
	return v.(*file)
}

// install fills v's sqlite3_vfs: the system's, but for opening and deleting.
func install(v *VFS, name uintptr) {
	c := at[cVFS](v.self)
	*c = *at[cVFS](v.base)
	c.FpNext = 0
	c.FzName = name
	c.FszOsFile += int32(headerSize)
	c.FxOpen = pointer(xOpen)
	c.FxDelete = pointer(xDelete)
}

// newMethods lies in C memory, as the transpiled code does arithmetic on it.
func newMethods() uintptr {
	tls := libc.NewTLS()
	defer tls.Close()
	p := libc.Xcalloc(tls, 1, uint64(unsafe.Sizeof(cMethods{})))
	*at[cMethods](p) = cMethods{
		FiVersion:               2, // no memory-mapped reads
		FxClose:                 pointer(xClose),
		FxRead:                  pointer(xRead),
		FxWrite:                 pointer(xWrite),
		FxTruncate:              pointer(xTruncate),
		FxSync:                  pointer(xSync),
		FxFileSize:              pointer(xFileSize),
		FxLock:                  pointer(xLock),
		FxUnlock:                pointer(xUnlock),
		FxCheckReservedLock:     pointer(xCheckReservedLock),
		FxFileControl:           pointer(xFileControl),
		FxSectorSize:            pointer(xSectorSize),
		FxDeviceCharacteristics: pointer(xDeviceCharacteristics),
		FxShmMap:                pointer(xShmMap),
		FxShmLock:               pointer(xShmLock),
		FxShmBarrier:            pointer(xShmBarrier),
		FxShmUnmap:              pointer(xShmUnmap),
	}
	return p
}

func xOpen(tls *libc.TLS, vfs, name, f uintptr, flags int32, out uintptr) int32 {
	got, _ := vfss.Load(vfs)
	v := got.(*VFS)
	*at[header](f) = header{}
	open := function[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](at[cVFS](v.base).FxOpen)
	r := f + headerSize
	rc := open(tls, v.base, name, r, flags, out)
	if at[cFile](r).FpMethods == 0 {
		return rc
	}
	h := at[header](f)
	h.id = fileIDs.Add(1)
	h.methods = methods()
	path := ""
	if name != 0 {
		path = libc.GoString(name)
	}
	files.Store(h.id, &file{v: v, path: path})
	return rc
}

func xDelete(tls *libc.TLS, vfs, name uintptr, syncDir int32) int32 {
	got, _ := vfss.Load(vfs)
	v := got.(*VFS)
	path := libc.GoString(name)
	if code := v.decide(Call{Op: Delete, File: filepath.Base(path)}); code != 0 {
		return int32(code)
	}
	v.record(record{op: Delete, path: path})
	return function[func(*libc.TLS, uintptr, uintptr, int32) int32](at[cVFS](v.base).FxDelete)(tls, v.base, name, syncDir)
}

func xClose(tls *libc.TLS, f uintptr) int32 {
	r, m := inner(f)
	rc := function[func(*libc.TLS, uintptr) int32](m.FxClose)(tls, r)
	files.Delete(at[header](f).id)
	return rc
}

func xWrite(tls *libc.TLS, f, buf uintptr, n int32, off int64) int32 {
	l := lookup(f)
	if code := l.v.decide(Call{Op: Write, File: filepath.Base(l.path), Offset: off, Size: int(n)}); code != 0 {
		return int32(code)
	}
	l.v.record(record{op: Write, path: l.path, off: off, data: unsafe.Slice(at[byte](buf), n)})
	r, m := inner(f)
	return function[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](m.FxWrite)(tls, r, buf, n, off)
}

func xTruncate(tls *libc.TLS, f uintptr, size int64) int32 {
	l := lookup(f)
	if code := l.v.decide(Call{Op: Truncate, File: filepath.Base(l.path), Offset: size}); code != 0 {
		return int32(code)
	}
	l.v.record(record{op: Truncate, path: l.path, off: size})
	r, m := inner(f)
	return function[func(*libc.TLS, uintptr, int64) int32](m.FxTruncate)(tls, r, size)
}

func xSync(tls *libc.TLS, f uintptr, flags int32) int32 {
	l := lookup(f)
	if code := l.v.decide(Call{Op: Sync, File: filepath.Base(l.path)}); code != 0 {
		return int32(code)
	}
	r, m := inner(f)
	rc := function[func(*libc.TLS, uintptr, int32) int32](m.FxSync)(tls, r, flags)
	if rc == sqlite3.SQLITE_OK {
		l.v.record(record{op: Sync, path: l.path})
	}
	return rc
}

// What follows only forwards.

func xRead(tls *libc.TLS, f, buf uintptr, n int32, off int64) int32 {
	r, m := inner(f)
	return function[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](m.FxRead)(tls, r, buf, n, off)
}

func xFileSize(tls *libc.TLS, f, size uintptr) int32 {
	r, m := inner(f)
	return function[func(*libc.TLS, uintptr, uintptr) int32](m.FxFileSize)(tls, r, size)
}

func xLock(tls *libc.TLS, f uintptr, level int32) int32 {
	r, m := inner(f)
	return function[func(*libc.TLS, uintptr, int32) int32](m.FxLock)(tls, r, level)
}

func xUnlock(tls *libc.TLS, f uintptr, level int32) int32 {
	r, m := inner(f)
	return function[func(*libc.TLS, uintptr, int32) int32](m.FxUnlock)(tls, r, level)
}

func xCheckReservedLock(tls *libc.TLS, f, out uintptr) int32 {
	r, m := inner(f)
	return function[func(*libc.TLS, uintptr, uintptr) int32](m.FxCheckReservedLock)(tls, r, out)
}

func xFileControl(tls *libc.TLS, f uintptr, op int32, arg uintptr) int32 {
	r, m := inner(f)
	return function[func(*libc.TLS, uintptr, int32, uintptr) int32](m.FxFileControl)(tls, r, op, arg)
}

func xSectorSize(tls *libc.TLS, f uintptr) int32 {
	r, m := inner(f)
	return function[func(*libc.TLS, uintptr) int32](m.FxSectorSize)(tls, r)
}

func xDeviceCharacteristics(tls *libc.TLS, f uintptr) int32 {
	r, m := inner(f)
	return function[func(*libc.TLS, uintptr) int32](m.FxDeviceCharacteristics)(tls, r)
}

func xShmMap(tls *libc.TLS, f uintptr, region, size, extend int32, out uintptr) int32 {
	r, m := inner(f)
	return function[func(*libc.TLS, uintptr, int32, int32, int32, uintptr) int32](m.FxShmMap)(tls, r, region, size, extend, out)
}

func xShmLock(tls *libc.TLS, f uintptr, off, n, flags int32) int32 {
	r, m := inner(f)
	return function[func(*libc.TLS, uintptr, int32, int32, int32) int32](m.FxShmLock)(tls, r, off, n, flags)
}

func xShmBarrier(tls *libc.TLS, f uintptr) {
	r, m := inner(f)
	function[func(*libc.TLS, uintptr)](m.FxShmBarrier)(tls, r)
}

func xShmUnmap(tls *libc.TLS, f uintptr, del int32) int32 {
	r, m := inner(f)
	return function[func(*libc.TLS, uintptr, int32) int32](m.FxShmUnmap)(tls, r, del)
}
