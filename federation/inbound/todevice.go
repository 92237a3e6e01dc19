package inbound

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage/inbox"
	"hearth/storage/matrix"
)

// Bounds of one m.direct_to_device EDU.
const (
	maxType = 255 // bytes. Client-Server API, "Size limits"
	// maxMessageID is in bytes. There are servers that put the transaction ID of
	// their client there, often a UUID of 36 characters. It is only hashed here,
	// so a longer one costs nothing, and refusing it would cost a room key.
	//
	// Spec deviation: 32 code points are the limit.
	maxMessageID = 255
	maxDevices   = 10_000 // named
)

// plan is what is to be done with the EDUs of a transaction.
type plan struct {
	edus    []directEDU
	bad     []error // why EDUs, or messages in them, are dropped
	ignored int
}

// directEDU is an EDU of which everything is checked but who has which devices.
type directEDU struct {
	inbox.DirectToDevice
	weight int // devices named and KiB
}

// readEDUs checks the EDUs of a transaction, each by itself.
func readEDUs(edus []jsontext.Value, origin, ours matrix.ServerName) (p plan) {
	for _, raw := range edus {
		var e struct {
			Type    string         `json:"edu_type"`
			Content jsontext.Value `json:"content"`
		}
		if raw.Kind() != '{' || json.Unmarshal(raw, &e) != nil || e.Type == "" {
			p.bad = append(p.bad, errors.New("an EDU without a type"))
			continue
		}
		if e.Type != "m.direct_to_device" {
			p.ignored++
			continue
		}
		direct, malformed, err := readDirect(e.Content, origin, ours)
		if malformed > 0 {
			err = errors.Join(err, errors.New("message contents that are not objects"))
		}
		if err != nil {
			p.bad = append(p.bad, fmt.Errorf("m.direct_to_device: %w", err))
		}
		if len(direct.Messages) > 0 { // for somebody here
			direct.weight += len(e.Content) / 1024
			p.edus = append(p.edus, direct)
		}
	}
	return p
}

// readDirect checks an EDU. On an error, nothing of it is good. malformed counts
// messages that are dropped from it by themselves; what is for others than
// users of this server is left out, too.
// Server-Server API, "Send-to-device messaging".
func readDirect(content jsontext.Value, origin, ours matrix.ServerName) (e directEDU, malformed int, err error) {
	in := struct {
		Sender   *string    `json:"sender"`
		Type     *string    `json:"type"`
		ID       *string    `json:"message_id"`
		Messages recipients `json:"messages"`
	}{Messages: recipients{server: ours}}
	if content.Kind() != '{' {
		return e, 0, errors.New("no content")
	}
	if err := json.Unmarshal(content, &in); err != nil {
		if errors.Is(err, errDevices) {
			return e, 0, errDevices
		}
		return e, 0, errors.New("a wrong value") // json's own error repeats content
	}
	if in.Sender == nil || in.Type == nil || in.ID == nil || in.Messages.local == nil {
		return e, 0, errors.New("sender, type, message_id or messages is missing")
	}
	sender, err := matrix.ParseUserID(*in.Sender)
	switch {
	case err != nil:
		return e, 0, err
	case sender.Server() != origin:
		return e, 0, errors.New("the sender is a user of another server")
	case *in.Type == "" || len(*in.Type) > maxType || strings.IndexByte(*in.Type, 0) >= 0:
		return e, 0, fmt.Errorf("the type is not 1 to %d bytes of text", maxType)
	case *in.ID == "" || len(*in.ID) > maxMessageID:
		return e, 0, fmt.Errorf("the message_id is not 1 to %d bytes long", maxMessageID)
	}
	e.DirectToDevice = inbox.DirectToDevice{MessageID: *in.ID, Messages: in.Messages.local, Sender: sender, Type: *in.Type}
	e.weight = in.Messages.devices
	return e, in.Messages.malformed, nil
}

// recipients is the messages of an EDU: user, then device ID or "*", then content.
type recipients struct {
	server    matrix.ServerName
	local     inbox.Messages
	devices   int
	malformed int
}

var errDevices = fmt.Errorf("more than %d devices", maxDevices)

// UnmarshalJSONFrom keeps what is for users of this server.
func (r *recipients) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	r.local = inbox.Messages{}
	return readObject(dec, func(name string) error {
		user, err := matrix.ParseUserID(name)
		if err != nil || user.Server() != r.server {
			return dec.SkipValue()
		}
		if dec.PeekKind() != '{' {
			r.malformed++
			return dec.SkipValue()
		}
		messages := map[string]jsontext.Value{}
		err = readObject(dec, func(device string) error { return r.readMessage(dec, messages, device) })
		if len(messages) > 0 {
			r.local[user] = messages
		}
		return err
	})
}

func (r *recipients) readMessage(dec *jsontext.Decoder, to map[string]jsontext.Value, device string) error {
	if _, err := matrix.ParseDeviceID(device); err != nil {
		return dec.SkipValue() // nobody's
	}
	if dec.PeekKind() != '{' {
		r.malformed++
		return dec.SkipValue()
	}
	if r.devices++; r.devices > maxDevices {
		return errDevices
	}
	content, err := dec.ReadValue()
	if err == nil {
		to[device] = content.Clone()
	}
	return err
}

// readObject calls fn for each key of an object; fn reads the value.
func readObject(dec *jsontext.Decoder, fn func(key string) error) error {
	if dec.PeekKind() != '{' {
		return errors.New("not an object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		key, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if err := fn(key.String()); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}
