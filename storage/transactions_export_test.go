package storage

import "crypto/rand"

var skipTransactions = stmt(`INSERT INTO transactions (scope, device, seq, response, at_clock) VALUES (?, ?, ?, x'7b7d', 0)`)

// SkipTransactions records a transaction as if seq-1 had gone before it.
func (t *Tx) SkipTransactions(device, seq int64) error {
	_, err := t.exec(skipTransactions, []byte(rand.Text()), device, seq)
	return err
}
