package storage

import (
	"reflect"
	"runtime"
	"slices"
)

// A call of Write inside a unit would wait for itself for ever, and one of Read
// inside a read does so when the pool is empty. Both are programming errors,
// told by the caller's own stack: units and reads run on the goroutine that
// asked for them. The look costs about a microsecond, so it is taken only by
// those who have to wait anyway; Options.Strict has everybody take it.

// The functions below which a call is nested.
var (
	unitEntry = reflect.ValueOf((*unit).run).Pointer()
	readEntry = reflect.ValueOf((*Rx).run).Pointer()
)

// refuseNested panics where the calling goroutine is below one of entries.
func refuseNested(entries ...uintptr) {
	if nested(entries) {
		panic("storage: Write or Read inside a Write or Read")
	}
}

// refuseOwnUnit is refuseNested for a caller whose unit waits already.
func (s *Store) refuseOwnUnit(u *unit) {
	if nested([]uintptr{unitEntry}) && s.queue.leave(u) {
		panic("storage: Write inside a Write")
	}
}

func nested(entries []uintptr) bool {
	var pcs [128]uintptr
	for _, pc := range pcs[:runtime.Callers(3, pcs[:])] {
		if f := runtime.FuncForPC(pc - 1); f != nil && slices.Contains(entries, f.Entry()) {
			return true
		}
	}
	return false
}
