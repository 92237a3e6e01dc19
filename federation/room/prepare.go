package room

import (
	"errors"

	"hearth/federation/rules"
	"hearth/storage"
	"hearth/storage/matrix"
)

// prepare asks what the rules of a room do not: what a server must see to
// before it sends an event in a user's name. It completes the draft.
func (r *Rooms) prepare(rx *storage.Rx, room storage.Room, state *view, d *Draft) error {
	switch {
	case d.Type == matrix.TypeRedaction:
		return prepareRedaction(rx, room, state, d)
	case d.Type == matrix.TypePowerLevels && d.StateKey != nil && *d.StateKey == "":
		return checkLevels(d.Content)
	case d.Type == matrix.TypeMember && d.StateKey != nil:
		return r.prepareMember(rx, room, state, d)
	}
	return nil
}

// prepareRedaction finds what is to be redacted and whether the sender may.
// The rules would let users of one server redact each other's events.
// Client-Server API, "PUT /rooms/{roomId}/redact/{eventId}/{txnId}".
func prepareRedaction(rx *storage.Rx, room storage.Room, state *view, d *Draft) error {
	content, err := parseObject("content", d.Content)
	if err != nil {
		return err
	}
	if d.Redacts == "" {
		d.Redacts = matrix.EventID(content.text("redacts"))
	}
	if d.Redacts == "" {
		return matrix.Errorf(matrix.MissingParam, "a redaction names the event it redacts")
	}
	if !room.Version.RedactsInContent {
		delete(content, "redacts") // where it belongs in this version there is only one
		d.Content = content.json()
	}
	target, err := rx.Event(d.Redacts)
	switch {
	case errors.Is(err, storage.ErrNotFound), err == nil && target.Room != room.Num:
		// 404 would say that the path is wrong, and /send names it in the body.
		return &matrix.Error{Status: 400, Code: matrix.NotFound, Message: "there is no such event in the room"}
	case err != nil:
		return err
	case target.Sender() == d.Sender, d.Admin && target.Sender().Server() == rx.ServerName():
		return nil
	case rules.Power(room.Version, state, d.Sender) < state.levels().RedactLevel():
		return matrix.Errorf(matrix.Forbidden, "the power level is too low to redact the events of others")
	}
	return nil
}

// prepareMember sees that a user is named, and who vouches for a join to a
// restricted room. What a client says about that is dropped: a copy of it in a
// later event would need that server's signature again.
func (r *Rooms) prepareMember(rx *storage.Rx, room storage.Room, state *view, d *Draft) error {
	target, err := matrix.ParseUserID(*d.StateKey)
	if err != nil {
		return matrix.Errorf(matrix.InvalidParam, "the state key of a member is a user ID")
	}
	content, err := parseObject("content", d.Content)
	if err != nil {
		return err
	}
	delete(content, "join_authorised_via_users_server")
	if content.text("membership") == matrix.MembershipJoin && target == d.Sender && restricted(room.Version, state, target) {
		via, err := authoriser(rx, room, state, target)
		if err != nil {
			return err
		}
		content.set("join_authorised_via_users_server", via)
	}
	d.Content = content.json()
	return nil
}
