package testserver

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage/matrix"
)

// Event is one to-device message as a client receives it.
type Event struct {
	Sender  matrix.UserID  `json:"sender"`
	Type    string         `json:"type"`
	Content jsontext.Value `json:"content"`
}

// Sync is one /sync answer.
type Sync struct {
	NextBatch string `json:"next_batch"`
	ToDevice  struct {
		Events []Event `json:"events"`
	} `json:"to_device"`
	Rooms       SyncRooms                 `json:"rooms"`
	AccountData RoomEvents                `json:"account_data"`
	Raw         map[string]jsontext.Value `json:"-"` // every top-level field

	tb testing.TB
}

// Sync asks for what is new, without waiting, and acknowledges what the Sync
// before it returned.
func (c *Client) Sync() *Sync {
	c.site.tb.Helper()
	return c.syncOn(0)
}

// Poll is Sync, but waits for something new for up to 30 seconds.
func (c *Client) Poll() *Sync {
	c.site.tb.Helper()
	return c.syncOn(30 * time.Second)
}

// SyncWith is Sync with further parameters, such as filter.
func (c *Client) SyncWith(query url.Values) *Sync {
	c.site.tb.Helper()
	return c.syncWith(0, query)
}

func (c *Client) syncOn(wait time.Duration) *Sync {
	c.site.tb.Helper()
	return c.syncWith(wait, nil)
}

func (c *Client) syncWith(wait time.Duration, query url.Values) *Sync {
	c.site.tb.Helper()
	s, err := c.syncFrom(c.site.tb.Context(), c.since, wait, query)
	if err != nil {
		c.site.tb.Fatalf("sync: %v", err)
	}
	c.since = s.NextBatch
	return s
}

// Since is the token that the next Sync presents.
func (c *Client) Since() string { return c.since }

// Rewind makes the next Sync present this token, empty for a first sync.
func (c *Client) Rewind(since string) { c.since = since }

// SyncFrom asks for what is new since a token, and leaves the Client's own
// token alone. A status other than 200 is an error, a [*matrix.Error] where
// the server named a code.
func (c *Client) SyncFrom(ctx context.Context, since string, wait time.Duration) (*Sync, error) {
	return c.syncFrom(ctx, since, wait, nil)
}

func (c *Client) syncFrom(ctx context.Context, since string, wait time.Duration, query url.Values) (*Sync, error) {
	q := url.Values{"timeout": {strconv.FormatInt(wait.Milliseconds(), 10)}}
	maps.Copy(q, query)
	if since != "" {
		q.Set("since", since)
	}
	a, err := c.Do(ctx, http.MethodGet, "/_matrix/client/v3/sync?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, &matrix.Error{Status: a.Status, Code: a.Code(), Message: a.String()}
	}
	s := &Sync{tb: c.site.tb}
	if err := json.Unmarshal(a.Body, s); err != nil {
		return nil, err
	}
	return s, json.Unmarshal(a.Body, &s.Raw)
}

// Drain syncs until nothing more waits, and returns all messages in order.
func (c *Client) Drain() []Event {
	c.site.tb.Helper()
	var all []Event
	for {
		s := c.Sync()
		if len(s.ToDevice.Events) == 0 {
			return all
		}
		all = append(all, s.ToDevice.Events...)
	}
}

// HasToDevice fails the test unless the answer holds exactly one message of
// this type and content. It returns s.
func (s *Sync) HasToDevice(eventType, content string) *Sync {
	s.tb.Helper()
	want, n := canonical(s.tb, content), 0
	for _, e := range s.ToDevice.Events {
		if e.Type == eventType && canonical(s.tb, string(e.Content)) == want {
			n++
		}
	}
	if n != 1 {
		s.tb.Fatalf("got %d messages %s %s, want 1, among %d", n, eventType, content, len(s.ToDevice.Events))
	}
	return s
}

// NoToDevice fails the test if the answer holds any message. It returns s.
func (s *Sync) NoToDevice() *Sync {
	s.tb.Helper()
	if n := len(s.ToDevice.Events); n != 0 {
		s.tb.Fatalf("got %d messages, want none; first: %s %s", n, s.ToDevice.Events[0].Type, s.ToDevice.Events[0].Content)
	}
	return s
}

func canonical(tb testing.TB, text string) string {
	tb.Helper()
	v := jsontext.Value(text)
	if err := v.Canonicalize(); err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return string(v)
}
