package storage

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"hearth/storage/matrix"
)

// Annotation is what an m.annotation says: that a user gives an event a key,
// such as an emoji, by an event of some type.
type Annotation struct {
	Target matrix.EventID
	Sender matrix.UserID
	Type   string
	Key    string
}

// hash stands for everything but the target. A key may be long.
func (a Annotation) hash() []byte {
	h := sha256.New()
	for _, s := range [...]string{string(a.Sender), a.Type, a.Key} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(s))) // a hash takes everything
		h.Write([]byte(s))
	}
	return h.Sum(nil)
}

var annotated = stmt(`SELECT e.redacted_by FROM annotations a JOIN events e ON e.num = a.event WHERE a.target = ? AND a.what = ?`)

// Annotated tells whether there is such an annotation, and it is not redacted.
// It knows those that [Tx.AddAnnotation] was told of.
func (rx *Rx) Annotated(a Annotation) (bool, error) {
	var redactedBy int64
	err := rx.row(annotated, []any{string(a.Target), a.hash()}, &redactedBy)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("annotation: %w", err)
	}
	return redactedBy == 0, nil
}

var insertAnnotation = stmt(`INSERT INTO annotations (target, what, event) VALUES (?1, ?2, ?3)
	ON CONFLICT DO UPDATE SET event = ?3`)

// AddAnnotation remembers the event that is an annotation, in place of one that
// said the same.
func (tx *Tx) AddAnnotation(a Annotation, event EventNum) error {
	if _, err := tx.exec(insertAnnotation, string(a.Target), a.hash(), int64(event)); err != nil {
		return fmt.Errorf("add annotation: %w", err)
	}
	return nil
}
