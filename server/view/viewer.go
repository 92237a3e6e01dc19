// Package view tells what one user may see of a room, and in what shape: history
// visibility at each event, the client format of events with what is unsigned,
// filters, stripped state, and the tokens to page with. What leaves the server
// towards a client about a room goes through here, whichever endpoint asks.
//
// It reads through one snapshot, writes nothing, and speaks no HTTP.
package view

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage"
	"hearth/storage/matrix"
)

// ErrHidden means that the user may know nothing of the room: that it exists
// least of all.
var ErrHidden = errors.New("not for this user")

// User is whom a view is for.
type User struct {
	ID     matrix.UserID
	Num    int64
	Device int64 // the asking device's incarnation; 0: none
}

// Viewer looks at rooms with the eyes of one user, in one snapshot. It remembers
// what it read, so the events of a page cost few look-ups. It is not for
// concurrent use and ends with its snapshot.
type Viewer struct {
	rx   *storage.Rx
	user User

	stays    map[storage.RoomNum]stay
	points   map[storage.StateNum]point
	contents map[storage.EventNum]string // membership or visibility that a state event says
	ignored  map[matrix.UserID]struct{}  // nil: not read yet
	erased   map[matrix.UserID]bool
}

// New makes a view of what rx sees.
func New(rx *storage.Rx, user User) *Viewer {
	return &Viewer{
		rx: rx, user: user,
		stays:    map[storage.RoomNum]stay{},
		points:   map[storage.StateNum]point{},
		contents: map[storage.EventNum]string{},
		erased:   map[matrix.UserID]bool{},
	}
}

// typeIgnored is account data. Client-Server API, "Ignoring Users".
const typeIgnored = "m.ignored_user_list"

// Ignores tells whether the user ignores the sender: state events of the sender
// are told all the same, others and invites are not.
func (v *Viewer) Ignores(sender matrix.UserID) (bool, error) {
	if v.ignored == nil {
		v.ignored = map[matrix.UserID]struct{}{}
		data, err := v.rx.AccountData(v.user.Num, "", typeIgnored)
		switch {
		case errors.Is(err, storage.ErrNotFound):
		case err != nil:
			return false, fmt.Errorf("ignored users: %w", err)
		default:
			var list struct {
				Users map[string]jsontext.Value `json:"ignored_users"`
			}
			// Clients may store anything; what is no list ignores nobody. What is no
			// user among others is nobody, and takes nothing from the others.
			if json.Unmarshal(data.Content, &list) == nil {
				for u := range list.Users {
					v.ignored[matrix.UserID(u)] = struct{}{}
				}
			}
		}
	}
	_, ok := v.ignored[sender]
	return ok && sender != v.user.ID, nil
}

// isErased tells whether the sender's account was deactivated with erasure.
// Only our own users can be known to be.
func (v *Viewer) isErased(sender matrix.UserID) (bool, error) {
	if sender.Server() != v.rx.ServerName() {
		return false, nil
	}
	erased, known := v.erased[sender]
	if known {
		return erased, nil
	}
	u, err := v.rx.UserByID(sender)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return false, err
	}
	v.erased[sender] = u.Erased
	return u.Erased, nil
}
