package storage

import (
	"errors"
	"fmt"

	"hearth/storage/matrix"
)

// maxRegistrationTokens bounds a table that only administrators fill.
const maxRegistrationTokens = 10_000

// ErrFull is returned where a bounded table takes no more rows.
var ErrFull = errors.New("storage: table is full")

// RegistrationToken admits new users.
type RegistrationToken struct {
	Token     matrix.Token
	Allowed   int64 // how many users it admits, 0: any number
	Uses      int64 // how many it has admitted
	Expires   int64 // age clock in milliseconds, 0: does not expire
	FirstRun  bool  // the user it admits is an administrator
	CreatedMS int64
}

// Valid tells whether the token admits a user at the given time on the age clock.
func (t RegistrationToken) Valid(clock int64) bool {
	return (t.Allowed == 0 || t.Uses < t.Allowed) && (t.Expires == 0 || clock < t.Expires)
}

const regTokenColumns = `token, ifnull(uses_allowed, 0), uses, ifnull(expires_clock, 0), first_run, created_ms`

func (t *RegistrationToken) fields() []any {
	return []any{&t.Token, &t.Allowed, &t.Uses, &t.Expires, &t.FirstRun, &t.CreatedMS}
}

var regTokenByName = stmt(`SELECT ` + regTokenColumns + ` FROM registration_tokens WHERE token = ?`)

// RegistrationToken finds a token, valid or not.
func (rx *Rx) RegistrationToken(t matrix.Token) (RegistrationToken, error) {
	var got RegistrationToken
	if err := rx.row(regTokenByName, []any{t.Reveal()}, got.fields()...); err != nil {
		return RegistrationToken{}, fmt.Errorf("registration token: %w", err)
	}
	return got, nil
}

var listRegTokens = stmt(`SELECT ` + regTokenColumns + ` FROM registration_tokens ORDER BY created_ms, token`)

// RegistrationTokens lists all of them, in order of creation.
func (rx *Rx) RegistrationTokens() ([]RegistrationToken, error) {
	rows, err := rx.query(listRegTokens)
	if err != nil {
		return nil, fmt.Errorf("list registration tokens: %w", err)
	}
	defer rows.Close()
	var list []RegistrationToken
	for rows.Next() {
		var t RegistrationToken
		if err := rows.Scan(t.fields()...); err != nil {
			return nil, fmt.Errorf("list registration tokens: %w", err)
		}
		list = append(list, t)
	}
	return list, rows.Err()
}

var firstRunToken = stmt(`SELECT ` + regTokenColumns + ` FROM registration_tokens
	WHERE first_run = 1 AND uses < uses_allowed LIMIT 1`)

// FirstRunToken finds the token that awaits the first administrator.
func (rx *Rx) FirstRunToken() (RegistrationToken, error) {
	var t RegistrationToken
	if err := rx.row(firstRunToken, nil, t.fields()...); err != nil {
		return RegistrationToken{}, fmt.Errorf("first-run token: %w", err)
	}
	return t, nil
}

var (
	countRegTokens = stmt(`SELECT count(*) FROM registration_tokens`)
	insertRegToken = stmt(`INSERT INTO registration_tokens (token, uses_allowed, expires_clock, first_run, created_ms)
		VALUES (?, nullif(?, 0), nullif(?, 0), ?, ?)`)
)

// AddRegistrationToken stores a new token; one of the same name is [ErrConflict].
func (tx *Tx) AddRegistrationToken(t RegistrationToken) error {
	var n int
	if err := tx.row(countRegTokens, nil, &n); err != nil {
		return fmt.Errorf("add registration token: %w", err)
	}
	if n >= maxRegistrationTokens {
		return fmt.Errorf("add registration token: %w", ErrFull)
	}
	_, err := tx.insert(insertRegToken, t.Token.Reveal(), t.Allowed, t.Expires, t.FirstRun, tx.Now.UnixMilli())
	if err != nil {
		return fmt.Errorf("add registration token: %w", err)
	}
	return nil
}

var spendRegToken = stmt(`UPDATE registration_tokens SET uses = uses + 1 WHERE token = ?1
	AND (uses_allowed IS NULL OR uses < uses_allowed) AND (expires_clock IS NULL OR expires_clock > ?2)`)

// UseRegistrationToken admits one user. A token that is unknown, used up or
// expired is [ErrNotFound].
func (tx *Tx) UseRegistrationToken(t matrix.Token) error {
	return tx.mustChange("use registration token", spendRegToken, t.Reveal(), tx.Clock())
}

var deleteRegToken = stmt(`DELETE FROM registration_tokens WHERE token = ?`)

// DeleteRegistrationToken revokes a token.
func (tx *Tx) DeleteRegistrationToken(t matrix.Token) error {
	return tx.mustChange("delete registration token", deleteRegToken, t.Reveal())
}
