// Package account owns who may use the server and how they prove it: accounts,
// passwords, devices, access and refresh tokens, registration tokens and
// user-interactive authentication. It serves no HTTP and holds no SQL.
package account

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"hearth/storage"
	"hearth/storage/matrix"
)

// Mode says who may register.
type Mode string

// The modes of registration. A first-run token is good in each of them.
const (
	Closed Mode = "closed" // nobody
	Token  Mode = "token"  // who has a registration token
	Open   Mode = "open"   // anybody
)

// Options configure [New]. A zero field has the default named beside it.
type Options struct {
	Registration      Mode          // Closed
	SharedSecret      matrix.Token  // "": no shared-secret registration
	MinPasswordLength int           // 8 characters
	AccessTokenTTL    time.Duration // 1 h; applies to clients that can refresh
	RefreshTokenTTL   time.Duration // 90 days; begins anew with each refresh
	MaxDevices        int           // 500 per user
	Terms             []Policy      // none: no terms stage
	LimitFailures     bool          // bound wrong passwords per account
	HashTime          uint32        // Argon2id passes: 2
	HashMemory        uint32        // Argon2id memory in KiB: 19456
	Now               func() time.Time

	// DeviceDeleted is called in the unit that deletes a device, before its
	// row goes, so that whoever keeps something of it can let go.
	DeviceDeleted func(tx *storage.Tx, device int64) error
}

func (o *Options) fill() {
	setDefault(&o.Registration, Closed)
	setDefault(&o.MinPasswordLength, 8)
	setDefault(&o.AccessTokenTTL, time.Hour)
	setDefault(&o.RefreshTokenTTL, 90*24*time.Hour)
	setDefault(&o.MaxDevices, 500)
	setDefault(&o.HashTime, 2)
	setDefault(&o.HashMemory, 19456)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.DeviceDeleted == nil {
		o.DeviceDeleted = func(*storage.Tx, int64) error { return nil }
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Accounts is the door to all of it. It is safe for concurrent use.
type Accounts struct {
	store  *storage.Store
	opt    Options
	log    *zap.Logger
	hasher *hasher
	seen   seen

	interactions *expiring[*interaction]
	loginTokens  *expiring[string]   // hash of token → localpart
	nonces       *expiring[struct{}] // of shared-secret registration
	failures     *expiring[int]      // localpart → wrong passwords
}

// New makes the accounts of a store.
func New(store *storage.Store, opt Options, log *zap.Logger) *Accounts {
	opt.fill()
	return &Accounts{
		store:        store,
		opt:          opt,
		log:          log.Named("account"),
		hasher:       newHasher(opt.HashTime, opt.HashMemory, debug.FreeOSMemory),
		seen:         seen{recent: map[int64]sighting{}, pending: map[int64]sighting{}},
		interactions: newExpiring[*interaction](4096, 30*time.Minute, opt.Now),
		loginTokens:  newExpiring[string](4096, LoginTokenTTL, opt.Now),
		nonces:       newExpiring[struct{}](1024, time.Minute, opt.Now),
		failures:     newExpiring[int](4096, failureWindow, opt.Now),
	}
}

// userID is the full identifier of a local user.
func (a *Accounts) userID(localpart string) matrix.UserID {
	return matrix.NewUserID(localpart, a.store.ServerName())
}

// deleteDevices removes devices, with all they own, in the unit of tx.
func (a *Accounts) deleteDevices(tx *storage.Tx, devices ...storage.DeviceRef) error {
	for _, d := range devices {
		if err := a.opt.DeviceDeleted(tx, d.Num); err != nil {
			return err
		}
		if err := tx.DeleteDevice(d.Num); err != nil {
			return err
		}
	}
	return nil
}

// randomToken makes a secret of 256 bits. The prefix tells people, and tools
// that search for leaked secrets, what they look at.
func randomToken(prefix string) matrix.Token {
	return matrix.Token(prefix + randomString(32))
}

// randomString is n random bytes in URL-safe base64.
func randomString(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: it ends the process instead
	return base64.RawURLEncoding.EncodeToString(b)
}

// randomLetters is n letters out of the given 32.
func randomLetters(n int, alphabet string) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	for i := range b {
		b[i] = alphabet[b[i]%32]
	}
	return string(b)
}

// write runs fn as one unit that yields a value.
func write[T any](ctx context.Context, a *Accounts, why string, fn func(*storage.Tx) (T, error)) (T, error) {
	var out T
	err := a.store.Write(ctx, why, func(tx *storage.Tx) (err error) {
		out, err = fn(tx)
		return err
	})
	return out, err
}

// read runs fn on one snapshot and yields a value.
func read[T any](ctx context.Context, a *Accounts, why string, fn func(*storage.Rx) (T, error)) (T, error) {
	var out T
	err := a.store.Read(ctx, why, func(rx *storage.Rx) (err error) {
		out, err = fn(rx)
		return err
	})
	return out, err
}
