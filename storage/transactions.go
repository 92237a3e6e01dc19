package storage

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
)

// Bounds of transaction records.
const (
	maxTransactionResponse = 64 << 10 // bytes
	maxTransactions        = 100_000  // per device; the oldest go, a thousand at a time
)

// TransactionScope is what makes two requests the same transaction.
type TransactionScope struct {
	Device    int64             // the device's incarnation; 0: not a device
	Principal string            // with Device 0: application service and user, or origin server
	Method    string            // of HTTP
	Template  string            // of the route, with placeholders
	Vars      map[string]string // path variables, decoded; they hold the transaction ID

	// Origin is whom the record counts against, of [Tx.Origin]; 0: no other
	// server. It does not tell transactions apart.
	Origin int64
}

// key hashes the scope. Each part carries its length, so that no two scopes
// encode alike.
func (s TransactionScope) key() []byte {
	h := sha256.New()
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(s.Device))
	h.Write(b[:])
	for _, part := range []string{s.Principal, s.Method, s.Template} {
		hashPart(h, part)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Vars)) {
		hashPart(h, name)
		hashPart(h, s.Vars[name])
	}
	return h.Sum(nil)
}

func hashPart(h hash.Hash, part string) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(len(part)))
	h.Write(b[:])
	h.Write([]byte(part))
}

var findTransaction = stmt(`SELECT response FROM transactions WHERE scope = ?`)

// FindTransaction returns what a transaction was answered; [ErrNotFound] where
// it did not succeed yet.
func (r *Rx) FindTransaction(scope TransactionScope) (response []byte, err error) {
	if err := r.row(findTransaction, []any{scope.key()}, &response); err != nil {
		return nil, fmt.Errorf("find transaction: %w", err)
	}
	return response, nil
}

var (
	lastTransaction = stmt(`SELECT seq FROM transactions WHERE device = ? ORDER BY seq DESC LIMIT 1`)
	addTransaction  = stmt(`INSERT INTO transactions (scope, device, seq, response, at_clock, origin, bytes)
		VALUES (?, nullif(?, 0), ?, ?, ?, ?, ?)`)
	trimTransactions = stmt(`DELETE FROM transactions WHERE device = ? AND seq <= ?`)
)

// RecordTransaction keeps the response of a transaction that succeeds with this
// unit, at most 64 KiB. It is kept for 14 days, or until the device is deleted,
// or until the device has made 100,000 others. A scope that was recorded before
// is [ErrConflict].
func (t *Tx) RecordTransaction(scope TransactionScope, response []byte) error {
	if len(response) > maxTransactionResponse {
		return fmt.Errorf("record transaction: response of %d bytes", len(response))
	}
	var seq int64
	if scope.Device != 0 {
		err := t.row(lastTransaction, []any{scope.Device}, &seq)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("record transaction: %w", err)
		}
	}
	seq++
	if response == nil {
		response = []byte{}
	}
	_, err := t.exec(addTransaction, scope.key(), scope.Device, seq, response, t.Clock(), scope.Origin, TransactionCost(response))
	if err == nil && seq > maxTransactions && seq%1000 == 0 {
		_, err = t.exec(trimTransactions, scope.Device, seq-maxTransactions)
	}
	if err != nil {
		return fmt.Errorf("record transaction: %w", err)
	}
	return nil
}
