package account

import (
	"container/list"
	"sync"
	"time"
)

// expiring holds short-lived things in memory: at most max of them, each for
// ttl. When full, the oldest goes.
type expiring[V any] struct {
	max int
	ttl time.Duration
	now func() time.Time

	mu    sync.Mutex // guards items and order
	items map[string]*list.Element
	order *list.List // of *held[V], oldest first
}

type held[V any] struct {
	key   string
	value V
	until time.Time
}

func newExpiring[V any](limit int, ttl time.Duration, now func() time.Time) *expiring[V] {
	return &expiring[V]{max: limit, ttl: ttl, now: now, items: map[string]*list.Element{}, order: list.New()}
}

// put stores a value under a new or old key, and its time begins anew.
func (e *expiring[V]) put(key string, v V) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(key)
	e.sweep(e.max - 1)
	e.items[key] = e.order.PushBack(&held[V]{key, v, e.now().Add(e.ttl)})
}

// get finds a value.
func (e *expiring[V]) get(key string) (V, bool) {
	v, _, ok := e.update(key, nil)
	return v, ok
}

// update finds a value, lets fn change it in place, and tells how long it lives.
func (e *expiring[V]) update(key string, fn func(*V)) (v V, left time.Duration, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweep(e.max)
	el, ok := e.items[key]
	if !ok {
		return v, 0, false
	}
	h := el.Value.(*held[V])
	if fn != nil {
		fn(&h.value)
	}
	return h.value, h.until.Sub(e.now()), true
}

// change lets fn change the value of key, the zero value if it has none, and
// tells what it is then and how long it lives. Of several that are called at
// once each sees what those before it did.
func (e *expiring[V]) change(key string, fn func(*V)) (V, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweep(e.max)
	el, ok := e.items[key]
	if !ok {
		e.sweep(e.max - 1)
		el = e.order.PushBack(&held[V]{key: key, until: e.now().Add(e.ttl)})
		e.items[key] = el
	}
	h := el.Value.(*held[V])
	fn(&h.value)
	return h.value, h.until.Sub(e.now())
}

// take finds a value and removes it: of several takers one gets it.
func (e *expiring[V]) take(key string) (v V, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweep(e.max)
	if el, found := e.items[key]; found {
		v, ok = el.Value.(*held[V]).value, true
	}
	e.drop(key)
	return v, ok
}

// removeIf removes the values that fn names; it is asked of the newest first.
func (e *expiring[V]) removeIf(fn func(V) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for el := e.order.Back(); el != nil; {
		h := el.Value.(*held[V])
		el = el.Prev()
		if fn(h.value) {
			e.drop(h.key)
		}
	}
}

// drop removes a key; the caller holds mu.
func (e *expiring[V]) drop(key string) {
	if el, ok := e.items[key]; ok {
		e.order.Remove(el)
		delete(e.items, key)
	}
}

// sweep removes what is too old, and the oldest beyond limit; the caller holds mu.
func (e *expiring[V]) sweep(limit int) {
	now := e.now()
	for el := e.order.Front(); el != nil; el = e.order.Front() {
		h := el.Value.(*held[V])
		if len(e.items) <= limit && now.Before(h.until) {
			return
		}
		e.drop(h.key)
	}
}
