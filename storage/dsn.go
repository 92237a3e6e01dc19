package storage

import (
	"cmp"
	"net/url"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

const (
	pageSize      = 4096
	walCheckpoint = 2000     // pages: about 8 MB, checkpointed by the writer itself
	walSizeLimit  = 64 << 20 // bytes to which SQLite cuts a WAL that grew beyond
)

// dsn builds the data source names of every connection to the database file.
// It is the only place where pragmas are set.
type dsn struct {
	path        string // of the database file
	vfs         string // empty: the operating system's
	synchronous string // FULL, but for a test that shows why
	cacheKiB    int    // of the writer; 0: 16 MiB
}

// name is the file as the URI that SQLite's own parameters need.
func (d dsn) name(params ...string) string {
	p := filepath.ToSlash(d.path)
	if runtime.GOOS == "windows" && !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	if d.vfs != "" {
		params = append(params, "vfs="+d.vfs)
	}
	u := url.URL{Path: p}
	return "file:" + u.EscapedPath() + "?" + strings.Join(params, "&")
}

// writer is the writing connection. The order matters: page size and vacuum
// mode can be set before the first table only, and before the switch to WAL.
func (d dsn) writer() string {
	params := pragmas(
		"page_size", strconv.Itoa(pageSize),
		"auto_vacuum", "INCREMENTAL",
		"journal_mode", "WAL",
		"synchronous", d.synchronous,
		"foreign_keys", "ON",
		"cache_size", strconv.Itoa(-cmp.Or(d.cacheKiB, 16<<10)),
		"temp_store", "MEMORY",
		"journal_size_limit", strconv.Itoa(walSizeLimit),
		"wal_autocheckpoint", strconv.Itoa(walCheckpoint),
		"mmap_size", "0",
		"trusted_schema", "OFF",
	)
	if runtime.GOOS == "darwin" {
		// fsync does not reach the platter there.
		params = append(params, pragmas("fullfsync", "ON", "checkpoint_fullfsync", "ON")...)
	}
	return d.name(append([]string{"_busy_timeout=5000"}, params...)...)
}

// reader is a connection that cannot write.
func (d dsn) reader() string {
	return d.name(append([]string{"mode=ro", "_busy_timeout=5000", "_query_only=1"},
		pragmas("cache_size", "-8192", "temp_store", "MEMORY", "mmap_size", "0", "trusted_schema", "OFF")...)...)
}

func pragmas(pairs ...string) []string {
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, "_pragma="+pairs[i]+"("+pairs[i+1]+")")
	}
	return out
}
