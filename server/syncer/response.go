package syncer

import (
	"bytes"
	"context"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/spill"
	"hearth/storage"
	"hearth/storage/inbox"
)

// What is told of what this server does not have yet, presence and device keys:
// nothing, in its right shape. Clients differ in what they take a missing
// section for, so none is left out.
//
// The specification lets a zero key count be left out too, but there are
// clients that take a missing count for "unknown" and never upload keys; and
// the unused fallback key types are required even when there are none. Device
// lists belong to incremental syncs only.
// Client-Server API, "Extensions to /sync" of end-to-end encryption.
const (
	noKeys        = `,"device_one_time_keys_count":{"signed_curve25519":0},"device_unused_fallback_key_types":[]`
	noPresence    = `,"presence":{"events":[]}`
	noDeviceLists = `,"device_lists":{"changed":[],"left":[]}`
)

// Response is one /sync answer. It writes itself, because most of it is JSON
// that is stored as it is sent. It must be closed.
type Response struct {
	since Token
	next  Token

	toDevice []inbox.Message
	cut      bool // more to-device messages wait: only they and key counts are told

	rooms *spill.Buffer // the sections rooms and account_data; nil: not told
	told  int           // rooms and account data in it
}

// Next is the token the client continues with.
func (r Response) Next() Token { return r.next }

// urgent tells whether the response is worth ending a wait for. A first sync
// always is.
func (r Response) urgent() bool { return r.since.Pos == 0 || len(r.toDevice) > 0 || r.told > 0 }

// Close gives up what the response holds of the disk.
func (r Response) Close() error { return r.rooms.Close() }

// readToDevice reads the inbox, before every other section: if more waits than
// one response may carry, the response is cut, and every other position stays
// where the client's token has it, so that no event arrives before its key.
func (s *Syncer) readToDevice(ctx context.Context, rx *storage.Rx, device int64, resp *Response) error {
	batch, err := s.inbox.Batch(ctx, rx, device, resp.since.ToDevice)
	if err != nil {
		return err
	}
	resp.toDevice, resp.cut, resp.next.ToDevice = batch.Messages, batch.More, batch.Next
	if resp.cut {
		resp.next.Pos, resp.next.Live, resp.next.Lost = resp.since.Pos, resp.since.Live, resp.since.Lost
	}
	return nil
}

// pieceSize is how much of an answer is encoded before it is handed on.
const pieceSize = 32 << 10

// WriteJSON writes the body of the answer once, piece by piece: a thousand
// clients that wake at once must not cost a thousand encoded inboxes.
func (r Response) WriteJSON(w io.Writer) error {
	var b bytes.Buffer
	b.Grow(512 + min(r.size(), pieceSize))
	b.WriteString(`{"next_batch":"`)
	b.WriteString(r.next.String())
	b.WriteString(`","to_device":{"events":[`)
	for i, m := range r.toDevice {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := writeMessage(&b, m); err != nil {
			return err
		}
		if b.Len() < pieceSize {
			continue
		}
		if _, err := b.WriteTo(w); err != nil {
			return err
		}
	}
	b.WriteString(`]}`)
	b.WriteString(noKeys)
	if r.rooms != nil {
		b.WriteString(noPresence)
		if r.since.Pos > 0 {
			b.WriteString(noDeviceLists)
		}
		b.WriteByte(',')
		if _, err := b.WriteTo(w); err != nil {
			return err
		}
		if _, err := r.rooms.WriteTo(w); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	_, err := b.WriteTo(w)
	return err
}

// size is about how many bytes the messages take.
func (r Response) size() int {
	n := 0
	for _, m := range r.toDevice {
		n += len(m.Content) + len(m.Sender) + len(m.Type) + 48
	}
	return n
}

func writeMessage(b *bytes.Buffer, m inbox.Message) error {
	b.WriteString(`{"sender":`)
	if err := writeString(b, string(m.Sender)); err != nil {
		return err
	}
	b.WriteString(`,"type":`)
	if err := writeString(b, m.Type); err != nil {
		return err
	}
	b.WriteString(`,"content":`)
	b.Write(m.Content)
	b.WriteByte('}')
	return nil
}

func writeString(b *bytes.Buffer, s string) error {
	quoted, err := jsontext.AppendQuote(b.AvailableBuffer(), s)
	b.Write(quoted)
	return err
}
