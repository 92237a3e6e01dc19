package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/server/testserver"
	"hearth/storage/matrix"
)

// roomActor acts in the rooms of a roomCrash: as an owner, who is in all of
// them, and for a guest, who comes and goes. It does one thing after the other.
type roomActor struct {
	*roomCrash
	n, ops int
	owner  *testserver.Client
	guest  *testserver.Client
	guests [][]string // per room: the guest's memberships, as they were acknowledged

	said   []said   // what can be redacted
	own    []string // rooms that the owner made, by their mark
	closed map[string]bool
}

type said struct {
	room matrix.RoomID
	id   matrix.EventID
}

const clientV3 = "/_matrix/client/v3"

// act does one thing, and comes to its end across a crash.
func (a *roomActor) act() {
	i := rand.IntN(len(a.rooms))
	switch n := rand.IntN(40); {
	case n < 14:
		a.say(a.rooms[i])
	case n < 22:
		a.setState(a.rooms[i])
	case n < 28 && len(a.said) > 0:
		a.redact()
	case n < 38:
		a.moveGuest(i)
	case n < 39 || len(a.own) == 0:
		a.create()
	default:
		a.upgrade()
	}
}

// do makes a request, and makes it again if a crash interrupted it, unless it
// may be given up. Its answer is nil if it was.
func (a *roomActor) do(by *testserver.Client, method, path, body string, mayGiveUp bool) (answer *testserver.Answer, repeated bool) {
	answer, err := by.Do(a.t.Context(), method, path, body)
	if err == nil {
		a.fuse.burn()
		return answer, false
	}
	if mayGiveUp && rand.IntN(2) == 0 {
		<-a.alive
		return nil, false
	}
	<-a.alive
	if answer, err = by.Do(a.t.Context(), method, path, body); err != nil {
		a.t.Errorf("%s %s: %v from a server that was not killed", method, path, err)
		return nil, true
	}
	a.mu.Lock()
	a.repeated++
	a.mu.Unlock()
	return answer, true
}

// event sends what is answered by an event ID, under a mark.
func (a *roomActor) event(by *testserver.Client, mark, path, content string, again bool) matrix.EventID {
	answer, repeated := a.do(by, http.MethodPut, path, content, true)
	a.mu.Lock()
	defer a.mu.Unlock()
	if answer == nil {
		a.given[mark] = true
		return ""
	}
	id := matrix.EventID(text(answer.Body, "event_id"))
	if answer.Status != http.StatusOK || id == "" {
		a.t.Errorf("PUT %s: %s", path, answer)
		return ""
	}
	a.acked[mark] = id
	a.again[mark] = again && repeated
	return id
}

func (a *roomActor) mark() string {
	a.ops++
	return fmt.Sprintf("m%d-%d", a.n, a.ops)
}

func (a *roomActor) say(room matrix.RoomID) {
	by, mark := a.owner, a.mark()
	if i := slices.Index(a.rooms, room); a.guestIn(i) == matrix.MembershipJoin && rand.IntN(2) == 0 {
		by = a.guest
	}
	id := a.event(by, mark, testserver.RoomPath(room, "send", "m.crash", mark), fmt.Sprintf(`{"mark":%q}`, mark), false)
	if id != "" && by == a.owner {
		a.said = append(a.said, said{room, id})
	}
}

func (a *roomActor) setState(room matrix.RoomID) {
	mark := a.mark()
	path := testserver.RoomPath(room, "state", "m.crash.state", fmt.Sprintf("%d-%d", a.n, rand.IntN(5)))
	a.event(a.owner, mark, path, fmt.Sprintf(`{"mark":%q}`, mark), true)
}

// redact redacts something that was said before, and looks.
func (a *roomActor) redact() {
	i := rand.IntN(len(a.said))
	what, txn := a.said[i], a.mark()
	a.said = slices.Delete(a.said, i, i+1)
	path := testserver.RoomPath(what.room, "redact", string(what.id), txn)
	answer, _ := a.do(a.owner, http.MethodPut, path, "{}", true)
	if answer == nil {
		return
	}
	by := text(answer.Body, "event_id")
	again, _ := a.do(a.owner, http.MethodPut, path, "{}", false)
	got, _ := a.do(a.owner, http.MethodGet, testserver.RoomPath(what.room, "event", string(what.id)), "", false)
	if again == nil || got == nil {
		return
	}
	var event testserver.RoomEvent
	if err := json.Unmarshal(got.Body, &event); err != nil || text(again.Body, "event_id") != by ||
		event.Unsigned.RedactedBy == nil || string(event.Unsigned.RedactedBy.ID) != by || text(event.Content, "mark") != "" {
		a.t.Errorf("redaction answered %s and then %s; the event is %s", answer, again, got)
	}
}

func (a *roomActor) guestIn(i int) string {
	if n := len(a.guests[i]); n > 0 {
		return a.guests[i][n-1]
	}
	return matrix.MembershipLeave
}

// moveGuest has the guest of a room come or go. A repeated request changes
// nothing, so what was acknowledged is what the room has, in this order.
func (a *roomActor) moveGuest(i int) {
	room, whom := a.rooms[i], fmt.Sprintf(`{"user_id":%q}`, a.guest.UserID)
	by, act, body, next := a.guest, "join", "{}", matrix.MembershipJoin
	switch was, n := a.guestIn(i), rand.IntN(3); {
	case was == matrix.MembershipLeave && n > 0:
		by, act, body, next = a.owner, "invite", whom, matrix.MembershipInvite
	case was != matrix.MembershipLeave && n == 0:
		by, act, body, next = a.owner, "kick", whom, matrix.MembershipLeave
	case was == matrix.MembershipJoin, was == matrix.MembershipInvite && n == 1:
		act, next = "leave", matrix.MembershipLeave
	}
	answer, repeated := a.do(by, http.MethodPost, testserver.RoomPath(room, act), body, false)
	kicked := act == "kick" && repeated && answer != nil && answer.Status == http.StatusForbidden
	if answer == nil || answer.Status != http.StatusOK && !kicked {
		a.t.Errorf("%s of %s: %v", act, whom, answer)
		return
	}
	a.guests[i] = append(a.guests[i], next)
}

// wantGuests compares the guest's memberships with those that root was told.
func (a *roomActor) wantGuests() {
	for i, room := range a.rooms {
		var got []string
		for _, e := range a.root.Rooms[room].Events {
			if e.Type == matrix.TypeMember && *e.StateKey == string(a.guest.UserID) {
				got = append(got, text(e.Content, "membership"))
			}
		}
		if !slices.Equal(got, a.guests[i]) {
			a.t.Errorf("%s was, in %s, %v; acknowledged were %v", a.guest.UserID, room, got, a.guests[i])
		}
	}
}

// create makes a room. That its alias is taken tells that a crash took only
// the answer.
func (a *roomActor) create() {
	mark := a.mark()
	body := fmt.Sprintf(`{"name":%q,"topic":"t","room_alias_name":%q,"invite":[%q],"room_version":%q}`,
		mark, mark, a.guest.UserID, []string{"12", "11", "9"}[rand.IntN(3)])
	answer, repeated := a.do(a.owner, http.MethodPost, clientV3+"/createRoom", body, false)
	if answer == nil {
		return
	}
	var id matrix.RoomID
	switch {
	case answer.Status == http.StatusOK:
		id = matrix.RoomID(text(answer.Body, "room_id"))
	case repeated && answer.Code() == matrix.RoomInUse:
	default:
		a.t.Errorf("createRoom: %s", answer)
		return
	}
	a.own = append(a.own, mark)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.made[mark] = id
}

// upgrade replaces a room that the owner made. That it has a tombstone tells
// that a crash took only the answer.
func (a *roomActor) upgrade() {
	mark := a.own[rand.IntN(len(a.own))]
	if a.closed[mark] {
		return
	}
	room := a.aliased(mark)
	if room == "" {
		return
	}
	answer, err := a.owner.Do(a.t.Context(), http.MethodPost, testserver.RoomPath(room, "upgrade"), `{"new_version":"12"}`)
	switch {
	case err != nil:
		<-a.alive // done or not: wantRooms looks
	case answer.Status != http.StatusOK:
		a.t.Errorf("upgrade: %s", answer)
	default:
		a.fuse.burn()
	}
	if a.closed == nil {
		a.closed = map[string]bool{}
	}
	a.closed[mark] = true
}

// aliased is the room that the alias of a mark points to.
func (a *roomActor) aliased(mark string) matrix.RoomID {
	path := testserver.AliasPath(matrix.RoomAlias("#" + mark + ":" + string(a.p.name)))
	answer, _ := a.do(a.owner, http.MethodGet, path, "", false)
	if answer == nil || answer.Status != http.StatusOK {
		a.t.Errorf("alias of %s: %v", mark, answer)
		return ""
	}
	return matrix.RoomID(text(answer.Body, "room_id"))
}

// wantRooms looks at the rooms that the owner made, as the owner's device was
// told of them: each is there once, and whole.
func (a *roomActor) wantRooms() {
	told, names := a.followers[2*a.n].Rooms, map[string][]matrix.RoomID{}
	for id, r := range told {
		if slices.Contains(a.rooms, id) {
			continue
		}
		name := text(r.State[testserver.StateKey{Type: "m.room.name"}].Content, "name")
		next := matrix.RoomID(text(r.State[testserver.StateKey{Type: "m.room.tombstone"}].Content, "replacement_room"))
		var create struct {
			Predecessor struct {
				Room matrix.RoomID `json:"room_id"`
			} `json:"predecessor"`
		}
		_ = json.Unmarshal(r.State[testserver.StateKey{Type: matrix.TypeCreate}].Content, &create)
		if next == "" {
			names[name] = append(names[name], id)
		} else if told[next] == nil {
			a.t.Errorf("%s, %s, is replaced by %s, which is not there", id, name, next)
		}
		if was := create.Predecessor.Room; was != "" {
			if got := text(told[was].State[testserver.StateKey{Type: "m.room.tombstone"}].Content, "replacement_room"); got != string(id) {
				a.t.Errorf("%s replaces %s, which is replaced by %q", id, was, got)
			}
		} else if f := a.followers[2*a.n+1].Rooms[id]; f == nil || f.Section != "invite" {
			a.t.Errorf("nobody was invited to %s", id)
		}
		for _, typ := range []string{"create", "power_levels", "join_rules", "history_visibility", "guest_access", "name", "topic"} {
			if r.State[testserver.StateKey{Type: "m.room." + typ}].ID == "" {
				a.t.Errorf("%s, %s, has no m.room.%s", id, name, typ)
			}
		}
	}
	for mark, room := range a.made {
		if !slices.Contains(a.own, mark) {
			continue
		}
		if len(names[mark]) != 1 {
			a.twice++
			a.t.Errorf("%s, made as %s, is there as %v", mark, room, names[mark])
			continue
		}
		if got := a.aliased(mark); got != names[mark][0] {
			a.t.Errorf("the alias of %s points to %s and not to %s", mark, got, names[mark][0])
		}
		delete(names, mark)
	}
	for name := range names {
		a.t.Errorf("%s, named %q, was never made", names[name], name)
	}
}

// text is a string in a JSON object.
func text(object jsontext.Value, key string) string {
	var o map[string]jsontext.Value
	var s string
	if json.Unmarshal(object, &o) == nil {
		_ = json.Unmarshal(o[key], &s)
	}
	return s
}
