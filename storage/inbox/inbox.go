// Package inbox owns the queue of to-device messages of each local device: who
// receives what, how much may wait, who must make room, and the mirror of it
// all in memory. Table and mirror are one thing: the mirror changes only after
// COMMIT, in commit order, and nothing else touches either.
package inbox

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"hearth/storage"
	"hearth/storage/matrix"
)

// Options bound the inboxes. A zero value means the default.
type Options struct {
	MaxMessages int           // that wait for one device; default 10,000
	MaxBytes    int64         // that wait for one device, as they stand in a sync response; default 64 MiB
	TTL         time.Duration // age on the age clock at which a message is given up; default 365 days
	SyncBatch   int           // messages of one response; default 100
	BatchBytes  int           // bytes of one response; default 1 MiB
	MirrorBytes int64         // memory of the mirror; default 16 MiB
}

func (o Options) withDefaults() Options {
	or(&o.MaxMessages, 10_000)
	or(&o.MaxBytes, 64<<20)
	or(&o.TTL, 365*24*time.Hour)
	or(&o.SyncBatch, 100)
	or(&o.BatchBytes, 1<<20)
	or(&o.MirrorBytes, 16<<20)
	return o
}

func or[T int | int64 | time.Duration](v *T, otherwise T) {
	if *v == 0 {
		*v = otherwise
	}
}

// Messages are the contents of one request: user, then device ID or "*", then
// content as received, which is valid JSON.
type Messages map[matrix.UserID]map[string]jsontext.Value

// Message is one message in an inbox. Its content must not be changed.
type Message struct {
	Pos     int64
	Sender  matrix.UserID
	Type    string
	Content jsontext.Value
}

// Inbox is the queues of all local devices.
type Inbox struct {
	store  *storage.Store
	opt    Options
	log    *zap.Logger
	mirror mirror
	count  counters
	lost   chan loss // evictions to be logged by Run
}

// New makes the inboxes of a store. There must be no other for the same store.
// It reads nothing: a device's inbox is looked at when something first asks.
func New(s *storage.Store, opt Options, log *zap.Logger) *Inbox {
	if log == nil {
		log = zap.NewNop()
	}
	opt = opt.withDefaults()
	return &Inbox{
		store:  s,
		opt:    opt,
		log:    log.Named("inbox"),
		mirror: mirror{budget: opt.MirrorBytes},
		lost:   make(chan loss, 64),
	}
}

// Drop forgets what memory holds of a device. Call it in the unit that deletes
// the device, whose rows the deletion takes along.
func (b *Inbox) Drop(tx *storage.Tx, device int64) {
	label := tx.NextPos()
	tx.AfterCommit(func() { b.mirror.dropped(label, device) })
}
