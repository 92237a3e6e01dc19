package storage

import (
	"errors"
	"fmt"
)

var (
	originByName = stmt(`SELECT num FROM origins WHERE name = ?`)
	insertOrigin = stmt(`INSERT INTO origins (name) VALUES (?)`)
)

// Origin returns the number under which is counted what is remembered of other
// servers that count as name. It is made at first use, so that a lower number
// was met earlier, and ends when nothing is remembered any more.
func (t *Tx) Origin(name string) (num int64, err error) {
	err = t.row(originByName, []any{name}, &num)
	if errors.Is(err, ErrNotFound) {
		num, err = t.insert(insertOrigin, name)
	}
	if err != nil {
		return 0, fmt.Errorf("origin: %w", err)
	}
	return num, nil
}

// Remembered is about how many bytes of the disk the records of received
// transactions and EDUs take.
type Remembered struct {
	Own int64 // of one origin
	All int64 // of all together
}

// What a record takes on disk beside its parts of variable length, in bytes.
const (
	receivedOverhead    = 128
	transactionOverhead = 160
)

// ReceivedCost is what the record of an EDU counts in [Remembered]. The ID of
// its sender is remembered twice.
func ReceivedCost(sender string) int64 { return receivedOverhead + 2*int64(len(sender)) }

// TransactionCost is what the record of a transaction of another server counts
// in [Remembered].
func TransactionCost(response []byte) int64 { return transactionOverhead + int64(len(response)) }

var remembered = stmt(`SELECT o.bytes, t.bytes FROM origins o, origins_total t WHERE o.num = ?`)

// Remembered returns what is remembered of one origin, and of all.
func (r *Rx) Remembered(origin int64) (m Remembered, err error) {
	if err := r.row(remembered, []any{origin}, &m.Own, &m.All); err != nil {
		return Remembered{}, fmt.Errorf("remembered: %w", err)
	}
	return m, nil
}

var originRank = stmt(`SELECT count(*) FROM (SELECT 1 FROM origins WHERE num <= ? ORDER BY num LIMIT ?)`)

// OriginRank is which origin this is, of those of whom anything is remembered,
// in the order in which they were met: 1 is the first. It is not counted beyond
// most.
func (r *Rx) OriginRank(origin int64, most int) (rank int, err error) {
	if err := r.row(originRank, []any{origin, most}, &rank); err != nil {
		return 0, fmt.Errorf("origin rank: %w", err)
	}
	return rank, nil
}
