package clientapi

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/room"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

const typeCanonicalAlias = "m.room.canonical_alias"

// putState serves PUT /_matrix/client/v3/rooms/{roomId}/state/{eventType}/{stateKey}.
// Client-Server API, "Sending events to a room".
func (a *API) putState(ctx context.Context, c *web.Call, content jsontext.Value) (out sentEvent, err error) {
	id, err := roomVar(c)
	if err != nil {
		return out, err
	}
	key := c.Vars["stateKey"] // none is the empty one
	d := room.Draft{Type: c.Vars["eventType"], StateKey: &key, Sender: c.User, Content: content}
	if err := checkState(d, a.Store.ServerName()); err != nil {
		return out, err
	}
	err = a.change(ctx, c, func(tx *storage.Tx) error {
		in, err := memberRoom(tx.Rx, id)
		if err == nil && !(d.Type == matrix.TypeMember && key == string(c.User)) { // their own they set from outside as well
			err = wantJoined(tx.Rx, in, c.User)
		}
		if err != nil {
			return err
		}
		e, err := a.setState(tx, c, in, d)
		if err == nil {
			out.ID = e.ID()
		}
		return err
	})
	return out, err
}

// setState sends a state event as a client asked for it.
func (a *API) setState(tx *storage.Tx, c *web.Call, in storage.Room, d room.Draft) (storage.Event, error) {
	invites, leaves := false, false
	if d.Type == matrix.TypeMember {
		m := membershipIn(d.Content)
		invites = m == matrix.MembershipInvite
		leaves = m == matrix.MembershipLeave && *d.StateKey == string(c.User)
	}
	if err := notSuspended(c); err != nil && !leaves {
		return storage.Event{}, err
	}
	if invites {
		if err := a.mayInvite(tx.Rx, matrix.UserID(*d.StateKey)); err != nil {
			return storage.Event{}, err
		}
	}
	if d.Type == typeCanonicalAlias && *d.StateKey == "" {
		if err := a.checkNewAliases(tx.Rx, in, d.Content); err != nil {
			return storage.Event{}, err
		}
	}
	return a.Rooms.Send(tx, in, d)
}

// membershipIn is the membership that the content of m.room.member names.
func membershipIn(content jsontext.Value) string {
	var m struct {
		Membership string `json:"membership"`
	}
	if json.Unmarshal(content, &m) != nil {
		return "" // which is none, and is refused
	}
	return m.Membership
}

// checkState refuses what the room would take but would be sorry for.
//
// Spec deviation: a server ACL that shuts out this server could never be taken
// back from here, and is refused.
func checkState(d room.Draft, us matrix.ServerName) error {
	switch d.Type {
	case matrix.TypeCreate:
		return matrix.Errorf(matrix.Forbidden, "a room has been created already")
	case matrix.TypeRedaction:
		return matrix.Errorf(matrix.InvalidParam, "a redaction is no state")
	case matrix.TypeServerACL:
		content, err := matrix.CanonicalJSON(d.Content)
		if err != nil {
			return matrix.Errorf(matrix.BadJSON, "%s", err)
		}
		if *d.StateKey == "" && !matrix.ParseServerACL(content).Allows(us) {
			return matrix.Errorf(matrix.InvalidParam, "this would shut out %s itself", us)
		}
	}
	return nil
}

// canonicalAlias is the content of m.room.canonical_alias.
type canonicalAlias struct {
	Alias *string  `json:"alias"`
	Alts  []string `json:"alt_aliases"`
}

var errAliasForm error = matrix.Errorf(matrix.BadJSON, "alias must be a string and alt_aliases a list of strings")

func (c canonicalAlias) all() []string {
	if c.Alias == nil || *c.Alias == "" { // both mean that there is none
		return c.Alts
	}
	return append([]string{*c.Alias}, c.Alts...)
}

// checkNewAliases checks that the aliases in a new m.room.canonical_alias are
// well-formed and point to the room. Those that the present one has as well
// are not looked at. Client-Server API, "Room aliases".
func (a *API) checkNewAliases(rx *storage.Rx, in storage.Room, content jsontext.Value) error {
	var next canonicalAlias
	if err := json.Unmarshal(content, &next); err != nil {
		return errAliasForm
	}
	have, err := presentAliases(rx, in)
	if err != nil {
		return err
	}
	for _, text := range next.all() {
		if have[text] {
			continue
		}
		alias, err := matrix.ParseRoomAlias(text)
		if err != nil {
			return matrix.Errorf(matrix.InvalidParam, "%s", err)
		}
		to, err := rx.Alias(alias)
		switch {
		case errors.Is(err, storage.ErrNotFound), err == nil && to.Room != in.Num:
			return matrix.Errorf(matrix.BadAlias, "the alias %s does not point to this room", alias)
		case err != nil:
			return err
		}
		have[text] = true // one that is named often is looked for once
	}
	return nil
}

// presentAliases are those that the room's m.room.canonical_alias names.
func presentAliases(rx *storage.Rx, in storage.Room) (map[string]bool, error) {
	have := map[string]bool{}
	e, err := rx.CurrentState(in.Num, typeCanonicalAlias, "")
	if errors.Is(err, storage.ErrNotFound) {
		return have, nil
	}
	if err != nil {
		return nil, err
	}
	var now canonicalAlias
	if e.DecodeContent(&now) != nil {
		return have, nil //nolint:nilerr // of a form that is no longer let in
	}
	for _, text := range now.all() {
		have[text] = true
	}
	return have, nil
}
