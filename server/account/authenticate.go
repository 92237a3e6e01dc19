package account

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

// Authenticate implements [web.Authenticator]: one point read, except at the
// first use of a refreshed pair, which ends the old one.
func (a *Accounts) Authenticate(ctx context.Context, token matrix.Token) (web.Caller, error) {
	var clock int64
	var s storage.Session
	err := a.store.Point(ctx, "authenticate", func(rx *storage.Rx) (err error) {
		clock = rx.Clock()
		s, err = rx.SessionByAccess(token)
		return err
	})
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return web.Caller{}, unknownToken("the access token is not known", false)
	case err != nil:
		return web.Caller{}, err
	case s.State == storage.TokenSpent || s.State == storage.TokenRevoked:
		return web.Caller{}, unknownToken("the access token is no longer valid", true)
	case s.Expires != 0 && clock >= s.Expires:
		return web.Caller{}, unknownToken("the access token has expired", true)
	}
	if s.State == storage.TokenPending {
		if err := a.settle(ctx, token); err != nil {
			return web.Caller{}, err
		}
	}
	who := web.Caller{
		User: a.userID(s.Localpart), UserNum: s.UserNum,
		Device: s.Device.ID, DeviceNum: s.Device.Num, Admin: s.Admin, Suspended: s.Suspended,
	}
	if s.Locked {
		who.Locked = storage.ErrUserLocked
	}
	return who, nil
}

// settle notes the first use of a pair. Another request of the same client may
// have done so in the meantime.
func (a *Accounts) settle(ctx context.Context, token matrix.Token) error {
	err := a.store.Write(ctx, "settle tokens", func(tx *storage.Tx) error {
		s, err := tx.SessionByAccess(token)
		if err != nil || s.State == storage.TokenLive {
			return err
		}
		return tx.SettleSession(s)
	})
	if errors.Is(err, storage.ErrNotFound) {
		return unknownToken("the access token is no longer valid", true)
	}
	return err
}

const (
	seenInterval = 5 * time.Minute // how late last-seen may be
	maxSightings = 10_000
	maxAgent     = 256 // bytes of a User-Agent that are kept
)

// seen coalesces when and from where devices were used: a device is written
// again only after seenInterval or from another address.
type seen struct {
	mu              sync.Mutex // guards all below
	recent, pending map[int64]sighting
	queued          int64 // when the last write was queued, in ms
}

type sighting struct {
	ms        int64
	ip, agent string
}

// Seen notes that the caller's device is in use. The write rides with others.
func (a *Accounts) Seen(c *web.Call) {
	at := sighting{a.opt.Now().UnixMilli(), c.RemoteIP, strings.ToValidUTF8(c.UserAgent, "")}
	if len(at.agent) > maxAgent {
		at.agent = strings.ToValidUTF8(at.agent[:maxAgent], "")
	}
	if a.seen.note(c.DeviceNum, at) {
		a.store.Later("last seen", a.writeSeen)
	}
}

// note remembers a sighting and tells whether a write must be queued for it.
func (s *seen) note(device int64, at sighting) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.recent[device]
	age := at.ms - last.ms
	if device == 0 || ok && last.ip == at.ip && 0 <= age && age < seenInterval.Milliseconds() {
		return false
	}
	if len(s.recent) >= maxSightings { // forgetting costs a write per device, no more
		clear(s.recent)
	}
	s.recent[device] = at
	if len(s.pending) < maxSightings {
		s.pending[device] = at
	}
	// One write is queued for all that gathers before it. If that one failed
	// before it ran, the next interval tries again.
	if since := at.ms - s.queued; len(s.pending) > 1 && 0 <= since && since < seenInterval.Milliseconds() {
		return false
	}
	s.queued = at.ms
	return true
}

// writeSeen writes what is pending. It stays pending until it is committed.
func (a *Accounts) writeSeen(tx *storage.Tx) error {
	a.seen.mu.Lock()
	written := maps.Clone(a.seen.pending)
	a.seen.mu.Unlock()
	for device, at := range written {
		if err := tx.SeeDevice(device, at.ms, at.ip, at.agent); err != nil {
			return err
		}
	}
	tx.AfterCommit(func() {
		if a.seen.done(written) {
			a.store.Later("last seen", a.writeSeen)
		}
	})
	return nil
}

// done forgets what was written, unless the device was seen again since, and
// tells whether anything is left to write.
func (s *seen) done(written map[int64]sighting) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.pending, func(device int64, at sighting) bool { return written[device] == at })
	return len(s.pending) > 0
}
