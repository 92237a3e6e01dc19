package acceptance

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"hearth/server/config"
	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// testDeviceDeleted is T15.
func testDeviceDeleted(t *testing.T) {
	t.Run("a later device of the same ID gets nothing", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice, bob := hs.Register("alice"), hs.Register("bob")
		m := testserver.Messages{bob.UserID: {string(bob.DeviceID): `{"n":1}`}}
		alice.SendToDevices("m.test", "1", m)
		bob.SendToDevices("m.test", "own", testserver.Messages{alice.UserID: {"*": `{"n":8}`}})
		bob.Must(http.MethodPost, "/_matrix/client/v3/logout", `{}`)
		hs.Restart()
		again := hs.LoginAs("bob", bob.DeviceID)
		again.Sync().NoToDevice()
		alice.SendToDevices("m.test", "2", m)
		again.Sync().HasToDevice("m.test", `{"n":1}`)
		// Its transaction records went with it: the same ID is a new request.
		again.SendToDevices("m.test", "own", testserver.Messages{alice.UserID: {"*": `{"n":9}`}})
		wantContents(t, alice, `{"n":8} {"n":9}`)
	})
	t.Run("logging in on a live device keeps its inbox", func(t *testing.T) {
		t.Parallel()
		hs := testserver.New(t)
		alice, bob := hs.Register("alice"), hs.Register("bob")
		m := testserver.Messages{alice.UserID: {"*": `{"n":7}`}}
		bob.SendToDevices("m.test", "own", m)
		alice.SendToDevice("m.test", bob, `{"n":1}`)
		bob.Sync().HasToDevice("m.test", `{"n":1}`)
		again := hs.LoginAs("bob", bob.DeviceID)
		again.Sync().HasToDevice("m.test", `{"n":1}`)
		// Token and transaction records are the device's, not the login's.
		again.Rewind(bob.Since())
		again.Sync().NoToDevice()
		again.SendToDevices("m.test", "own", m)
		wantContents(t, alice, `{"n":7}`)
	})
	for what, end := range map[string]func(hs *testserver.Server, c, other *testserver.Client){
		"logout": func(_ *testserver.Server, c, _ *testserver.Client) {
			c.Must(http.MethodPost, "/_matrix/client/v3/logout", `{}`)
		},
		"logout all": func(_ *testserver.Server, _, other *testserver.Client) {
			other.Must(http.MethodPost, "/_matrix/client/v3/logout/all", `{}`)
		},
		"delete device": func(_ *testserver.Server, c, other *testserver.Client) {
			other.DeleteDevice(c.DeviceID)
		},
		"change password": func(_ *testserver.Server, _, other *testserver.Client) {
			other.WithPassword(http.MethodPost, "/_matrix/client/v3/account/password", map[string]any{"new_password": "another good password"})
		},
		"deactivate": func(_ *testserver.Server, _, other *testserver.Client) {
			other.WithPassword(http.MethodPost, "/_matrix/client/v3/account/deactivate", map[string]any{})
		},
	} {
		t.Run("long polls end: "+what, func(t *testing.T) {
			t.Parallel()
			hs := testserver.New(t)
			other := hs.Register("bob")
			for range 5 { // the poll may come before or after the end: 401 in either case
				c := hs.Login("bob")
				c.Sync()
				done := make(chan error)
				go func() {
					_, err := c.SyncFrom(t.Context(), c.Since(), time.Hour)
					done <- err
				}()
				end(hs, c, other)
				wantCode(t, <-done, http.StatusUnauthorized, matrix.UnknownToken)
				if what != "logout" && what != "delete device" {
					return
				}
			}
		})
	}
}

// wantCode compares the error that a server answered with.
func wantCode(t *testing.T, err error, status int, code matrix.Code) {
	t.Helper()
	var told *matrix.Error
	if !errors.As(err, &told) || told.Status != status || told.Code != code {
		t.Fatalf("got %v, want %d %s", err, status, code)
	}
}

// testMirror is T14: at every published position memory and table agree, while
// messages are sent, acknowledged and evicted and devices come and go. That
// the mirror stays within its bytes is shown by making them few.
func testMirror(t *testing.T) {
	hs := testserver.New(t, testserver.Config(func(c *config.Config) {
		c.ToDevice.MaxMessagesPerDevice = 100
		c.ToDevice.MirrorBytes = 64 << 10
	}))
	alice, bob := hs.Register("alice"), hs.Register("bob")
	tablet := hs.Login("bob")
	// Checks run beside the requests, one for each: the more often, the less
	// the writer gets to do.
	todo, checked := make(chan int), make(chan int)
	go func() {
		n := 0
		for i := range todo {
			if err := hs.Inbox().Check(t.Context()); err != nil {
				t.Errorf("while message %d was sent: %v", i, err)
			}
			n++
		}
		checked <- n
	}()
	for i := range 400 {
		select {
		case todo <- i:
		default: // the one before still runs
		}
		alice.SendToDevices("m.test", alice.NextTxn(), testserver.Messages{bob.UserID: {"*": fmt.Sprintf(`{"n":%d,"x":%q}`, i, strings.Repeat("x", i*10))}})
		switch i % 150 {
		case 23, 127:
			bob.Sync()
		case 41:
			bob.Rewind("")
		case 149:
			tablet.Must(http.MethodPost, "/_matrix/client/v3/logout", `{}`)
			tablet = hs.LoginAs("bob", tablet.DeviceID)
		}
	}
	close(todo)
	if n := <-checked; n < 10 {
		t.Fatalf("only %d checks", n)
	}
}
