package storage

import (
	"crypto/sha256"
	"fmt"
	"strconv"
)

// maxFilters is how many filters a user may keep; the oldest goes.
const maxFilters = 200

var (
	filterByHash = stmt(`SELECT num FROM filters WHERE user_num = ? AND hash = ?`)
	insertFilter = stmt(`INSERT INTO filters (user_num, hash, json) VALUES (?, ?, ?)`)
	trimFilters  = stmt(`DELETE FROM filters WHERE user_num = ?1 AND num <=
		(SELECT num FROM filters WHERE user_num = ?1 ORDER BY num DESC LIMIT 1 OFFSET ?2)`)
)

// AddFilter stores a filter and returns its ID. The same JSON keeps its ID.
func (tx *Tx) AddFilter(user int64, json []byte) (string, error) {
	sum := sha256.Sum256(json)
	if _, err := tx.exec(trimFilters, user, maxFilters-1); err != nil {
		return "", fmt.Errorf("add filter: %w", err)
	}
	num, err := tx.insert(insertFilter, user, sum[:], json)
	if err != nil {
		return "", fmt.Errorf("add filter: %w", err)
	}
	return strconv.FormatInt(num, 10), nil
}

// FindFilter returns the ID of a filter that the user uploaded before.
func (rx *Rx) FindFilter(user int64, json []byte) (string, error) {
	sum := sha256.Sum256(json)
	var num int64
	if err := rx.row(filterByHash, []any{user, sum[:]}, &num); err != nil {
		return "", fmt.Errorf("find filter: %w", err)
	}
	return strconv.FormatInt(num, 10), nil
}

var filterByNum = stmt(`SELECT json FROM filters WHERE user_num = ? AND num = ?`)

// Filter returns a user's filter as it was uploaded. An ID that never was one
// is [ErrNotFound] too.
func (rx *Rx) Filter(user int64, id string) ([]byte, error) {
	num, err := strconv.ParseInt(id, 10, 64)
	if err != nil || strconv.FormatInt(num, 10) != id {
		return nil, ErrNotFound
	}
	var json []byte
	if err := rx.row(filterByNum, []any{user, num}, &json); err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	return json, nil
}
