package inbound

import (
	"context"
	"sync"
	"time"

	"hearth/storage/matrix"
)

// retryBusy is what a server is told to wait that has too much in line.
const retryBusy = 5 * time.Second

// lanes let one transaction of each server through at a time, the longest
// waiting one first.
type lanes struct {
	opt Options

	mu   sync.Mutex // guards open
	open map[matrix.ServerName]*lane
}

// lane is there while a transaction of its server is.
type lane struct {
	turn  chan struct{} // holds a value while a transaction is worked on
	users int           // that have their turn or wait for it
}

func newLanes(opt Options) lanes { return lanes{opt: opt, open: map[matrix.ServerName]*lane{}} }

// enter waits for the turn of a transaction of origin. It is M_LIMIT_EXCEEDED
// where too many wait already, or this one has waited for too long. leave must
// be called at the end of the turn.
func (l *lanes) enter(ctx context.Context, origin matrix.ServerName) (leave func(), err error) {
	own := l.join(origin)
	if own == nil {
		return nil, busy()
	}
	patience := time.NewTimer(l.opt.Patience)
	defer patience.Stop()
	select {
	case own.turn <- struct{}{}:
		return func() {
			<-own.turn
			l.part(origin, own)
		}, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-patience.C:
		err = busy()
	}
	l.part(origin, own)
	return nil, err
}

// join returns nil where the lane is full.
func (l *lanes) join(origin matrix.ServerName) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.open[origin]
	if own == nil {
		own = &lane{turn: make(chan struct{}, 1)}
		l.open[origin] = own
	}
	if own.users > l.opt.Waiting {
		return nil
	}
	own.users++
	return own
}

func (l *lanes) part(origin matrix.ServerName, own *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(l.open, origin)
	}
}

func busy() error {
	return &matrix.Error{
		Status: matrix.LimitExceeded.Status(), Code: matrix.LimitExceeded,
		Message: "Too many transactions of this server at once", RetryAfter: retryBusy,
	}
}
