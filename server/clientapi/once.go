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
// Both answers are decoded from the same recorded bytes, so they are the same,
// provided Out has no maps, whose order is random.
func once[Out any](ctx context.Context, a *API, c *web.Call, fn func(*storage.Tx) (Out, error)) (Out, error) {
	return onceBy(ctx, a, c, a.Store.Write, fn)
}

// unit runs a unit of the store: [storage.Store.Write], or what builds on it.
type unit func(ctx context.Context, why string, fn func(*storage.Tx) error) error

// onceBy is [once] in a unit that write runs.
func onceBy[Out any](ctx context.Context, a *API, c *web.Call, write unit, fn func(*storage.Tx) (Out, error)) (Out, error) {
	scope := storage.TransactionScope{Device: c.DeviceNum, Method: c.Method, Template: c.Template, Vars: c.Vars}
	var response []byte
	err := write(ctx, "once "+c.Template, func(tx *storage.Tx) (err error) {
		if err := a.Accounts.Alive(tx.Rx, c.DeviceNum); err != nil {
			return err
		}
		response, err = tx.FindTransaction(scope)
		if !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		out, err := fn(tx)
		if err != nil {
			return err
		}
		if response, err = json.Marshal(&out); err != nil {
			return fmt.Errorf("encode response: %w", err)
		}
		return tx.RecordTransaction(scope, response)
	})
	var out Out
	if err == nil {
		err = json.Unmarshal(response, &out)
	}
	return out, err
}
