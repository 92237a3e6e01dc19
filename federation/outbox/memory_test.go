package outbox

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/remote"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// heap is the memory in use, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers let go
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What waits for servers that are away is in the table and nowhere else: tens
// of megabytes for one, and something for each of hundreds, cost next to no
// memory and no goroutine each, also while they are tried.
//
// It is not parallel: it measures the whole process.
func TestBacklogIsNotInMemory(t *testing.T) {
	senders := make([]string, 8)
	for i := range senders {
		senders[i] = fmt.Sprintf("sender%d", i)
	}
	s := newSending(t, Options{Concurrency: 4}, senders...)
	s.peers.answer = func(context.Context, matrix.ServerName, []string) error { return &remote.Error{Status: 502} }
	s.pushOne(senders[0], "first.test")
	s.settled()
	memory, goroutines := heap(), runtime.NumGoroutine()
	const size, others = 60_000, 200
	items := storagetest.Scale(200)
	content := jsontext.Value(`"` + strings.Repeat("x", size) + `"`)
	for i := range items {
		s.must(s.push(senders[i%len(senders)], Messages{there: {"@bob:there.test": {"*": content}}}))
	}
	for i := range others {
		s.pushOne(senders[i%len(senders)], matrix.ServerName(fmt.Sprintf("away%d.test", i)))
	}
	for range 3 {
		s.pass(longestDelay) // all are due
		s.settled()
	}
	if grown := heap() - memory; grown > 4<<20 {
		t.Errorf("%d bytes that wait took %d of memory", items*size, grown)
	}
	if grown := runtime.NumGoroutine() - goroutines; grown > 8 {
		t.Errorf("%d goroutines more", grown)
	}
	queues, err := s.queue.Queues(t.Context(), "")
	s.must(err)
	rows := int64(0)
	for _, q := range queues {
		rows += q.Items
		if q.Failures == 0 {
			t.Errorf("%s was not tried", q.Name)
		}
	}
	if want := int64(items + others + 1); rows != want {
		t.Errorf("%d rows wait, want %d", rows, want)
	}
}

func (s *sending) pushOne(user string, server matrix.ServerName) {
	s.Helper()
	s.must(s.push(user, numbered(server, 1)))
}
