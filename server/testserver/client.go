package testserver

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"hearth/storage/matrix"
)

// Client is one logged-in device. Its methods fail the test when the server
// answers other than they say; [Client.Do] only reports. A Client may be used
// by several goroutines, except for [Client.Sync], which moves its token.
type Client struct {
	UserID   matrix.UserID
	DeviceID matrix.DeviceID
	Token    matrix.Token // access token; replace it to act with another one
	Password matrix.Token // of the user

	Refresh matrix.Token // refresh token, if it logged in with [Site.LoginRefreshable]

	site  *Site
	since string
	txn   atomic.Int64
}

// Answer is what the server said to one request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Code is the answer's error code, empty if its body has none.
func (a *Answer) Code() matrix.Code {
	var body struct {
		Code matrix.Code `json:"errcode"`
	}
	if json.Unmarshal(a.Body, &body) != nil {
		return ""
	}
	return body.Code
}

// String shows status and body.
func (a *Answer) String() string { return fmt.Sprintf("%d %s", a.Status, a.Body) }

// Decode reads the answer's body into v.
func (a *Answer) Decode(tb testing.TB, v any) {
	tb.Helper()
	if err := json.Unmarshal(a.Body, v); err != nil {
		tb.Fatalf("answer %s: %v", a, err)
	}
}

// Site is the server that the client is logged in at.
func (c *Client) Site() *Site { return c.site }

// Do sends one request as this device. The path begins at "/"; body is JSON,
// as []byte or string as it is and as anything else marshalled; nil is none.
// A connection that breaks is an error, an answer of any status is not.
func (c *Client) Do(ctx context.Context, method, path string, body any) (*Answer, error) {
	return c.site.Do(ctx, c.Token, method, path, body)
}

// Must is Do, and fails the test unless the answer has status 200.
func (c *Client) Must(method, path string, body any) *Answer {
	c.site.tb.Helper()
	return c.Want(http.StatusOK, "", method, path, body)
}

// Want is Do, and fails the test unless the answer has this status and error code.
func (c *Client) Want(status int, code matrix.Code, method, path string, body any) *Answer {
	c.site.tb.Helper()
	a, err := c.Do(c.site.tb.Context(), method, path, body)
	if err != nil {
		c.site.tb.Fatalf("%s %s: %v", method, path, err)
	}
	if a.Status != status || a.Code() != code {
		c.site.tb.Fatalf("%s %s: got %s, want %d %s", method, path, a, status, code)
	}
	return a
}

// NextTxn is a transaction ID this Client has not used yet.
func (c *Client) NextTxn() string { return fmt.Sprintf("txn%d", c.txn.Add(1)) }

// SendToDevice sends one message to one device.
func (c *Client) SendToDevice(eventType string, to *Client, content string) {
	c.site.tb.Helper()
	c.SendToDevices(eventType, c.NextTxn(), Messages{to.UserID: {string(to.DeviceID): content}})
}

// Messages is the body of a send-to-device request: user, device ID or "*",
// and content as JSON text.
type Messages map[matrix.UserID]map[string]string

// Body is the request's body.
func (m Messages) Body() string {
	raw := map[matrix.UserID]map[string]rawJSON{}
	for u, devices := range m {
		raw[u] = map[string]rawJSON{}
		for d, content := range devices {
			raw[u][d] = rawJSON(content)
		}
	}
	b, err := json.Marshal(map[string]any{"messages": raw})
	if err != nil {
		panic(err) // content that is no JSON: a mistake in the test
	}
	return string(b)
}

type rawJSON string

// MarshalJSON implements json.Marshaler.
func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// SendToDevices sends messages under a transaction ID of the caller's choice.
func (c *Client) SendToDevices(eventType, txn string, m Messages) {
	c.site.tb.Helper()
	c.Must(http.MethodPut, ToDevicePath(eventType, txn), m.Body())
}

// ToDevicePath is the path of a send-to-device request.
func ToDevicePath(eventType, txn string) string {
	return "/_matrix/client/v3/sendToDevice/" + url.PathEscape(eventType) + "/" + url.PathEscape(txn)
}

// RefreshToken trades the refresh token for a new access token and refresh token.
func (c *Client) RefreshToken() {
	c.site.tb.Helper()
	var out struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	c.Must(http.MethodPost, "/_matrix/client/v3/refresh", map[string]string{"refresh_token": c.Refresh.Reveal()}).
		Decode(c.site.tb, &out)
	c.Token, c.Refresh = matrix.Token(out.Access), matrix.Token(out.Refresh)
}

// WithPassword makes a request of user-interactive authentication that asks for
// the password, and fails the test unless it is answered 200 in the end.
func (c *Client) WithPassword(method, path string, in map[string]any) *Answer {
	c.site.tb.Helper()
	var flow struct {
		Session string `json:"session"`
	}
	c.Want(http.StatusUnauthorized, "", method, path, in).Decode(c.site.tb, &flow)
	in["auth"] = map[string]any{
		"type": "m.login.password", "session": flow.Session, "password": c.Password.Reveal(),
		"identifier": map[string]string{"type": "m.id.user", "user": c.UserID.Localpart()},
	}
	return c.Must(method, path, in)
}

// DeleteDevice deletes one of the user's devices.
func (c *Client) DeleteDevice(id matrix.DeviceID) {
	c.site.tb.Helper()
	c.WithPassword(http.MethodDelete, "/_matrix/client/v3/devices/"+url.PathEscape(string(id)), map[string]any{})
}
