package inbox

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage"
	"hearth/storage/matrix"
)

const ours = matrix.ServerName("hearth.test")

// world is a store with inboxes, reopened at will.
type world struct {
	t     require
	dir   string
	opt   Options
	now   func() time.Time
	store *storage.Store
	inbox *Inbox
}

// require is what a world needs of a test; *rapid.T offers it, too.
type require interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newWorld(t testing.TB, opt Options) *world {
	w := &world{t: t, dir: fastDir(t), opt: opt}
	w.open()
	t.Cleanup(w.close)
	return w
}

// fastDir is a directory in memory where the system has one: these tests are
// about what is in the file, not about the disk.
func fastDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "hearth")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (w *world) open() {
	w.t.Helper()
	s, err := storage.Open(context.Background(), storage.Options{Dir: w.dir, ServerName: ours, Now: w.now})
	w.must(err)
	w.store, w.inbox = s, New(s, w.opt, nil)
}

func (w *world) close() {
	w.t.Helper()
	w.must(w.store.Close())
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

func (w *world) write(fn func(*storage.Tx) error) {
	w.t.Helper()
	w.must(w.store.Write(context.Background(), "test", fn))
}

func user(local string) matrix.UserID { return matrix.NewUserID(local, ours) }

// register makes a user with devices and returns their numbers.
func (w *world) register(local string, devices ...string) (user int64, nums []int64) {
	w.t.Helper()
	w.write(func(tx *storage.Tx) (err error) {
		nums = nil
		if user, err = tx.AddUser(storage.User{Localpart: local}); err != nil {
			return err
		}
		for _, d := range devices {
			num, err := tx.AddDevice(user, matrix.DeviceID(d), "")
			if err != nil {
				return err
			}
			nums = append(nums, num)
		}
		return nil
	})
	return user, nums
}

func (w *world) deleteDevice(num int64) {
	w.t.Helper()
	w.write(func(tx *storage.Tx) error {
		w.inbox.Drop(tx, num)
		return tx.DeleteDevice(num)
	})
}

func to(local, device, content string) Messages {
	return Messages{user(local): {device: jsontext.Value(content)}}
}

func (w *world) send(from matrix.UserID, m Messages) {
	w.t.Helper()
	w.write(func(tx *storage.Tx) error { return w.inbox.Enqueue(tx, from, "m.test", m) })
}

func (w *world) batch(device, after int64) (b Batch) {
	w.t.Helper()
	w.must(w.store.Read(context.Background(), "test", func(rx *storage.Rx) (err error) {
		b, err = w.inbox.Batch(context.Background(), rx, device, after)
		return err
	}))
	return b
}

// all reads a whole inbox from a position, batch by batch, without acknowledging.
func (w *world) all(device, after int64) (list []Message, next int64) {
	w.t.Helper()
	for more := true; more; {
		b := w.batch(device, after)
		list = append(list, b.Messages...)
		after, more = b.Next, b.More
	}
	return list, after
}

func contents(list []Message) []string {
	var all []string
	for _, m := range list {
		all = append(all, string(m.Content))
	}
	return all
}

var errOnPurpose = errors.New("on purpose")
