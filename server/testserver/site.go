package testserver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"hearth/storage/matrix"
)

// Site is a homeserver as clients see it: a name, and an address that may
// change when the server restarts. A [Server] is one; [NewSite] makes one of a
// server that runs elsewhere, for example in a process of its own.
type Site struct {
	tb   testing.TB
	name matrix.ServerName
	url  func() string
	http *http.Client
}

// NewSite talks to the server of this name at the base URL that url returns,
// "http://127.0.0.1:8008", asked anew for every request.
func NewSite(tb testing.TB, name matrix.ServerName, url func() string) *Site {
	tb.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	tb.Cleanup(transport.CloseIdleConnections)
	return &Site{tb: tb, name: name, url: url, http: &http.Client{Transport: transport}}
}

// Name is the server's name, the part of user IDs after the colon.
func (s *Site) Name() matrix.ServerName { return s.name }

// URL is the base URL the server's clients use now.
func (s *Site) URL() string { return s.url() }

// Password is what every user of a test has: nothing in a test is secret.
const Password = "correct horse battery staple"

// Register makes a user and returns its first device. Registration is open.
func (s *Site) Register(localpart string) *Client {
	s.tb.Helper()
	const path = "/_matrix/client/v3/register"
	in := map[string]any{"username": localpart, "password": Password}
	var flow struct {
		Session string `json:"session"`
	}
	a := s.mustDo(http.StatusUnauthorized, path, in)
	a.Decode(s.tb, &flow)
	in["auth"] = map[string]string{"type": "m.login.dummy", "session": flow.Session}
	return s.client(s.mustDo(http.StatusOK, path, in))
}

// Login logs a registered user in on a new device.
func (s *Site) Login(localpart string) *Client {
	s.tb.Helper()
	return s.login(localpart, nil)
}

// LoginAs logs a registered user in on a device of this ID.
func (s *Site) LoginAs(localpart string, device matrix.DeviceID) *Client {
	s.tb.Helper()
	return s.login(localpart, map[string]any{"device_id": device})
}

// LoginRefreshable logs a registered user in on a new device with a refresh token.
func (s *Site) LoginRefreshable(localpart string) *Client {
	s.tb.Helper()
	return s.login(localpart, map[string]any{"refresh_token": true})
}

func (s *Site) login(localpart string, more map[string]any) *Client {
	s.tb.Helper()
	in := map[string]any{
		"type":       "m.login.password",
		"identifier": map[string]string{"type": "m.id.user", "user": localpart},
		"password":   Password,
	}
	for k, v := range more {
		in[k] = v
	}
	return s.client(s.mustDo(http.StatusOK, "/_matrix/client/v3/login", in))
}

func (s *Site) mustDo(status int, path string, in any) *Answer {
	s.tb.Helper()
	a, err := s.Do(s.tb.Context(), "", http.MethodPost, path, in)
	if err != nil {
		s.tb.Fatalf("POST %s: %v", path, err)
	}
	if a.Status != status {
		s.tb.Fatalf("POST %s: got %s, want %d", path, a, status)
	}
	return a
}

// client makes a Client of what /login or /register answered.
func (s *Site) client(a *Answer) *Client {
	s.tb.Helper()
	var out struct {
		User    matrix.UserID   `json:"user_id"`
		Device  matrix.DeviceID `json:"device_id"`
		Access  string          `json:"access_token"`
		Refresh string          `json:"refresh_token"`
	}
	a.Decode(s.tb, &out)
	if out.User == "" || out.Device == "" || out.Access == "" {
		s.tb.Fatalf("answer lacks user, device or token: %s", a)
	}
	return &Client{
		UserID: out.User, DeviceID: out.Device, Password: Password,
		Token: matrix.Token(out.Access), Refresh: matrix.Token(out.Refresh),
		site: s,
	}
}

// Do sends one request, with an access token unless that is empty. The path
// begins at "/"; body is JSON, as []byte or string as it is and as anything
// else marshalled; nil is none. A connection that breaks is an error, an answer
// of any status is not.
func (s *Site) Do(ctx context.Context, token matrix.Token, method, path string, body any) (*Answer, error) {
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	case []byte:
		r = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL()+path, r)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	if r != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return &Answer{Status: resp.StatusCode, Header: resp.Header, Body: text}, nil
}
