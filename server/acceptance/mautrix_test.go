package acceptance

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"hearth/server/testserver"
)

// TestMautrix has two clients of a library that nobody here wrote: they log in,
// and one sends to-device messages to the other, which syncs with its own loop
// and receives each once: across restarts of the server, and across retries of
// requests whose answers the network lost.
func TestMautrix(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	hs.Register("alice")
	hs.Register("bob")
	alice, bob := newMautrix(t, hs, "alice"), newMautrix(t, hs, "bob")
	bobDevice := bob.DeviceID

	received := make(chan string, 100)
	syncer := &eager{mautrix.NewDefaultSyncer()}
	bob.Syncer = syncer
	kind := event.Type{Type: "m.room_key_request", Class: event.ToDeviceEventType}
	syncer.OnEventType(kind, func(_ context.Context, e *event.Event) {
		received <- string(e.Content.VeryRaw)
	})
	ctx, stop := context.WithCancel(t.Context())
	synced := make(chan error)
	go func() { synced <- bob.SyncWithContext(ctx) }()

	const count = 30
	for i := range count {
		switch i {
		case 10:
			hs.Restart()
		case 20:
			hs.Crash()
		}
		if i%3 == 0 {
			alice.Client.Transport.(*lossy).loseNext.Store(true)
		}
		content := &event.Content{VeryRaw: []byte(number(i)), Raw: map[string]any{"n": i}}
		target := id.DeviceID("*")
		if i%2 == 0 {
			target = bobDevice
		}
		_, err := alice.SendToDevice(t.Context(), kind, &mautrix.ReqSendToDevice{
			Messages: map[id.UserID]map[id.DeviceID]*event.Content{bob.UserID: {target: content}},
		})
		if err != nil {
			t.Fatalf("send %d: %v", i, err)
		}
	}
	for i := range count {
		if got := <-received; got != number(i) {
			t.Fatalf("message %d: got %s", i, got)
		}
	}
	stop()
	<-synced
	if lost := alice.Client.Transport.(*lossy).lost.Load(); lost != count/3 {
		t.Fatalf("the network lost %d answers, want %d", lost, count/3)
	}
	// Nothing came twice, neither while syncing nor afterwards.
	resp, err := bob.SyncRequest(t.Context(), 0, bobSince(t, bob), "", false, event.PresenceOnline)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(received) + len(resp.ToDevice.Events); n != 0 {
		t.Fatalf("%d messages more than were sent", n)
	}
}

// eager is the library's syncer, but tries again at once after a failure.
type eager struct{ *mautrix.DefaultSyncer }

// OnFailedSync implements mautrix.Syncer.
func (*eager) OnFailedSync(*mautrix.RespSync, error) (time.Duration, error) {
	return 10 * time.Millisecond, nil
}

func bobSince(t *testing.T, c *mautrix.Client) string {
	t.Helper()
	since, err := c.Store.LoadNextBatch(t.Context(), c.UserID)
	if err != nil || since == "" {
		t.Fatalf("the client stored token %q, %v", since, err)
	}
	return since
}

// newMautrix logs a client in.
func newMautrix(t *testing.T, hs *testserver.Server, user string) *mautrix.Client {
	t.Helper()
	c, err := mautrix.NewClient(hs.URL(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	c.Client = &http.Client{Transport: &lossy{hs: hs}}
	c.DefaultHTTPRetries = 20
	c.DefaultHTTPBackoff = time.Millisecond
	c.MaxHTTPBackoff = 10 * time.Millisecond
	_, err = c.Login(t.Context(), &mautrix.ReqLogin{
		Type:             mautrix.AuthTypePassword,
		Identifier:       mautrix.UserIdentifier{Type: mautrix.IdentifierTypeUser, User: user},
		Password:         testserver.Password,
		StoreCredentials: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// lossy is a network that finds the server wherever it listens now, and on
// demand loses the answer to a request that the server has processed.
type lossy struct {
	hs       *testserver.Server
	loseNext atomic.Bool
	lost     atomic.Int64
}

var errLost = errors.New("the network lost the answer")

// RoundTrip implements http.RoundTripper.
func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	base, err := url.Parse(l.hs.URL())
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = base.Scheme, base.Host, base.Host
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && l.loseNext.CompareAndSwap(true, false) {
		l.lost.Add(1)
		_ = resp.Body.Close()
		return nil, errLost
	}
	return resp, err
}
