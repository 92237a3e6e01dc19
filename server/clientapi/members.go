package clientapi

import (
	"context"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"

	"hearth/server/view"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/matrix"
)

type joinedRooms struct {
	Rooms []matrix.RoomID `json:"joined_rooms"`
}

// getJoinedRooms serves GET /_matrix/client/v3/joined_rooms.
func (a *API) getJoinedRooms(ctx context.Context, c *web.Call, _ web.NoBody) (joinedRooms, error) {
	var out joinedRooms
	err := a.Store.Read(ctx, "joined rooms", func(rx *storage.Rx) (err error) {
		out.Rooms, err = rx.RoomsIn(c.User, matrix.MembershipJoin)
		return err
	})
	return out, err
}

// profile is what a membership says of the user. What it does not say, or not as
// a string, is null.
//
// Spec deviation: the specification would have it left out. Other servers write
// null, and there are clients and test suites that look for the keys.
type profile struct {
	Name   *string `json:"display_name"`
	Avatar *string `json:"avatar_url"`
}

// getJoinedMembers serves GET /_matrix/client/v3/rooms/{roomId}/joined_members.
func (a *API) getJoinedMembers(ctx context.Context, c *web.Call, _ web.NoBody) (pieces, error) {
	return a.tellRoom(ctx, c, nil, func(r reading, out pieces) error {
		if !r.room.Joined() {
			return matrix.Errorf(matrix.Forbidden, "you are not in this room")
		}
		members, err := r.rx.Members(r.room.Num, matrix.MembershipJoin, "", -1)
		if err != nil {
			return err
		}
		out.Text(`{"joined":{`)
		before := ""
		for page := range slices.Chunk(members, statePage) {
			nums := make([]storage.EventNum, len(page))
			for i, m := range page {
				nums[i] = m.Event
			}
			events, err := r.rx.EventsByNum(nums)
			if err != nil {
				return err
			}
			for i, e := range events {
				one, err := json.Marshal(profileOf(e))
				if err != nil {
					return err
				}
				out.text(before, string(page[i].User))
				out.Text(":")
				out.json(one)
				before = ","
			}
		}
		out.Text("}}")
		return nil
	})
}

func profileOf(member storage.Event) profile {
	var c struct {
		Name   any `json:"displayname"`
		Avatar any `json:"avatar_url"`
	}
	if member.Num == 0 || member.DecodeContent(&c) != nil {
		return profile{}
	}
	text := func(v any) *string {
		if s, ok := v.(string); ok {
			return &s
		}
		return nil
	}
	return profile{text(c.Name), text(c.Avatar)}
}

// memberships are the values that members may be filtered by.
var memberships = []string{
	matrix.MembershipJoin, matrix.MembershipInvite, matrix.MembershipKnock, matrix.MembershipLeave, matrix.MembershipBan,
}

// getMembers serves GET /_matrix/client/v3/rooms/{roomId}/members.
func (a *API) getMembers(ctx context.Context, c *web.Call, _ web.NoBody) (pieces, error) {
	is, err := queryOneOf(c, "membership", memberships...)
	not, err1 := queryOneOf(c, "not_membership", memberships...)
	at, err2 := queryToken(c, "at")
	wanted := func(e storage.Event) bool {
		m := e.Membership()
		return is == "" && not == "" || m == is || not != "" && m != not
	}
	return a.tellRoom(ctx, c, errors.Join(err, err1, err2), func(r reading, out pieces) error {
		members, err := r.members(c.User, at)
		if err != nil {
			return hidden(err)
		}
		err = r.writeState(out, `{"chunk":`, members, wanted)
		out.Text("}")
		return err
	})
}

// members lists the room's memberships, as of a place or as the caller may read
// them. Who is in the room is refused no place: one from before what they may see,
// as lies before the first timeline that they were told, means their joining.
func (r reading) members(user matrix.UserID, at *view.Token) ([]storage.EventNum, error) {
	if at == nil {
		return r.view.State(r.room, matrix.TypeMember)
	}
	members, err := r.view.StateAt(r.room, *at, matrix.TypeMember)
	if !errors.Is(err, view.ErrHidden) || !r.room.Joined() {
		return members, err
	}
	own, err := r.rx.Membership(r.room.Num, user)
	if err != nil {
		return nil, err
	}
	return r.view.StateAt(r.room, view.StreamToken(own.Since), matrix.TypeMember)
}
