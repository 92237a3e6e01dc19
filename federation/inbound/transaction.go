package inbound

import (
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage/matrix"
)

// What a transaction may hold. Server-Server API, "Transactions".
const (
	MaxPDUs = 50
	MaxEDUs = 100
)

// Transaction is the body of PUT /_matrix/federation/v1/send/{txnId}.
//
// Spec deviation: pdus may be absent, and both lists null: some encoders write
// empty lists so, and a room key should not be lost for that.
type Transaction struct {
	Origin string `json:"origin"`
	PDUs   PDUs   `json:"pdus"`
	EDUs   EDUs   `json:"edus"`
}

// Validate tells whether what must be there is there.
func (t *Transaction) Validate() error {
	if t.Origin == "" {
		return matrix.Errorf(matrix.MissingParam, "origin is missing")
	}
	return nil
}

// PDUs are the events of a transaction, as received.
type PDUs []jsontext.Value

// UnmarshalJSONFrom implements json.UnmarshalerFrom. More than [MaxPDUs] are M_BAD_JSON.
func (l *PDUs) UnmarshalJSONFrom(dec *jsontext.Decoder) (err error) {
	*l, err = readList(dec, "pdus", MaxPDUs)
	return err
}

// EDUs are the ephemeral data units of a transaction, as received.
type EDUs []jsontext.Value

// UnmarshalJSONFrom implements json.UnmarshalerFrom. More than [MaxEDUs] are M_BAD_JSON.
func (l *EDUs) UnmarshalJSONFrom(dec *jsontext.Decoder) (err error) {
	*l, err = readList(dec, "edus", MaxEDUs)
	return err
}

// readList stops at the first value that is too many: a body that is full of
// tiny ones would take many times its size.
func readList(dec *jsontext.Decoder, name string, most int) ([]jsontext.Value, error) {
	switch dec.PeekKind() {
	case 'n':
		return nil, dec.SkipValue()
	case '[':
	default:
		return nil, matrix.Errorf(matrix.BadJSON, "%s is not a list", name)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	var list []jsontext.Value
	for dec.PeekKind() != ']' {
		if len(list) == most {
			return nil, matrix.Errorf(matrix.BadJSON, "%s has more than %d entries", name, most)
		}
		v, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		list = append(list, v.Clone())
	}
	_, err := dec.ReadToken()
	return list, err
}

// eventID is what the sender calls an event, for the response; false where that
// is not to be known. From room version 3 on the ID is a hash, and what the hash
// covers changes a little between versions: for most events the newest serve.
func eventID(raw jsontext.Value) (matrix.EventID, bool) {
	var head struct {
		ID   string `json:"event_id"`
		Room string `json:"room_id"`
	}
	if json.Unmarshal(raw, &head) != nil {
		return "", false
	}
	if head.ID != "" {
		id, err := matrix.ParseEventID(head.ID)
		return id, err == nil && strings.IndexFunc(head.ID, func(r rune) bool { return r < ' ' }) < 0
	}
	version := matrix.RoomVersion("11")
	if !strings.Contains(head.Room, ":") {
		version = "12"
	}
	v, _ := matrix.VersionOf(version)
	sum, err := matrix.ReferenceHash(v, raw)
	return matrix.EventID("$" + base64.RawURLEncoding.EncodeToString(sum[:])), err == nil
}
