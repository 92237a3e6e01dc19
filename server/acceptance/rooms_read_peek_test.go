package acceptance

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// Who never joined follows a room that everyone may read, as long as everyone may.
func TestPeek(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, carol := hs.Register("alice"), hs.Register("carol")
	room := privateRoom(alice, "world_readable")
	path := func(from string) string {
		return v3 + "/events?room_id=" + url.QueryEscape(string(room)) + "&from=" + from
	}
	type answer struct {
		Start string `json:"start"`
		End   string `json:"end"`
		Chunk []told `json:"chunk"`
	}
	var first, next answer
	carol.Must("GET", path(""), nil).Decode(t, &first)
	if len(first.Chunk) > 0 || first.End == "" || first.Start == "" {
		t.Fatalf("got %+v", first)
	}
	var initial struct {
		Messages struct {
			End string `json:"end"`
		} `json:"messages"`
	}
	get(t, carol, &initial, room, "", "initialSync")
	sayNumbers(alice, room, 0, 2)
	for _, from := range []string{first.End, initial.Messages.End} {
		carol.Must("GET", path(from), nil).Decode(t, &next)
		wantWords(t, "since then", next.Chunk, "0 1")
	}
	// A poll waits for the next message, whichever comes first.
	done := make(chan *testserver.Answer, 1)
	go func() {
		a, err := carol.Do(t.Context(), "GET", path(next.End)+"&timeout=60000", nil)
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	sayNumbers(alice, room, 2, 3)
	var waited answer
	if a := <-done; a == nil || a.Status != http.StatusOK {
		t.Fatalf("got %s", a)
	} else {
		a.Decode(t, &waited)
	}
	wantWords(t, "while waiting", waited.Chunk, "2")
	// What comes once not everyone may read is not told.
	alice.SetState(room, "m.room.history_visibility", "", `{"history_visibility":"shared"}`)
	hidden := alice.Say(room, "hidden")
	carol.Want(http.StatusForbidden, matrix.Forbidden, "GET", path(waited.End), nil)
	alice.Must("GET", path(waited.End), nil).Decode(t, &next)
	wantWords(t, "alice", next.Chunk, "history_visibility hidden")

	var e told
	carol.Must("GET", v3+"/events/"+url.PathEscape(string(waited.Chunk[0].ID)), nil).Decode(t, &e)
	wantWords(t, "one event", []told{e}, "2")
	carol.Want(http.StatusNotFound, matrix.NotFound, "GET", v3+"/events/"+url.PathEscape(string(hidden)), nil)
	alice.Must("GET", v3+"/events/"+url.PathEscape(string(hidden)), nil)
}

// A poll of a device that is logged out ends, as it does in /sync.
func TestPeekEndsWithTheDevice(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice := hs.Register("alice")
	room := privateRoom(alice, "")
	other := hs.Login("alice")
	done := make(chan *testserver.Answer, 1)
	go func() {
		a, err := other.Do(t.Context(), "GET", v3+"/events?timeout=60000&room_id="+url.QueryEscape(string(room)), nil)
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	other.Must("POST", v3+"/logout", map[string]any{})
	if a := <-done; a != nil && (a.Status != http.StatusUnauthorized || a.Code() != matrix.UnknownToken) {
		t.Errorf("got %s", a)
	}
}

// A device that follows too many rooms at once is told so.
func TestPeeksAreBounded(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, carol := hs.Register("alice"), hs.Register("carol")
	room := privateRoom(alice, "world_readable")
	path := v3 + "/events?timeout=60000&room_id=" + url.QueryEscape(string(room))
	const most = 8
	answers := make(chan *testserver.Answer, most+1)
	for range most + 1 {
		go func() {
			a, err := carol.Do(t.Context(), "GET", path, nil)
			if err != nil {
				t.Error(err)
			}
			answers <- a
		}()
	}
	if a := <-answers; a == nil || a.Code() != matrix.LimitExceeded {
		t.Fatalf("the one too many: got %s", a)
	}
	sayNumbers(alice, room, 0, 1)
	for range most {
		a := <-answers
		if a == nil || a.Status != http.StatusOK {
			t.Fatalf("got %s", a)
		}
		var got struct {
			Chunk []told `json:"chunk"`
		}
		a.Decode(t, &got)
		wantWords(t, "the others", got.Chunk, "0")
	}
}

// Who follows a room is told what they may see of it, also where that comes
// after more than one page of what they may not.
func TestPeekBehindHiddenEvents(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	alice, bob := hs.Register("alice"), hs.Register("bob")
	room := privateRoom(alice, "joined")
	from := messages(t, alice, room, "dir=b&limit=1").Start
	const hidden, senders = 2100, 6 // a page looks at 2,000
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for i := range hidden / senders {
				alice.Say(room, fmt.Sprint(i))
			}
		})
	}
	all.Wait()
	enter(room, alice, bob)
	alice.Say(room, "visible")
	var got struct {
		Chunk []told `json:"chunk"`
	}
	bob.Must("GET", v3+"/events?timeout=60000&room_id="+url.QueryEscape(string(room))+"&from="+from, nil).Decode(t, &got)
	wantWords(t, "bob", got.Chunk, "@bob=join visible")
}
