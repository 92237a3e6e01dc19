package web

import (
	"io"
	"sync"
	"time"

	"hearth/storage/matrix"
)

// Bounds of the bodies that other servers send. Who they are is known only
// when the whole body is there, so until then anybody can make us hold one.
const (
	smallBody    = 64 << 10  // bytes of each that do not count: what most requests have
	largeBodies  = 48 << 20  // of all at once
	bodyStep     = 256 << 10 // what is reserved at a time
	addressShare = 3         // the part that one address may have
	retryBodies  = 5 * time.Second
)

// bodyMemory is how much of request bodies is in memory, in all and by address.
type bodyMemory struct {
	most int64

	mu   sync.Mutex // guards what follows
	held int64
	of   map[string]int64
}

func newBodyMemory(most int64) *bodyMemory {
	if most == 0 {
		most = largeBodies
	}
	return &bodyMemory{most: most, of: map[string]int64{}}
}

// take reserves n bytes for a request from an address, or returns false.
func (m *bodyMemory) take(address string, n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held+n > m.most || m.of[address]+n > m.most/addressShare {
		return false
	}
	m.held += n
	m.of[address] += n
	return true
}

func (m *bodyMemory) give(address string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held -= n
	if m.of[address] -= n; m.of[address] == 0 {
		delete(m.of, address)
	}
}

// meteredBody reserves memory as it is read, not as it was announced: what is
// announced costs the sender nothing. It is M_LIMIT_EXCEEDED where there is none
// left.
type meteredBody struct {
	io.ReadCloser
	memory  *bodyMemory
	address string
	read    int64
	held    int64
}

// Read implements io.Reader.
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	for b.read > smallBody+b.held {
		if !b.memory.take(b.address, bodyStep) {
			return 0, &matrix.Error{
				Status: matrix.LimitExceeded.Status(), Code: matrix.LimitExceeded,
				Message: "Too many large requests at once", RetryAfter: retryBodies,
			}
		}
		b.held += bodyStep
	}
	return n, err
}

// free gives everything back, at the end of the request.
func (b *meteredBody) free() { b.memory.give(b.address, b.held) }
