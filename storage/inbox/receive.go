package inbox

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage"
	"hearth/storage/matrix"
)

// DirectToDevice is the content of an m.direct_to_device EDU.
// Server-Server API, "Send-to-device messaging".
type DirectToDevice struct {
	MessageID string        `json:"message_id"`
	Messages  Messages      `json:"messages"`
	Sender    matrix.UserID `json:"sender"`
	Type      string        `json:"type"`

	hash *[32]byte // of key, once it is known
}

// Prepare does what [Inbox.Receive] would otherwise do while nobody else can
// write: it hashes the EDU, which must not change any more, as one of origin's.
func (edu *DirectToDevice) Prepare(origin matrix.ServerName) error {
	hash, err := edu.key(origin)
	edu.hash = &hash
	return err
}

// Receive applies an EDU that origin sent, unless it was applied before: the
// same sender, message ID and content from the same origin, within 30 days. The
// record of it commits with the messages, and counts against the origin. The
// caller has checked that the sender belongs to it.
func (b *Inbox) Receive(tx *storage.Tx, origin matrix.ServerName, edu DirectToDevice) error {
	if edu.hash == nil {
		if err := edu.Prepare(origin); err != nil {
			return err
		}
	}
	counts, err := tx.Origin(GroupOf(origin, tx.ServerName()))
	if err != nil {
		return err
	}
	switch err := tx.RecordReceived(*edu.hash, counts, storage.ReceivedCost(string(edu.Sender))); {
	case errors.Is(err, storage.ErrConflict):
		tx.AfterCommit(func() { b.count.repeated.Add(1) })
		return nil
	case err != nil:
		return err
	}
	return b.Enqueue(tx, edu.Sender, edu.Type, edu.Messages)
}

// key hashes origin, sender, message ID and content. The content is hashed in a
// form that does not depend on white space or the order of keys, but keeps
// numbers as they are: rounding them could make two EDUs alike.
func (edu *DirectToDevice) key(origin matrix.ServerName) ([32]byte, error) {
	text, err := json.Marshal(edu, json.Deterministic(true))
	if err != nil {
		return [32]byte{}, fmt.Errorf("hash EDU: %w", err)
	}
	content := jsontext.Value(text)
	err = content.Format(jsontext.ReorderRawObjects(true), jsontext.Multiline(false), jsontext.SpaceAfterColon(false),
		jsontext.SpaceAfterComma(false), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err != nil {
		return [32]byte{}, fmt.Errorf("hash EDU: %w", err)
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(origin), []byte(edu.Sender), []byte(edu.MessageID), content} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	return [32]byte(h.Sum(nil)), nil
}
