package acceptance

import (
	"net/http"
	"sync"
	"testing"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// testRetransmission is T4.
func testRetransmission(t *testing.T) {
	t.Run("same request", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice, bob := hs.Register("alice"), hs.Register("bob")
		one := testserver.Messages{bob.UserID: {string(bob.DeviceID): `{"n":1}`}}
		two := testserver.Messages{bob.UserID: {string(bob.DeviceID): `{"n":2}`}}
		alice.SendToDevices("m.test", "t", one)
		alice.SendToDevices("m.test", "t", one)
		alice.SendToDevices("m.test", "t", two) // a different body changes nothing
		bob.Sync().HasToDevice("m.test", `{"n":1}`)
		alice.SendToDevices("m.test", "t", one) // delivered and acknowledged below
		bob.Sync().NoToDevice()
		hs.Restart()
		alice.SendToDevices("m.test", "t", one)
		bob.Sync().NoToDevice()
		hs.Crash()
		alice.SendToDevices("m.test", "t", two)
		bob.Sync().NoToDevice()
	})
	t.Run("scope", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice, bob := hs.Register("alice"), hs.Register("bob")
		other := hs.Login("alice")
		m := func(content string) testserver.Messages {
			return testserver.Messages{bob.UserID: {string(bob.DeviceID): content}}
		}
		alice.SendToDevices("m.test", "t/1", m(`{"n":1}`))
		// Another device, another event type, another transaction: all new.
		other.SendToDevices("m.test", "t/1", m(`{"n":2}`))
		alice.SendToDevices("m.other", "t/1", m(`{"n":3}`))
		alice.SendToDevices("m.test", "t1", m(`{"n":4}`))
		// Where one variable ends and the next begins counts.
		alice.SendToDevices("a/b", "c", m(`{"n":5}`))
		alice.SendToDevices("a", "b/c", m(`{"n":6}`))
		alice.SendToDevices("ab", "c", m(`{"n":7}`))
		alice.SendToDevices("a", "bc", m(`{"n":8}`))
		// The same path written differently is the same transaction.
		alice.Must(http.MethodPut, "/_matrix/client/v3/sendToDevice/%6d.test/%74%2F1", m(`{"n":9}`).Body())
		got := bob.Drain()
		if len(got) != 8 {
			t.Fatalf("got %d messages %s, want the first 8", len(got), contents(got))
		}
		for i, e := range got {
			if want := number(i + 1); string(e.Content) != want {
				t.Errorf("message %d: got %s, want %s", i, e.Content, want)
			}
		}
	})
	t.Run("token refresh", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice, bob := hs.Register("alice"), hs.Register("bob")
		phone := hs.LoginRefreshable("alice")
		m := testserver.Messages{bob.UserID: {string(bob.DeviceID): `{"n":1}`}}
		phone.SendToDevices("m.test", "t", m)
		old := phone.Token
		phone.RefreshToken()
		if phone.Token == old {
			t.Fatal("the access token did not change")
		}
		phone.SendToDevices("m.test", "t", m)
		bob.Sync().HasToDevice("m.test", `{"n":1}`)
		alice.SendToDevices("m.test", "t", m)
		bob.Sync().HasToDevice("m.test", `{"n":1}`)
	})
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice, bob := hs.Register("alice"), hs.Register("bob")
		for i := range 20 {
			txn, m := alice.NextTxn(), testserver.Messages{bob.UserID: {"*": number(i)}}
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() { sendOK(t, alice, txn, m) })
			}
			wg.Wait()
			bob.Sync().HasToDevice("m.test", number(i))
			bob.Sync().NoToDevice()
		}
	})
	t.Run("only successes are recorded", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice, bob := hs.Register("alice"), hs.Register("bob")
		path := testserver.ToDevicePath("m.test", "t")
		alice.Want(http.StatusBadRequest, matrix.MissingParam, http.MethodPut, path, `{}`)
		alice.SendToDevices("m.test", "t", testserver.Messages{bob.UserID: {"*": `{"n":1}`}})
		bob.Sync().HasToDevice("m.test", `{"n":1}`)
	})
	t.Run("kept 14 days", testRecordAge)
}

// sendOK sends from a goroutine, where a test may not be ended.
func sendOK(t *testing.T, c *testserver.Client, txn string, m testserver.Messages) {
	a, err := c.Do(t.Context(), http.MethodPut, testserver.ToDevicePath("m.test", txn), m.Body())
	if err != nil || a.Status != http.StatusOK {
		t.Errorf("send %s: %v, %v", txn, a, err)
	}
}
