package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"hearth/storage"
	"hearth/storage/matrix"
)

const (
	maxPasswordBytes = 512 // a bound on what is hashed, far above any real password
	maxHashQueue     = 1024
	maxFailures      = 20 // wrong passwords per account and window
	failureWindow    = 5 * time.Minute
	// releaseAfter is how long after the last hash its memory goes back to the
	// system: the next one may take it over until then, but an idle process would
	// keep it for minutes.
	releaseAfter = 5 * time.Second
)

// hasher turns passwords into Argon2id hashes, a few at a time: each takes
// memory and a core, so that their number must not follow the requests'.
type hasher struct {
	time, memory uint32
	slots        chan struct{}
	waiting      atomic.Int64
	idle         *time.Timer // gives memory back, releaseAfter the last hash
	dummy        string      // compared with where there is no account
}

// newHasher makes hashes of a cost, the memory in KiB. It calls release when none
// was made for a while.
func newHasher(passes, memory uint32, release func()) *hasher {
	h := &hasher{time: passes, memory: memory, slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	h.idle = time.AfterFunc(releaseAfter, release)
	h.idle.Stop()
	h.dummy = h.encode("", make([]byte, 16))
	return h
}

// run waits for a slot and calls fn in it.
func (h *hasher) run(ctx context.Context, fn func()) error {
	defer h.waiting.Add(-1)
	if h.waiting.Add(1) > maxHashQueue {
		return limited(2*time.Second, "too many logins at once")
	}
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() {
		<-h.slots
		h.idle.Reset(releaseAfter)
	}()
	fn()
	return nil
}

// hash makes the stored form of a password, with a fresh salt.
func (h *hasher) hash(ctx context.Context, password matrix.Token) (encoded string, err error) {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt)
	err = h.run(ctx, func() { encoded = h.encode(password, salt) })
	return encoded, err
}

// encode is the PHC string form: $argon2id$v=19$m=…,t=…,p=1$salt$hash.
func (h *hasher) encode(password matrix.Token, salt []byte) string {
	sum := argon2.IDKey([]byte(password.Reveal()), salt, h.time, h.memory, 1, 32)
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s", argon2.Version, h.memory, h.time, b64.EncodeToString(salt), b64.EncodeToString(sum))
}

var errBadHash = errors.New("account: stored password hash is malformed")

// verify compares a password with its stored form, at the cost named there.
func (h *hasher) verify(ctx context.Context, encoded string, password matrix.Token) (ok bool, err error) {
	parts := strings.Split(encoded, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false, errBadHash
	}
	var version int
	var memory, passes uint32
	var threads uint8
	if _, err := fmt.Sscanf(parts[2]+" "+parts[3], "v=%d m=%d,t=%d,p=%d", &version, &memory, &passes, &threads); err != nil || version != argon2.Version || passes == 0 || threads == 0 {
		return false, errBadHash
	}
	salt, err1 := base64.RawStdEncoding.DecodeString(parts[4])
	want, err2 := base64.RawStdEncoding.DecodeString(parts[5])
	if err1 != nil || err2 != nil || len(want) == 0 {
		return false, errBadHash
	}
	err = h.run(ctx, func() {
		got := argon2.IDKey([]byte(password.Reveal()), salt, passes, memory, threads, uint32(len(want)))
		ok = subtle.ConstantTimeCompare(got, want) == 1
	})
	return ok, err
}

// CheckNewPassword refuses passwords that are too short (M_WEAK_PASSWORD) or
// unreasonably long.
func (a *Accounts) CheckNewPassword(password matrix.Token) error {
	if n := utf8.RuneCountInString(password.Reveal()); n < a.opt.MinPasswordLength {
		return matrix.Errorf(matrix.WeakPassword, "the password must have at least %d characters", a.opt.MinPasswordLength)
	}
	if len(password) > maxPasswordBytes {
		return matrix.Errorf(matrix.InvalidParam, "the password must have at most %d bytes", maxPasswordBytes)
	}
	return nil
}

// CheckPassword finds the active user of that name and password. The error is
// M_FORBIDDEN whatever was wrong, after the same work: an unknown name is not
// told from a wrong password.
func (a *Accounts) CheckPassword(ctx context.Context, localpart string, password matrix.Token) (storage.User, error) {
	if err := a.noteAttempt(localpart); err != nil {
		return storage.User{}, err
	}
	user, err := a.comparePassword(ctx, localpart, password)
	var told *matrix.Error
	switch {
	case err == nil:
		_, _ = a.failures.take(localpart)
	case !errors.As(err, &told) || told.Code != matrix.Forbidden: // nothing was compared
		a.failures.update(localpart, func(n *int) { *n = max(0, *n-1) })
	}
	return user, err
}

func (a *Accounts) comparePassword(ctx context.Context, localpart string, password matrix.Token) (storage.User, error) {
	user, err := read(ctx, a, "check password", func(rx *storage.Rx) (storage.User, error) {
		return rx.UserByLocalpart(localpart)
	})
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return storage.User{}, err
	}
	hash, usable := user.PasswordHash, user.PasswordHash != "" && user.Active() && len(password) <= maxPasswordBytes
	if !usable {
		hash, password = a.hasher.dummy, ""
	}
	match, err := a.hasher.verify(ctx, hash, password)
	if err != nil {
		return storage.User{}, err
	}
	if !match || !usable {
		return storage.User{}, matrix.Errorf(matrix.Forbidden, "wrong user name or password")
	}
	return user, nil
}

// noteAttempt counts a password as wrong before it is compared, which takes
// long: all that arrive in the meantime would else be compared too.
func (a *Accounts) noteAttempt(localpart string) error {
	if !a.opt.LimitFailures {
		return nil
	}
	refused := false
	_, left := a.failures.change(localpart, func(n *int) {
		if refused = *n >= maxFailures; !refused {
			*n++
		}
	})
	if refused {
		return limited(left, "too many wrong passwords")
	}
	return nil
}

func limited(after time.Duration, message string) error {
	return &matrix.Error{Status: matrix.LimitExceeded.Status(), Code: matrix.LimitExceeded, Message: message, RetryAfter: max(after, time.Second)}
}
