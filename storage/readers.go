package storage

import (
	"context"
	"errors"
	"sync"
	"time"
)

// readers is the pool of query_only connections.
type readers struct {
	dsn   string
	free  chan *reader
	point chan *reader // holds the one that is kept for point reads
	all   []*reader
}

// reader is a pooled connection.
type reader struct {
	*conn
	home chan *reader

	mu    sync.Mutex // guards who holds it
	why   string
	since time.Time
}

func (r *reader) hold(why string, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why, r.since = why, since
}

// holder tells who holds the connection; an empty why: nobody.
func (r *reader) holder() (why string, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why, r.since
}

func openReaders(dsn string, n int) (*readers, error) {
	p := &readers{dsn: dsn, free: make(chan *reader, n), point: make(chan *reader, 1)}
	for i := range n + 1 {
		r := &reader{home: p.free}
		if i == n {
			r.home = p.point
		}
		var err error
		if r.conn, err = openConn(dsn); err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.all = append(p.all, r)
		r.home <- r
	}
	return p, nil
}

// take waits for a free connection; also, where it is not nil, for one of extra.
func (p *readers) take(ctx context.Context, closed <-chan struct{}, extra chan *reader) (*reader, error) {
	select {
	case r := <-p.free:
		return p.usable(r)
	case r := <-extra:
		return p.usable(r)
	default:
	}
	refuseNested(unitEntry, readEntry)
	select {
	case r := <-p.free:
		return p.usable(r)
	case r := <-extra:
		return p.usable(r)
	case <-closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// usable opens r again where its last user had to give it up.
func (p *readers) usable(r *reader) (*reader, error) {
	if r.conn != nil {
		return r, nil
	}
	c, err := openConn(p.dsn)
	if err != nil {
		r.home <- r
		return nil, err
	}
	r.conn = c
	return r, nil
}

// put ends r's transaction, if any, and gives it back. A connection that does
// not return to a clean state is replaced.
func (p *readers) put(r *reader) {
	err := r.closeRows()
	r.dead = nil
	if r.dirty { // a BEGIN ran
		r.dirty = false
		_, e := r.exec(endRead, nil)
		r.dirty = false
		err = errors.Join(err, e)
	}
	if err != nil {
		_ = r.conn.close() // nothing was written on it
		r.conn = nil
	}
	r.hold("", time.Time{})
	r.home <- r
}

// close waits for every connection and closes it.
func (p *readers) close() error {
	var errs []error
	for _, r := range p.all {
		<-r.home
		if r.conn != nil {
			errs = append(errs, r.conn.close())
		}
	}
	return errors.Join(errs...)
}
