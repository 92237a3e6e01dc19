package clientapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"hearth/server/web"
	"hearth/storage"
)

// once performs a request with a transaction ID, in one unit: the caller's
// device still exists; the request was not answered before; fn; the record of
// its response. A retransmission is answered from the record and changes
// nothing. Only successes are recorded, so a request that failed may be sent
// again. Client-Server API, "Transaction identifiers".
//
// Out must come back from JSON as it went in: a struct without maps, or a
// jsontext.Value, so that both answers have the same bytes.
func once[Out any](ctx context.Context, a *API, c *web.Call, fn func(*storage.Tx) (Out, error)) (Out, error) {
	scope := storage.TransactionScope{Device: c.DeviceNum, Method: c.Method, Template: c.Template, Vars: c.Vars}
	var out Out
	err := a.Store.Write(ctx, "once "+c.Template, func(tx *storage.Tx) (err error) {
		if err := a.Accounts.Alive(tx.Rx, c.DeviceNum); err != nil {
			return err
		}
		var zero Out
		recorded, err := tx.FindTransaction(scope)
		if err == nil {
			out = zero
			return json.Unmarshal(recorded, &out)
		}
		if !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		if out, err = fn(tx); err != nil {
			return err
		}
		response, err := json.Marshal(&out)
		if err != nil {
			return fmt.Errorf("encode response: %w", err)
		}
		return tx.RecordTransaction(scope, response)
	})
	return out, err
}
