package inbound

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
)

// What was received is remembered for weeks, so that nothing is applied twice.
// Where that would be too much, a transaction is refused, and its sender keeps
// it: forgetting would apply something twice, or, at an honest server's
// expense, let somebody else have a place.
//
// Half of the room is for everybody: one server, with all that count as the
// same, may hold a quarter of what is free there, so that none fills it alone.
// Names are free, and ten thousand of them would fill it. So the 64 that this
// server has known longest have places of their own, which nobody can take,
// all of them together less than the other half.
const (
	partOfFree  = 4
	seniors     = 64
	seniorShare = 0.1 // of the whole for the first, 1/n of that for the nth; the sum of 64 is 0.474
)

// retryFull is what a server is told to wait of which too much is remembered:
// what is old is forgotten once an hour.
const retryFull = 15 * time.Minute

// fullError is why a transaction is refused: so much is remembered already.
type fullError struct {
	storage.Remembered
	at time.Time
}

func (*fullError) Error() string { return "too much is remembered of this server" }

// admit tells whether the rest of a transaction can be remembered, and as
// whose. Otherwise the error is a fullError.
func (p *Processor) admit(tx *storage.Tx, w *work, rest []directEDU) (origin int64, err error) {
	size := storage.TransactionCost(w.response)
	for _, e := range rest {
		size += storage.ReceivedCost(string(e.Sender))
	}
	origin, err = tx.Origin(inbox.GroupOf(w.origin, tx.ServerName()))
	if err != nil {
		return 0, err
	}
	m, err := tx.Remembered(origin)
	if err != nil {
		return 0, err
	}
	own := m.Own + size
	if own > p.opt.MaxRememberedPerServer {
		return 0, &fullError{m, tx.Now}
	}
	if own <= (p.opt.MaxRemembered/2-m.All-size)/partOfFree {
		return origin, nil
	}
	rank, err := tx.OriginRank(origin, seniors+1)
	if err != nil {
		return 0, err
	}
	if rank <= seniors && own <= int64(seniorShare*float64(p.opt.MaxRemembered)/float64(rank)) {
		return origin, nil
	}
	return 0, &fullError{m, tx.Now}
}

// complaints are logged once a minute, so that who is turned away cannot fill
// the log.
type complaints struct {
	mu   sync.Mutex // guards what follows
	last time.Time
	n    int64 // since then
}

// due counts one more, and returns how many to complain of now, 0 for none.
func (c *complaints) due(now time.Time) (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if since := now.Sub(c.last); 0 <= since && since < time.Minute {
		return 0
	}
	n, c.n, c.last = c.n, 0, now
	return n
}

// refuse turns a transaction away that cannot be remembered.
func (p *Processor) refuse(w *work, full *fullError) error {
	p.count.full.Add(1)
	if n := p.complaints.due(full.at); n > 0 {
		p.log.Warn("transactions turned away: too much is remembered of what their servers sent; see federation.max_remembered_bytes",
			zap.String("origin", string(w.origin)), zap.Int64("transactions", n),
			zap.Int64("bytes", full.Own), zap.Int64("all_bytes", full.All))
	}
	return &matrix.Error{
		Status: matrix.LimitExceeded.Status(), Code: matrix.LimitExceeded,
		Message: "Too much of what this server sent is remembered still", RetryAfter: retryFull,
	}
}
