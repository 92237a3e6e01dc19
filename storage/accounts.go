package storage

import (
	"errors"
	"fmt"

	"hearth/storage/matrix"
)

// User is a local account.
type User struct {
	Num           int64 // never used again
	Localpart     string
	PasswordHash  string // "": cannot log in by password
	Admin         bool
	Type          string // "", or as shared-secret registration named it
	CreatedMS     int64
	DeactivatedMS int64 // 0: active
	Erased        bool  // asked for erasure when deactivated
	Locked        bool  // may only log out
	Suspended     bool  // may read and leave, but neither say nor join anything
}

// Active tells whether the account may be used.
func (u User) Active() bool { return u.DeactivatedMS == 0 }

const userColumns = `num, localpart, ifnull(password_hash, ''), admin, ifnull(user_type, ''),
	created_ms, ifnull(deactivated_ms, 0), erased, locked, suspended`

func (u *User) fields() []any {
	return []any{&u.Num, &u.Localpart, &u.PasswordHash, &u.Admin, &u.Type, &u.CreatedMS, &u.DeactivatedMS, &u.Erased,
		&u.Locked, &u.Suspended}
}

var userByLocalpart = stmt(`SELECT ` + userColumns + ` FROM users WHERE localpart = ?`)

// UserByID finds a local account, deactivated or not. A user of another server
// is [ErrNotFound].
func (rx *Rx) UserByID(id matrix.UserID) (User, error) {
	if id.Server() != rx.ServerName() {
		return User{}, ErrNotFound
	}
	return rx.UserByLocalpart(id.Localpart())
}

// UserByLocalpart finds a local account, deactivated or not.
func (rx *Rx) UserByLocalpart(localpart string) (User, error) {
	var u User
	if err := rx.row(userByLocalpart, []any{localpart}, u.fields()...); err != nil {
		return User{}, fmt.Errorf("user by localpart: %w", err)
	}
	return u, nil
}

var userByNum = stmt(`SELECT ` + userColumns + ` FROM users WHERE num = ?`)

// UserByNum finds a local account by its number.
func (rx *Rx) UserByNum(num int64) (User, error) {
	var u User
	if err := rx.row(userByNum, []any{num}, u.fields()...); err != nil {
		return User{}, fmt.Errorf("user by number: %w", err)
	}
	return u, nil
}

var listUsers = stmt(`SELECT ` + userColumns + ` FROM users WHERE num > ? ORDER BY num LIMIT ?`)

// Users lists accounts in order of creation, at most limit of them, beginning
// after the given number.
func (rx *Rx) Users(after int64, limit int) ([]User, error) {
	rows, err := rx.query(listUsers, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	defer rows.Close()
	var list []User
	for rows.Next() {
		var u User
		if err := rows.Scan(u.fields()...); err != nil {
			return nil, fmt.Errorf("list users: %w", err)
		}
		list = append(list, u)
	}
	return list, rows.Err()
}

var activeAdmin = stmt(`SELECT num FROM users WHERE admin = 1 AND deactivated_ms IS NULL LIMIT 1`)

// HasAdmin tells whether there is an active administrator.
func (rx *Rx) HasAdmin() (bool, error) {
	var num int64
	err := rx.row(activeAdmin, nil, &num)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

var insertUser = stmt(`INSERT INTO users (localpart, password_hash, admin, user_type, created_ms)
	VALUES (?, nullif(?, ''), ?, nullif(?, ''), ?)`)

// AddUser creates an account from Localpart, PasswordHash, Admin and Type. A
// localpart that was ever used is [ErrConflict].
func (tx *Tx) AddUser(u User) (int64, error) {
	num, err := tx.insert(insertUser, u.Localpart, u.PasswordHash, u.Admin, u.Type, tx.Now.UnixMilli())
	if err != nil {
		return 0, fmt.Errorf("add user: %w", err)
	}
	return num, nil
}

var setPassword = stmt(`UPDATE users SET password_hash = nullif(?, '') WHERE num = ? AND deactivated_ms IS NULL`)

// SetPassword replaces the password hash of an active account.
func (tx *Tx) SetPassword(user int64, hash string) error {
	return tx.mustChange("set password", setPassword, hash, user)
}

var deactivateUser = stmt(`UPDATE users SET deactivated_ms = ?, password_hash = NULL, admin = 0, erased = ?,
	locked = 0, suspended = 0
	WHERE num = ? AND deactivated_ms IS NULL`)

var deleteFilters = stmt(`DELETE FROM filters WHERE user_num = ?`)

// DeactivateUser closes an active account: password, filters and account data
// are gone, the name stays taken. The devices are deleted apart, see [Tx.DeleteDevice].
func (tx *Tx) DeactivateUser(user int64, erase bool) error {
	if err := tx.mustChange("deactivate user", deactivateUser, tx.Now.UnixMilli(), erase, user); err != nil {
		return err
	}
	if _, err := tx.exec(deleteFilters, user); err != nil {
		return fmt.Errorf("deactivate user: %w", err)
	}
	return tx.forgetAccountData(user)
}

var (
	lockUser    = stmt(`UPDATE users SET locked = ? WHERE num = ? AND deactivated_ms IS NULL`)
	suspendUser = stmt(`UPDATE users SET suspended = ? WHERE num = ? AND deactivated_ms IS NULL`)
)

// ErrUserLocked is M_USER_LOCKED: the account may only log out. It is for the
// client, which keeps its session for the time after.
// Client-Server API, "Account locking".
var ErrUserLocked error = &matrix.Error{
	Status: matrix.UserLocked.Status(), Code: matrix.UserLocked, Message: "this account is locked",
	Extra: map[string]any{"soft_logout": true},
}

// LockUser locks or unlocks an active account. What waits for news of it looks
// again, and ends; its sessions stay.
func (tx *Tx) LockUser(user int64, locked bool) error {
	if err := tx.mustChange("lock user", lockUser, locked, user); err != nil {
		return err
	}
	tx.News(News{Users: []int64{user}})
	return nil
}

// SuspendUser suspends an active account, or ends that.
func (tx *Tx) SuspendUser(user int64, suspended bool) error {
	return tx.mustChange("suspend user", suspendUser, suspended, user)
}

// mustChange runs a statement for one row; no such row is [ErrNotFound].
func (tx *Tx) mustChange(what string, s *statement, args ...any) error {
	n, err := tx.exec(s, args...)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
