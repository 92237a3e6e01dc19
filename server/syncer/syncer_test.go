package syncer

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"hearth/server/spill"
	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// fixture is a syncer over a real store with one user who has two devices.
type fixture struct {
	t        *testing.T
	store    *storage.Store
	inbox    *inbox.Inbox
	syncer   *Syncer
	user     int64
	device   int64
	other    int64
	deviceID matrix.DeviceID
}

const alice matrix.UserID = "@alice:test"

func newFixture(t *testing.T, opt Options) *fixture {
	t.Helper()
	s, err := storage.Open(t.Context(), storage.Options{Dir: t.TempDir(), ServerName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	f := &fixture{t: t, store: s, deviceID: "PHONE"}
	f.inbox = inbox.New(s, inbox.Options{}, zap.NewNop())
	f.syncer = New(s, f.inbox, zap.NewNop(), opt)
	err = s.Write(t.Context(), "test", func(tx *storage.Tx) error {
		var err error
		if f.user, err = tx.AddUser(storage.User{Localpart: "alice"}); err != nil {
			return err
		}
		if f.device, err = tx.AddDevice(f.user, f.deviceID, ""); err != nil {
			return err
		}
		f.other, err = tx.AddDevice(f.user, "TABLET", "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// send queues one message for the first device.
func (f *fixture) send(content string) {
	f.t.Helper()
	f.sendFrom(content, func() {})
}

// sendFrom is send, and calls fn inside the unit.
func (f *fixture) sendFrom(content string, fn func()) {
	f.t.Helper()
	err := f.store.Write(f.t.Context(), "test", func(tx *storage.Tx) error {
		fn()
		return f.inbox.Enqueue(tx, alice, "m.test", inbox.Messages{alice: {string(f.deviceID): []byte(content)}})
	})
	if err != nil {
		f.t.Error(err) // not Fatal: it may run beside the test
	}
}

func (f *fixture) sync(r Request) (Response, error) {
	r.User, r.UserNum = alice, f.user
	if r.DeviceNum == 0 {
		r.DeviceNum = f.device
	}
	return f.syncer.Sync(f.t.Context(), r)
}

func (f *fixture) mustSync(r Request) Response {
	f.t.Helper()
	resp, err := f.sync(r)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp
}

// The time a poll waits is the client's, up to a limit, and none for a first
// sync or with full_state.
func TestPollTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{MaxTimeout: time.Minute})
		first := f.mustSync(Request{Timeout: time.Hour})
		since := first.Next().String()
		for _, c := range []struct {
			r    Request
			want time.Duration
		}{
			{Request{Timeout: time.Hour}, 0},
			{Request{Since: since, Timeout: time.Hour, FullState: true}, 0},
			{Request{Since: since}, 0},
			{Request{Since: since, Timeout: 10 * time.Second}, 10 * time.Second},
			{Request{Since: since, Timeout: time.Hour}, time.Minute},
		} {
			began := time.Now()
			resp := f.mustSync(c.r)
			if got := time.Since(began); got != c.want {
				t.Errorf("%+v: took %v, want %v", c.r, got, c.want)
			}
			if resp.Next().Pos < first.Next().Pos {
				t.Errorf("%+v: position %d is before %d", c.r, resp.Next().Pos, first.Next().Pos)
			}
		}
	})
}

// News that is not for the device does not end its poll, nor extend it.
func TestPollKeepsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{})
		since := f.mustSync(Request{}).Next().String()
		began := time.Now()
		done := f.poll(t.Context(), Request{Since: since, Timeout: 10 * time.Second})
		for range 9 {
			time.Sleep(time.Second) // the bubble's clock
			f.store.Announce(storage.News{Devices: []int64{f.device}})
		}
		r := <-done
		if got := time.Since(began); r.err != nil || got != 10*time.Second {
			t.Errorf("took %v, %v, want 10s", got, r.err)
		}
	})
}

type result struct {
	resp Response
	err  error
}

// poll syncs in the background.
func (f *fixture) poll(ctx context.Context, r Request) <-chan result {
	done := make(chan result, 1)
	r.User, r.UserNum = alice, f.user
	if r.DeviceNum == 0 {
		r.DeviceNum = f.device
	}
	go func() {
		resp, err := f.syncer.Sync(ctx, r)
		done <- result{resp, err}
	}()
	return done
}

// Everything that ends a wait ends it at once.
func TestPollEnds(t *testing.T) {
	for what, c := range map[string]struct {
		end      func(f *fixture, closing chan struct{}, cancel func())
		messages int
		code     matrix.Code
		err      error
	}{
		"message":  {end: func(f *fixture, _ chan struct{}, _ func()) { f.send(`{}`) }, messages: 1},
		"shutdown": {end: func(_ *fixture, closing chan struct{}, _ func()) { close(closing) }},
		"client":   {end: func(_ *fixture, _ chan struct{}, cancel func()) { cancel() }, err: context.Canceled},
		"device deleted": {end: func(f *fixture, _ chan struct{}, _ func()) {
			err := f.store.Write(f.t.Context(), "test", func(tx *storage.Tx) error { return tx.DeleteDevice(f.device) })
			if err != nil {
				f.t.Error(err)
			}
		}, code: matrix.UnknownToken},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, Options{})
				since := f.mustSync(Request{}).Next().String()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				closing := make(chan struct{})
				began := time.Now()
				done := f.poll(ctx, Request{Since: since, Timeout: time.Minute, Closing: closing})
				synctest.Wait()
				c.end(f, closing, cancel)
				r := <-done
				if took := time.Since(began); took != 0 {
					t.Errorf("took %v", took)
				}
				wantResult(t, r, c.messages, c.code, c.err)
			})
		})
	}
}

func wantResult(t *testing.T, r result, messages int, code matrix.Code, err error) {
	t.Helper()
	var told *matrix.Error
	switch {
	case code != "":
		if !errors.As(r.err, &told) || told.Code != code {
			t.Errorf("got %v, want %s", r.err, code)
		}
	case err != nil:
		if !errors.Is(r.err, err) {
			t.Errorf("got %v, want %v", r.err, err)
		}
	case r.err != nil || len(r.resp.toDevice) != messages:
		t.Errorf("got %d messages, %v, want %d", len(r.resp.toDevice), r.err, messages)
	}
}

// A device that was deleted before the poll subscribed hears no news of it.
func TestDeletedBeforePoll(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	err := f.store.Write(t.Context(), "test", func(tx *storage.Tx) error { return tx.DeleteDevice(f.device) })
	if err != nil {
		t.Fatal(err)
	}
	resp, err := f.sync(Request{Timeout: time.Hour})
	wantResult(t, result{resp, err}, 0, matrix.UnknownToken, nil)
}

// Too many polls of one device: the oldest is answered, with a token that
// continues where it was, and where that has only begun the new one is refused,
// so that they do not chase each other; other devices are not touched.
func TestPollsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{MaxPolls: 2})
		since := f.mustSync(Request{}).Next().String()
		otherSince := f.mustSync(Request{DeviceNum: f.other}).Next().String()
		other := f.poll(t.Context(), Request{DeviceNum: f.other, Since: otherSince, Timeout: time.Minute})
		var polls []<-chan result
		poll := func() {
			polls = append(polls, f.poll(t.Context(), Request{Since: since, Timeout: time.Minute}))
			synctest.Wait()
		}
		wantEnded := func(i int, code matrix.Code) {
			t.Helper()
			select {
			case r := <-polls[i]:
				wantResult(t, r, 0, code, nil)
			default:
				t.Errorf("poll %d waits", i)
			}
		}
		poll()
		time.Sleep(minPoll / 2)
		poll()
		poll()
		wantEnded(2, matrix.LimitExceeded)
		time.Sleep(minPoll / 2)
		poll()
		wantEnded(0, "")
		poll()
		wantEnded(4, matrix.LimitExceeded)
		time.Sleep(minPoll / 2)
		poll()
		wantEnded(1, "")
		began := time.Now()
		for _, i := range []int{3, 5} {
			wantResult(t, <-polls[i], 0, "", nil)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the last poll took %v", took)
		}
		wantResult(t, <-other, 0, "", nil)
		if n := len(f.syncer.polls.waiting); n != 0 {
			t.Errorf("%d devices still counted as waiting", n)
		}
	})
}

// The streams in memory continue only within one process.
func TestTrustBoot(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	tok := f.mustSync(Request{}).Next()
	tok.Live = 5
	for boot, want := range map[uint32]int64{f.syncer.boot: 5, f.syncer.boot + 1: 0} {
		tok.Boot = boot
		got, err := f.syncer.trust(Request{DeviceNum: f.device, Since: tok.String()})
		if err != nil || got.Live != want || got.Pos != tok.Pos {
			t.Errorf("boot %d: got %+v, %v, want live %d", boot, got, err, want)
		}
	}
}

// The body is valid JSON for any sender, type and content, and has the
// sections its kind of response has.
func TestWriteJSON(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("x"), 3*pieceSize)
	r := Response{since: Token{Pos: 1}, next: Token{Epoch: 1, Pos: 2}, toDevice: []inbox.Message{
		{Sender: alice, Type: "a\"b\\\u2028\x01", Content: []byte(`{"a":[1,2,3]}`)},
		{Sender: "@ü:test", Type: "", Content: []byte(`{"x":"` + string(big) + `"}`)},
		{Sender: alice, Type: "m.test", Content: []byte(` { } `)},
	}}
	for _, cut := range []bool{false, true} {
		r.cut, r.rooms = cut, nil
		if !cut {
			r.rooms = spill.New(t.TempDir())
			defer r.rooms.Close()
			r.rooms.Text(`"rooms":{"x":"` + string(bytes.Repeat(big, 2)) + `"},"account_data":{}`)
			for range 3 {
				if _, err := r.rooms.Write([]byte(strings.Repeat(" ", pieceSize))); err != nil {
					t.Fatal(err)
				}
			}
		}
		wantBody(t, r)
	}
	r.toDevice = nil
	wantBody(t, r)
}

func wantBody(t *testing.T, r Response) {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var body struct {
		Next     string `json:"next_batch"`
		ToDevice struct {
			Events []struct {
				Sender  matrix.UserID  `json:"sender"`
				Type    string         `json:"type"`
				Content map[string]any `json:"content"`
			} `json:"events"`
		} `json:"to_device"`
		Rooms       map[string]any `json:"rooms"`
		DeviceLists map[string]any `json:"device_lists"`
		Counts      map[string]int `json:"device_one_time_keys_count"`
		Fallback    []string       `json:"device_unused_fallback_key_types"`
	}
	if err := json.Unmarshal(b.Bytes(), &body); err != nil {
		t.Fatalf("%v in %.300s", err, b.String())
	}
	if len(body.ToDevice.Events) != len(r.toDevice) || body.Next != r.next.String() || body.Counts == nil || body.Fallback == nil {
		t.Errorf("got %.300s", b.String())
	}
	for i, e := range body.ToDevice.Events {
		if e.Sender != r.toDevice[i].Sender || e.Type != r.toDevice[i].Type {
			t.Errorf("message %d: got %s %q", i, e.Sender, e.Type)
		}
	}
	if (body.Rooms == nil) != r.cut || (body.DeviceLists == nil) != r.cut {
		t.Errorf("cut %v: rooms %v, device lists %v", r.cut, body.Rooms, body.DeviceLists)
	}
}

// A message that is committed while a poll begins is never waited past: it is
// in the poll's snapshot, or it wakes it. The bubble's clock turns a lost
// wake-up into an empty answer at once.
func TestNoLostWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{})
		next := f.mustSync(Request{}).Next().String()
		var spin atomic.Int64
		for i := range storagetest.Scale(1000) {
			var wg sync.WaitGroup
			begun := make(chan struct{})
			wg.Go(func() { f.sendFrom(`{}`, func() { close(begun) }) })
			<-begun // the unit runs, its COMMIT is near: begin some moments later each time
			for range i % 64 * 1000 {
				spin.Add(1)
			}
			resp := f.mustSync(Request{Since: next, Timeout: time.Minute})
			wg.Wait()
			if len(resp.toDevice) != 1 {
				t.Fatalf("round %d: got %d messages, want 1", i, len(resp.toDevice))
			}
			next = resp.Next().String()
		}
	})
}
