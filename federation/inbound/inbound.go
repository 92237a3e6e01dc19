// Package inbound turns a transaction of another homeserver into writes. It
// owns the order in which the transactions of one server are worked on, and
// what of them is believed. It verifies no signature of a request: who calls it
// knows where the transaction came from.
package inbound

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
)

// Options bound what one server may cost. A zero value means the default.
type Options struct {
	Waiting  int           // transactions of one server that may wait for the one that is worked on; default 4
	Patience time.Duration // how long they may; default 10 s

	// What is remembered of what was received, so that nothing is applied twice,
	// in bytes: of all servers (default 2 GiB), and of one (default 256 MiB).
	MaxRemembered, MaxRememberedPerServer int64
}

// Processor works on transactions: those of one server one after the other,
// those of different servers side by side.
type Processor struct {
	store      *storage.Store
	inbox      *inbox.Inbox
	opt        Options
	log        *zap.Logger
	lanes      lanes
	complaints complaints
	count      counters
}

// New makes the processor of a store. There must be no other for the same store.
func New(s *storage.Store, in *inbox.Inbox, opt Options, log *zap.Logger) *Processor {
	if log == nil {
		log = zap.NewNop()
	}
	if opt.Waiting == 0 {
		opt.Waiting = 4
	}
	if opt.Patience == 0 {
		opt.Patience = 10 * time.Second
	}
	if opt.MaxRemembered == 0 {
		opt.MaxRemembered = 2 << 30
	}
	if opt.MaxRememberedPerServer == 0 {
		opt.MaxRememberedPerServer = 256 << 20
	}
	return &Processor{store: s, inbox: in, opt: opt, log: log.Named("inbound"), lanes: newLanes(opt)}
}

type counters struct {
	transactions, replayed, busy, full, edus, dropped, ignored, pdus atomic.Int64
}

// Counts are totals since the start.
type Counts struct {
	Transactions int64 // applied
	Replayed     int64 // answered from their record
	Busy         int64 // turned away, as too many of the same server waited
	Full         int64 // turned away, as too much is remembered of their servers
	EDUs         int64 // applied, those included that had been before
	Dropped      int64 // EDUs, or messages in them, that no server may send
	Ignored      int64 // EDUs of kinds that mean nothing here
	PDUs         int64 // refused
}

// Counts returns totals since the start.
func (p *Processor) Counts() Counts {
	c := &p.count
	return Counts{
		Transactions: c.transactions.Load(), Replayed: c.replayed.Load(), Busy: c.busy.Load(), Full: c.full.Load(),
		EDUs: c.edus.Load(), Dropped: c.dropped.Load(), Ignored: c.ignored.Load(), PDUs: c.pdus.Load(),
	}
}

// The route of transactions, for the scope of their records.
const (
	method   = http.MethodPut
	template = "/_matrix/federation/v1/send/{txnId}"
)

// maxTxnID is how long a transaction ID may be, in bytes.
const maxTxnID = 255

// unitWeight bounds what one unit takes, in devices named and KiB: a large
// transaction must not hold up everybody else's writes. What is usual fits.
const unitWeight = 500

// Process applies a transaction that origin has signed and returns the
// response: after COMMIT, or from the record of a transaction with the same ID
// that was applied before. An error that is no [*matrix.Error] is of our own
// making, and then the same transaction may be sent again: what was applied of
// it is known and not applied twice. M_FORBIDDEN: the transaction names another
// origin. M_LIMIT_EXCEEDED: too many of origin's wait already, or too much is
// remembered of it to remember this one too.
// Server-Server API, "Transactions".
func (p *Processor) Process(ctx context.Context, origin matrix.ServerName, txnID string, t Transaction) ([]byte, error) {
	if t.Origin != string(origin) {
		return nil, matrix.Errorf(matrix.Forbidden, "The transaction is not of %s, which signed it", origin)
	}
	if len(txnID) > maxTxnID {
		return nil, matrix.Errorf(matrix.InvalidParam, "The transaction ID is longer than %d bytes", maxTxnID)
	}
	leave, err := p.lanes.enter(ctx, origin)
	if err != nil {
		var told *matrix.Error
		if errors.As(err, &told) {
			p.count.busy.Add(1)
		}
		return nil, err
	}
	defer leave()
	w := work{
		origin: origin,
		scope:  storage.TransactionScope{Principal: string(origin), Method: method, Template: template, Vars: map[string]string{"txnId": txnID}},
		plan:   readEDUs(t.EDUs, origin, p.store.ServerName()),
	}
	for i := range w.edus {
		if err := w.edus[i].Prepare(origin); err != nil {
			return nil, err
		}
	}
	if w.response, err = refusePDUs(t.PDUs); err != nil {
		return nil, err
	}
	if err := p.apply(ctx, &w); err != nil {
		return nil, err
	}
	p.report(&w, txnID, len(t.PDUs))
	return w.response, nil
}

// work is one transaction being applied.
type work struct {
	plan
	origin   matrix.ServerName
	scope    storage.TransactionScope
	response []byte
	replayed bool
}

// apply commits the EDUs with the records that they were applied, and with the
// last of them the record of the transaction.
func (p *Processor) apply(ctx context.Context, w *work) error {
	for rest, last := w.edus, false; !last && !w.replayed; {
		n := fitting(rest)
		last = n == len(rest)
		var refused []error
		err := p.store.Write(ctx, "federation transaction", func(tx *storage.Tx) error {
			response, err := tx.FindTransaction(w.scope)
			if !errors.Is(err, storage.ErrNotFound) {
				if err == nil {
					w.response, w.replayed = response, true
				}
				return err
			}
			if w.scope.Origin, err = p.admit(tx, w, rest); err != nil {
				return err
			}
			if refused, err = p.receive(tx, w.origin, rest[:n]); err != nil || !last {
				return err
			}
			return tx.RecordTransaction(w.scope, w.response)
		})
		var full *fullError
		if errors.As(err, &full) {
			return p.refuse(w, full)
		}
		if err != nil {
			return err
		}
		w.bad = append(w.bad, refused...)
		rest = rest[n:]
	}
	return nil
}

// receive applies EDUs as part of tx. What the inbox refuses by a rule is
// refused by itself, and the others are applied.
func (p *Processor) receive(tx *storage.Tx, origin matrix.ServerName, edus []directEDU) (refused []error, err error) {
	for _, e := range edus {
		err := p.inbox.Receive(tx, origin, e.DirectToDevice)
		var told *matrix.Error
		switch {
		case errors.As(err, &told):
			refused = append(refused, err)
		case err != nil:
			return nil, err
		}
	}
	return refused, nil
}

// fitting is how many EDUs the next unit takes, one at least if there is one.
func fitting(edus []directEDU) int {
	weight := 0
	for i, e := range edus {
		if weight += e.weight; weight > unitWeight && i > 0 {
			return i
		}
	}
	return len(edus)
}

// report counts what was done, and logs what was dropped: once for all of a
// transaction, so that a bad peer cannot fill the log.
func (p *Processor) report(w *work, txnID string, pdus int) {
	if w.replayed {
		p.count.replayed.Add(1)
		return
	}
	p.count.transactions.Add(1)
	p.count.edus.Add(int64(len(w.edus)))
	p.count.ignored.Add(int64(w.ignored))
	p.count.pdus.Add(int64(pdus))
	if len(w.bad) > 0 {
		p.count.dropped.Add(int64(len(w.bad)))
		p.log.Warn("another server sent what it may not: dropped", zap.String("origin", string(w.origin)),
			zap.String("txn", txnID), zap.Int("items", len(w.bad)), zap.Error(w.bad[0]))
	}
}

// pduResult is what became of one PDU.
type pduResult struct {
	Error string `json:"error"`
}

// refusePDUs makes the response of a transaction. There are no rooms here, so
// every event is refused, by itself.
func refusePDUs(pdus []jsontext.Value) ([]byte, error) {
	out := struct {
		PDUs map[matrix.EventID]pduResult `json:"pdus"`
	}{map[matrix.EventID]pduResult{}}
	for _, raw := range pdus {
		if id, ok := eventID(raw); ok {
			out.PDUs[id] = pduResult{"This server is not in the room"}
		}
	}
	return json.Marshal(out, json.Deterministic(true))
}
