package acceptance

import (
	"io"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"hearth/server/testserver"
	"hearth/storage"
)

// queued reads every EDU in the outbox, each destination's in order.
func queued(t *testing.T, hs *testserver.Server) []edu {
	t.Helper()
	var all []edu
	err := hs.Store().Read(t.Context(), "test", func(rx *storage.Rx) error {
		queues, err := rx.OutboxQueues("", 1000)
		if err != nil {
			return err
		}
		for _, q := range queues {
			rows, err := rx.OutboxRows(q.Name, 0, 1_000_000)
			if err != nil {
				return err
			}
			for _, row := range rows {
				e := edu{dest: q.Name, size: len(row.EDU)}
				if err := json.Unmarshal(row.EDU, &e); err != nil {
					return err
				}
				all = append(all, e)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clip(all)
}

func readAll(t *testing.T, r io.Reader) []byte {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
