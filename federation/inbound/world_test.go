package inbound

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap/zaptest"

	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

const (
	ours  = matrix.ServerName(storagetest.ServerName)
	peer  = matrix.ServerName("peer.example")
	third = matrix.ServerName("third.example")
	bob   = "@bob:" + storagetest.ServerName
)

// world is a server with the user bob, who has the devices B1 and B2.
type world struct {
	t       *testing.T
	dir     string
	opt     Options
	store   *storage.Store
	inbox   *inbox.Inbox
	proc    *Processor
	devices map[string]int64
}

func newWorld(t *testing.T, opt Options) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), opt: opt, devices: map[string]int64{}}
	w.open(inbox.Options{})
	w.must(w.store.Write(t.Context(), "test", func(tx *storage.Tx) error {
		num, err := tx.AddUser(storage.User{Localpart: "bob"})
		if err != nil {
			return err
		}
		for _, id := range []string{"B1", "B2"} {
			if w.devices[id], err = tx.AddDevice(num, matrix.DeviceID(id), ""); err != nil {
				return err
			}
		}
		return nil
	}))
	return w
}

func (w *world) open(opt inbox.Options) {
	w.t.Helper()
	w.store = storagetest.OpenDir(w.t, w.dir)
	w.inbox = inbox.New(w.store, opt, zaptest.NewLogger(w.t))
	w.proc = New(w.store, w.inbox, w.opt, zaptest.NewLogger(w.t))
}

func (w *world) restart() {
	w.t.Helper()
	w.must(w.store.Close())
	w.open(inbox.Options{})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// process decodes a body as the HTTP side does, and has it applied.
func (w *world) process(origin matrix.ServerName, txn, body string) (string, error) {
	w.t.Helper()
	var t Transaction
	err := json.Unmarshal([]byte(body), &t)
	if err == nil {
		err = t.Validate()
	}
	if err != nil {
		return "", err
	}
	response, err := w.proc.Process(w.t.Context(), origin, txn, t)
	return string(response), err
}

const empty = `{"pdus":{}}`

// deliver is process for what must succeed with an empty response.
func (w *world) deliver(txn string, edus ...string) {
	w.t.Helper()
	got, err := w.process(peer, txn, transaction(peer, edus...))
	w.must(err)
	if got != empty {
		w.t.Fatalf("got %s, want %s", got, empty)
	}
}

// waiting is the contents in the inbox of a device.
func (w *world) waiting(device string) string {
	w.t.Helper()
	var all []string
	w.must(w.store.Read(w.t.Context(), "test", func(rx *storage.Rx) error {
		for after, more := int64(0), true; more; {
			b, err := w.inbox.Batch(w.t.Context(), rx, w.devices[device], after)
			if err != nil {
				return err
			}
			for _, m := range b.Messages {
				all = append(all, string(m.Content))
			}
			after, more = b.Next, b.More
		}
		return nil
	}))
	return strings.Join(all, " ")
}

func (w *world) wantWaiting(device, want string) {
	w.t.Helper()
	if got := w.waiting(device); got != want {
		w.t.Errorf("%s has\n%s\nwant\n%s", device, got, want)
	}
}

// transaction is a body with EDUs alone.
func transaction(origin matrix.ServerName, edus ...string) string {
	return fmt.Sprintf(`{"origin":%q,"origin_server_ts":1,"pdus":[],"edus":[%s]}`, origin, strings.Join(edus, ","))
}

// direct is an m.direct_to_device EDU of a user of peer for bob's device B1.
func direct(id, content string) string { return edu(id, `{"`+bob+`":{"B1":`+content+`}}`) }

func edu(id, messages string) string {
	return fmt.Sprintf(`{"edu_type":"m.direct_to_device","content":{"sender":"@alice:%s","type":"m.test","message_id":%q,"messages":%s}}`, peer, id, messages)
}

// wantError fails the test where err is not told with status and code.
func wantError(t *testing.T, err error, status int, code matrix.Code) {
	t.Helper()
	var told *matrix.Error
	if !errors.As(err, &told) {
		t.Fatalf("got %v, want %d %s", err, status, code)
	}
	if told.Status != status || told.Code != code {
		t.Errorf("got %d %s, want %d %s", told.Status, told.Code, status, code)
	}
	if status == http.StatusTooManyRequests && told.RetryAfter <= 0 {
		t.Error("does not say when to try again")
	}
}
