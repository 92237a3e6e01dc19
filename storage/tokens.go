package storage

import (
	"crypto/sha256"
	"fmt"

	"hearth/storage/matrix"
)

// TokenState says what a pair of tokens is still good for.
type TokenState int

// The states of a pair.
const (
	TokenLive    TokenState = iota // in use
	TokenPending                   // made by a refresh, not yet used
	TokenSpent                     // replaced by a pair that was used
	TokenRevoked                   // its session was ended by the server
)

const (
	maxPendingTokens = 4  // per parent: answers to repeated refreshes
	maxSpentTokens   = 16 // per device, revoked ones too: how far back a reuse is recognised
)

// Session is a pair of tokens with the device and user it admits.
type Session struct {
	Num       int64
	Parent    int64 // the pair it was refreshed from, 0 if none
	State     TokenState
	Created   int64 // age clock in milliseconds
	Expires   int64 // age clock in milliseconds, 0 if the access token does not expire
	Device    DeviceRef
	UserNum   int64
	Localpart string
	Admin     bool
	Locked    bool // see [User]
	Suspended bool
}

const sessionQuery = `SELECT t.num, ifnull(t.parent, 0), t.state, t.created_clock, ifnull(t.expires_clock, 0),
	d.num, d.device_id, u.num, u.localpart, u.admin, u.locked, u.suspended
	FROM tokens t JOIN devices d ON d.num = t.device_num JOIN users u ON u.num = d.user_num `

func (s *Session) fields() []any {
	return []any{&s.Num, &s.Parent, &s.State, &s.Created, &s.Expires, &s.Device.Num, &s.Device.ID, &s.UserNum, &s.Localpart, &s.Admin,
		&s.Locked, &s.Suspended}
}

var (
	sessionByAccess  = stmt(sessionQuery + `WHERE t.access_hash = ?`)
	sessionByRefresh = stmt(sessionQuery + `WHERE t.refresh_hash = ?`)
)

// SessionByAccess finds the pair that an access token belongs to, in any state.
func (rx *Rx) SessionByAccess(t matrix.Token) (Session, error) {
	return rx.session(sessionByAccess, t)
}

// SessionByRefresh finds the pair that a refresh token belongs to, in any state.
func (rx *Rx) SessionByRefresh(t matrix.Token) (Session, error) {
	return rx.session(sessionByRefresh, t)
}

func (rx *Rx) session(by *statement, t matrix.Token) (Session, error) {
	var s Session
	if err := rx.row(by, []any{hashToken(t)}, s.fields()...); err != nil {
		return Session{}, fmt.Errorf("session: %w", err)
	}
	return s, nil
}

// hashToken is what a token is stored as. Tokens are 256 random bits, so that
// a plain hash cannot be searched.
func hashToken(t matrix.Token) []byte {
	if t == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(t.Reveal()))
	return sum[:]
}

// NewTokens is a pair to be stored.
type NewTokens struct {
	Access, Refresh matrix.Token // Refresh may be empty
	Expires         int64        // age clock in milliseconds, 0: does not expire
}

var insertTokens = stmt(`INSERT INTO tokens (device_num, access_hash, refresh_hash, created_clock, expires_clock, parent, state)
	VALUES (?, ?, ?, ?, nullif(?, 0), nullif(?, 0), ?)`)

// StartSession makes the pair the only one that admits to the device.
func (tx *Tx) StartSession(device int64, p NewTokens) error {
	if err := tx.RevokeSession(device); err != nil {
		return err
	}
	return tx.addTokens(device, p, 0, TokenLive)
}

func (tx *Tx) addTokens(device int64, p NewTokens, parent int64, state TokenState) error {
	_, err := tx.insert(insertTokens, device, hashToken(p.Access), hashToken(p.Refresh), tx.Clock(), p.Expires, parent, int(state))
	if err != nil {
		return fmt.Errorf("add tokens: %w", err)
	}
	return nil
}

var trimPending = stmt(`DELETE FROM tokens WHERE device_num = ?1 AND parent = ?2 AND state = 1 AND num <=
	(SELECT num FROM tokens WHERE device_num = ?1 AND parent = ?2 AND state = 1 ORDER BY num DESC LIMIT 1 OFFSET ?3)`)

// RefreshSession adds a pending pair beside old, which stays as it is until
// the new pair is used: a client that never got the answer asks again.
func (tx *Tx) RefreshSession(old Session, p NewTokens) error {
	if _, err := tx.exec(trimPending, old.Device.Num, old.Num, maxPendingTokens-1); err != nil {
		return fmt.Errorf("refresh session: %w", err)
	}
	return tx.addTokens(old.Device.Num, p, old.Num, TokenPending)
}

var (
	settleTokens = stmt(`UPDATE tokens SET state = 0 WHERE num = ? AND state = 1`)
	spendTokens  = stmt(`UPDATE tokens SET state = 2 WHERE num = ? AND state = 0`)
	dropPending  = stmt(`DELETE FROM tokens WHERE device_num = ? AND parent = ? AND state = 1`)
	trimSpent    = stmt(`DELETE FROM tokens WHERE device_num = ?1 AND state >= 2 AND num <=
		(SELECT num FROM tokens WHERE device_num = ?1 AND state >= 2 ORDER BY num DESC LIMIT 1 OFFSET ?2)`)
	revokeSession = stmt(`UPDATE tokens SET state = 3 WHERE device_num = ?`)
)

// SettleSession is called at the first use of a pending pair: it becomes the
// live one, its parent is spent and the other answers to the same refresh are
// gone. It returns [ErrNotFound] if the pair is pending no longer.
func (tx *Tx) SettleSession(s Session) error {
	if err := tx.mustChange("settle session", settleTokens, s.Num); err != nil {
		return err
	}
	for _, step := range []struct {
		sql  *statement
		args []any
	}{
		{spendTokens, []any{s.Parent}},
		{dropPending, []any{s.Device.Num, s.Parent}},
		{trimSpent, []any{s.Device.Num, maxSpentTokens}},
	} {
		if _, err := tx.exec(step.sql, step.args...); err != nil {
			return fmt.Errorf("settle session: %w", err)
		}
	}
	return nil
}

// RevokeSession ends every pair of the device, which itself stays: its owner
// can log in to it again.
func (tx *Tx) RevokeSession(device int64) error {
	if _, err := tx.exec(revokeSession, device); err != nil {
		return fmt.Errorf("revoke session: %w", err)
	}
	if _, err := tx.exec(trimSpent, device, maxSpentTokens); err != nil {
		return fmt.Errorf("revoke session: %w", err)
	}
	return nil
}

var countTokens = stmt(`SELECT count(*) FROM tokens WHERE device_num = ?`)

// CountTokens counts the pairs kept for a device, in any state.
func (rx *Rx) CountTokens(device int64) (int, error) {
	var n int
	if err := rx.row(countTokens, []any{device}, &n); err != nil {
		return 0, fmt.Errorf("count tokens: %w", err)
	}
	return n, nil
}
