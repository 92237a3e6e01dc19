package syncer

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"hearth/server/spill"
	"hearth/server/view"
	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
)

// Options configure [New]. The zero value is good.
type Options struct {
	MaxTimeout time.Duration // longest wait of a poll; 0: 3 minutes
	MaxPolls   int           // polls of one device that may wait at once; 0: 8
	// TempDir is where long answers wait for slow clients; what a crash left
	// there is removed. "": where the system has such files, which may be memory.
	TempDir string
}

// Syncer answers /sync.
type Syncer struct {
	store *storage.Store
	inbox *inbox.Inbox
	log   *zap.Logger
	opt   Options
	boot  uint32 // names this process in tokens: streams in memory begin anew with it
	polls polls
	told  toldMembers
}

// New makes a Syncer that reads from s and b.
func New(s *storage.Store, b *inbox.Inbox, log *zap.Logger, opt Options) *Syncer {
	if opt.MaxTimeout <= 0 {
		opt.MaxTimeout = 3 * time.Minute
	}
	if opt.MaxPolls <= 0 {
		opt.MaxPolls = 8
	}
	spill.Clean(opt.TempDir)
	var nonce [4]byte
	_, _ = rand.Read(nonce[:]) // never fails: crypto/rand ends the process instead
	return &Syncer{
		store: s, inbox: b, log: log.Named("sync"), opt: opt,
		boot:  binary.BigEndian.Uint32(nonce[:]),
		polls: polls{max: opt.MaxPolls},
	}
}

// Request is one /sync, its parameters already checked.
type Request struct {
	User       matrix.UserID // who asks
	UserNum    int64
	DeviceNum  int64         // from which device: its number is its incarnation
	Since      string        // the client's token, empty for a first sync
	Timeout    time.Duration // how long to wait for something to tell; at most Options.MaxTimeout
	Filter     view.Filter   // what the client wants to be told
	FullState  bool          // answer at once and with everything
	StateAfter bool          // tell the state at the end of timelines instead of at their start
	// Closing ends the wait when it is closed: the server shuts down. Nil: never.
	Closing <-chan struct{}
}

// Sync answers one request. It waits up to r.Timeout where there is nothing to
// tell. A since that is no token at all is M_INVALID_PARAM; a device that was
// deleted, before or while waiting, is M_UNKNOWN_TOKEN. The Response must be
// closed.
func (s *Syncer) Sync(ctx context.Context, r Request) (resp Response, err error) {
	sub := s.store.Subscribe(storage.Interest{Device: r.DeviceNum, User: r.UserNum})
	defer func() { sub.Close() }() // whichever it is by then
	from, err := s.trust(r)
	if err != nil {
		return Response{}, err
	}
	if from.ToDevice > 0 {
		s.inbox.Ack(r.DeviceNum, from.ToDevice)
	}
	var t *telling
	if state := r.Filter.Room.State; state.LazyLoadMembers && !state.IncludeRedundantMembers {
		t = s.told.begin(r.DeviceNum, from.Answer)
		from.Answer = t.answer
		defer func() {
			if err == nil {
				t.sent()
			}
		}()
	}
	resp, err = s.build(ctx, &r, from, t)
	if err != nil || resp.urgent() || r.FullState || r.Timeout <= 0 {
		return resp, err
	}
	timer := time.NewTimer(min(r.Timeout, s.opt.MaxTimeout))
	defer timer.Stop()
	// Only now do the user's rooms matter: who is answered at once must not pay
	// for each of them.
	rooms, err := s.follow(ctx, &r)
	if err != nil {
		return resp, err
	}
	sub.Close()
	sub = rooms
	// A room that moved before it was followed woke nobody.
	moved := s.store.Pos() > resp.next.Pos
	for nothing := 0; ; nothing, moved = nothing+1, false {
		if !moved {
			again, err := s.Wait(ctx, sub, timer.C, r, nothing)
			if err != nil || !again {
				return resp, err
			}
		}
		// Nothing up to here is for this client: it is not looked at again.
		from = resp.next
		if resp, err = s.build(ctx, &r, from, t); err != nil || resp.urgent() {
			return resp, err
		}
	}
}

// trust decodes the token a response begins at and tells what of it may be
// believed: all of it, or nothing. A token of another epoch, another device,
// another format, or from a future that this file never had is answered as if
// there were none: a full sync, and nothing is acknowledged. Streams in memory
// count only if this process made the token.
func (s *Syncer) trust(r Request) (Token, error) {
	if r.Since == "" {
		return Token{}, nil
	}
	t, err := ParseToken(r.Since)
	switch pos := s.store.Pos(); {
	case errors.Is(err, errMalformed):
		return Token{}, matrix.Errorf(matrix.InvalidParam, "since is not a token of this server")
	case err != nil, t.Epoch != s.store.Epoch(), t.Device != r.DeviceNum, t.Pos > pos, t.ToDevice > pos:
		s.log.Debug("token not trusted, full sync", zap.Int64("device", r.DeviceNum))
		return Token{Lost: true}, nil //nolint:nilerr // as if there were none
	}
	if t.Boot != s.boot {
		t.Live, t.Answer = 0, 0
	}
	return t, nil
}

// build reads one response in one snapshot, whose position is the response's.
func (s *Syncer) build(ctx context.Context, r *Request, from Token, t *telling) (Response, error) {
	resp := Response{since: from}
	t.again()
	err := s.store.Read(ctx, "sync", func(rx *storage.Rx) error {
		// A device deleted between authentication and Subscribe tells nobody.
		if err := rx.DeviceAlive(r.DeviceNum); errors.Is(err, storage.ErrNotFound) {
			return errEnded()
		} else if err != nil {
			return err
		}
		resp.next = Token{Epoch: s.store.Epoch(), Pos: rx.Pos(), Device: r.DeviceNum, Answer: from.Answer, Boot: s.boot}
		if err := s.readToDevice(ctx, rx, r.DeviceNum, &resp); err != nil || resp.cut {
			return err
		}
		b := builder{
			rx: rx, req: r, filter: &r.Filter, out: spill.New(s.opt.TempDir),
			viewer:  view.New(rx, view.User{ID: r.User, Num: r.UserNum, Device: r.DeviceNum}),
			members: t, since: from.Pos, pos: rx.Pos(), whole: from.Pos == 0 || r.FullState, lost: from.Lost,
		}
		resp.rooms = b.out
		err := b.build()
		resp.told = b.told
		return err
	})
	if err != nil {
		return Response{}, errors.Join(fmt.Errorf("sync: %w", err), resp.Close())
	}
	return resp, nil
}

// Wait waits for news of sub in the name of r's device, whose polls of every
// kind are counted together. It returns true when there may be something new to
// read, and false when what was read has to do: timeUp fired, r.Closing closed,
// or newer polls of the device took the place. nothing is how often the poll
// read in vain already; the more often, the longer news rests before it is told
// of. A device that was deleted is M_UNKNOWN_TOKEN, one that waits too often at
// once M_LIMIT_EXCEEDED.
func (s *Syncer) Wait(ctx context.Context, sub *storage.Subscription, timeUp <-chan time.Time, r Request, nothing int) (bool, error) {
	rest := restAfter(nothing)
	poll, err := s.polls.enter(r.DeviceNum)
	if err != nil {
		return false, err
	}
	defer s.polls.leave(r.DeviceNum, poll)
	news := sub.C()
	var rested <-chan time.Time
	for {
		select {
		case <-news:
			if rest <= 0 {
				return true, nil
			}
			pause := time.NewTimer(rest)
			defer pause.Stop()
			news, rested = nil, pause.C // what comes until then is read with it
			continue
		case <-rested:
			return true, nil
		case <-sub.Ended():
			return false, errEnded()
		case <-timeUp:
		case <-poll.superseded:
		case <-r.Closing:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		return false, nil
	}
}

// restAfter is how long a poll waits with reading news, after it read so often
// in vain. A poll whose filter hides what a busy room is full of would else read
// for every event of it, and many such polls would slow down who sends them.
func restAfter(nothing int) time.Duration {
	const free, step, most = 3, 10 * time.Millisecond, 100 * time.Millisecond
	return min(time.Duration(max(nothing-free, 0))*step, most)
}

func errEnded() error {
	return matrix.Errorf(matrix.UnknownToken, "this device was logged out")
}
