package inbox

// body is a message that the mirror holds.
type body struct {
	Message
	bytes      int64 // as in the table
	entry      *entry
	prev, next *body // in the order they came, over all devices
}

func (b *body) size() int64 { return bodySize + int64(len(b.Content)+len(b.Type)) }

// bodyList is all bodies, the oldest first.
type bodyList struct{ root body }

func (l *bodyList) oldest() *body {
	return l.root.next
}

func (l *bodyList) push(b *body) {
	if l.root.next == nil {
		l.root.next, l.root.prev = b, b
		b.prev, b.next = nil, nil
		return
	}
	b.prev, b.next = l.root.prev, nil
	l.root.prev.next = b
	l.root.prev = b
}

func (l *bodyList) remove(b *body) {
	if b.prev == nil {
		l.root.next = b.next
	} else {
		b.prev.next = b.next
	}
	if b.next == nil {
		l.root.prev = b.prev
	} else {
		b.next.prev = b.prev
	}
	b.prev, b.next = nil, nil
}

// bitset is a set of device numbers, one bit each where numbers are dense.
type bitset map[int64]*[64]uint64

const pageBits = 64 * 64

func (s *bitset) set(n int64) {
	if *s == nil {
		*s = bitset{}
	}
	page := (*s)[n/pageBits]
	if page == nil {
		page = new([64]uint64)
		(*s)[n/pageBits] = page
	}
	page[n%pageBits/64] |= 1 << (n % 64)
}

func (s bitset) clear(n int64) {
	if page := s[n/pageBits]; page != nil {
		page[n%pageBits/64] &^= 1 << (n % 64)
	}
}

func (s bitset) has(n int64) bool {
	page := s[n/pageBits]
	return page != nil && page[n%pageBits/64]&(1<<(n%64)) != 0
}
