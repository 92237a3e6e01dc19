package fedapi

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/inbound"
	"hearth/server/web"
)

// transactionBody is the size of a transaction: 50 PDUs of 64 KiB, as many
// bytes again for what signatures and escapes add to them, and 100 EDUs of 64 KiB.
const transactionBody = 2*inbound.MaxPDUs*64<<10 + inbound.MaxEDUs*64<<10

// putSend serves PUT /_matrix/federation/v1/send/{txnId}. It answers 200 only
// when everything that the transaction caused is durable.
// Server-Server API, "Transactions".
func (a *API) putSend(ctx context.Context, c *web.Call, in inbound.Transaction) (jsontext.Value, error) {
	return a.Inbound.Process(ctx, c.Origin, c.Vars["txnId"], in)
}
