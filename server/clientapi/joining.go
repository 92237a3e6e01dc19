package clientapi

import (
	"context"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/room"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

type joinRequest struct {
	Reason     string         `json:"reason"`
	ThirdParty jsontext.Value `json:"third_party_signed"`
	// Further is what else the body says. It goes into the membership, as with
	// other servers: a user can join under a name of their own for the room.
	Further jsontext.Value `json:",embed"`

	signed *thirdPartySigned // what ThirdParty says
}

// thirdPartySigned is an identity server's word that a user owns an address
// that was invited.
type thirdPartySigned struct {
	Sender     matrix.UserID  `json:"sender"`
	User       matrix.UserID  `json:"mxid"`
	Token      string         `json:"token"`
	Signatures jsontext.Value `json:"signatures"`
}

// Validate implements web.Validator.
func (r *joinRequest) Validate() error {
	if len(r.ThirdParty) == 0 || r.ThirdParty.Kind() == 'n' {
		return nil
	}
	if err := json.Unmarshal(r.ThirdParty, &r.signed); err != nil {
		return matrix.Errorf(matrix.BadJSON, "third_party_signed has wrong values")
	}
	switch s := r.signed; {
	case s.Sender == "" || s.User == "" || s.Token == "" || len(s.Signatures) == 0:
		return matrix.Errorf(matrix.MissingParam, "third_party_signed needs sender, mxid, token and signatures")
	case s.Signatures.Kind() != '{':
		return matrix.Errorf(matrix.BadJSON, "signatures is not an object")
	}
	return nil
}

// postJoin serves POST /_matrix/client/v3/rooms/{roomId}/join.
// Client-Server API, "Joining rooms".
func (a *API) postJoin(ctx context.Context, c *web.Call, in joinRequest) (theRoom, error) {
	id, err := roomVar(c)
	if err != nil {
		return theRoom{}, err
	}
	return a.join(ctx, c, in, func(rx *storage.Rx) (storage.Room, error) { return knownRoom(rx, id) })
}

// postJoinAny serves POST /_matrix/client/v3/join/{roomIdOrAlias}. The servers
// in via and server_name are not asked: rooms that are not here are not found.
// Client-Server API, "Joining rooms".
func (a *API) postJoinAny(ctx context.Context, c *web.Call, in joinRequest) (theRoom, error) {
	find, err := roomOrAlias(c)
	if err != nil {
		return theRoom{}, err
	}
	return a.join(ctx, c, in, find)
}

// roomOrAlias reads which room the path names, by its ID or an alias; find looks
// for it.
func roomOrAlias(c *web.Call) (find func(*storage.Rx) (storage.Room, error), err error) {
	const name = "roomIdOrAlias"
	if strings.HasPrefix(c.Vars[name], "#") {
		alias, err := aliasVar(c, name)
		return func(rx *storage.Rx) (storage.Room, error) {
			found, err := resolve(rx, alias)
			if err != nil {
				return storage.Room{}, err
			}
			return knownRoom(rx, found.RoomID)
		}, err
	}
	id, err := matrix.ParseRoomID(c.Vars[name])
	if err != nil {
		return nil, matrix.Errorf(matrix.InvalidParam, "the path names neither a room ID nor an alias: %v", err)
	}
	return func(rx *storage.Rx) (storage.Room, error) { return knownRoom(rx, id) }, nil
}

func (a *API) join(ctx context.Context, c *web.Call, in joinRequest, find func(*storage.Rx) (storage.Room, error)) (out theRoom, err error) {
	err = a.change(ctx, c, func(tx *storage.Tx) error {
		to, err := find(tx.Rx)
		if err != nil {
			return err
		}
		out.ID = to.ID
		m, err := membership(tx.Rx, to, c.User)
		if err != nil || m == matrix.MembershipJoin {
			return err
		}
		if in.signed != nil && m != matrix.MembershipInvite {
			if err := a.redeemInvite(tx, to, c.User, in); err != nil {
				return err
			}
		}
		join := act(c, in.Reason)
		join.Content = in.Further
		return a.Rooms.Join(tx, to, join)
	})
	return out, err
}

type knockRequest struct {
	Reason string `json:"reason"`
}

// postKnock serves POST /_matrix/client/v3/knock/{roomIdOrAlias}. The servers in
// via and server_name are not asked: rooms that are not here are not found.
// Client-Server API, "Knocking on rooms".
func (a *API) postKnock(ctx context.Context, c *web.Call, in knockRequest) (out theRoom, err error) {
	find, err := roomOrAlias(c)
	if err != nil {
		return out, err
	}
	err = a.change(ctx, c, func(tx *storage.Tx) error {
		to, err := find(tx.Rx)
		if err != nil {
			return err
		}
		out.ID = to.ID
		return a.Rooms.Knock(tx, to, act(c, in.Reason))
	})
	return out, err
}

// redeemInvite turns an invite of an address into one of the user who owns it.
// That the signature is by a key that the inviter named is for the room's rules
// to say. Client-Server API, "Third-party invites".
func (a *API) redeemInvite(tx *storage.Tx, to storage.Room, user matrix.UserID, in joinRequest) error {
	by := in.signed
	if by.User != user {
		return matrix.Errorf(matrix.Forbidden, "the invite is signed for %s", by.User)
	}
	invite, err := tx.CurrentState(to.Num, matrix.TypeThirdPartyInvite, by.Token)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	var named struct {
		DisplayName string `json:"display_name"`
	}
	if err != nil || invite.DecodeContent(&named) != nil {
		return matrix.Errorf(matrix.Forbidden, "no such invite is pending")
	}
	if invite.Sender() != by.Sender || by.Sender.Server() != a.Store.ServerName() {
		return matrix.Errorf(matrix.Forbidden, "%s did not send the invite, or is a user of another server", by.Sender)
	}
	// What was signed has to stay as it is.
	type thirdParty struct {
		DisplayName string         `json:"display_name"`
		Signed      jsontext.Value `json:"signed"`
	}
	content, err := json.Marshal(struct {
		Membership string     `json:"membership"`
		ThirdParty thirdParty `json:"third_party_invite"`
	}{matrix.MembershipInvite, thirdParty{named.DisplayName, in.ThirdParty}})
	if err != nil {
		return err
	}
	key := string(user)
	_, err = a.Rooms.Send(tx, to, room.Draft{Type: matrix.TypeMember, StateKey: &key, Sender: by.Sender, Content: content})
	return err
}
