package room

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// Options configure [New].
type Options struct {
	// DefaultVersion is the room version of new rooms; empty: [matrix.DefaultRoomVersion].
	DefaultVersion matrix.RoomVersion
	// CacheBytes bounds what is kept of current states in memory; 0: 8 MiB.
	CacheBytes int
}

// Rooms appends events to the rooms of a store. It may be used by any number
// of goroutines.
type Rooms struct {
	store    *storage.Store
	signer   func() matrix.Signer
	opt      Options
	log      *zap.Logger
	planning locks
	prepared prepared
	cache    cache
}

// New makes Rooms. signer gives the key that signs now.
func New(store *storage.Store, signer func() matrix.Signer, opt Options, log *zap.Logger) *Rooms {
	if opt.DefaultVersion == "" {
		opt.DefaultVersion = matrix.DefaultRoomVersion
	}
	if opt.CacheBytes == 0 {
		opt.CacheBytes = defaultCache
	}
	r := &Rooms{store: store, signer: signer, opt: opt, log: log.Named("rooms")}
	r.cache.limit = opt.CacheBytes / 2
	return r
}

// Draft is an event that a local user wants to send.
type Draft struct {
	Type     string
	StateKey *string // nil: not a state event
	Sender   matrix.UserID
	Content  jsontext.Value // a JSON object; empty: {}
	Redacts  matrix.EventID // of m.room.redaction; its content may name it instead
	TS       int64          // milliseconds since 1970; 0: now
	Device   int64          // the sending device; 0: none
	TxnID    string         // of the client's request; empty: none
	// Admin lets the sender redact events of all users of this server.
	Admin bool
}

// ErrOtherServer is behind the refusal of a join that fulfils the conditions of
// a restricted room, but nobody of this server may invite: another server of
// the room may let the user in.
var ErrOtherServer = errors.New("nobody on this server may invite to the room")

// refused turns a refusal of the authorization rules into what clients are
// told; other errors stay as they are.
func refused(err error) error {
	var r *rules.Refusal
	if !errors.As(err, &r) {
		return err
	}
	code := matrix.Forbidden
	switch r.Rule {
	case rules.PowerNotInteger, rules.PowerMapNotInteger, rules.PowerUsers, rules.PowerCreator:
		code = matrix.BadJSON // nobody may send that, whatever their power
	}
	return &wrapped{matrix.Errorf(code, "%s", r.Rule.Text()), err}
}

// wrapped is an error for clients with the reason it was made of.
type wrapped struct{ public, cause error }

func (w *wrapped) Error() string   { return fmt.Sprintf("%v (%v)", w.public, w.cause) }
func (w *wrapped) Unwrap() []error { return []error{w.public, w.cause} }
