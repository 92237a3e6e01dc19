package acceptance

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"hearth/server/testserver"
)

// TestMautrixChat has two clients of a library that nobody here wrote chat in a
// room: they create, invite, join, write, edit, react, redact and kick, across
// restarts and crashes of the server and across answers that the network lost.
// Each sees every event of the room once, in its order.
func TestMautrixChat(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	hs.Register("alice")
	hs.Register("bob")
	alice, bob := newChatter(t, hs, "alice"), newChatter(t, hs, "bob")

	created, err := alice.CreateRoom(t.Context(), &mautrix.ReqCreateRoom{
		Preset: "private_chat", Name: "Chat", Topic: "What is said", Invite: []id.UserID{bob.UserID},
	})
	if err != nil {
		t.Fatal(err)
	}
	room := created.RoomID
	bob.join(t, room)

	var sent []id.EventID
	for i := range 24 {
		from := []*chatter{alice, bob}[i%2]
		switch i {
		case 8:
			hs.Restart()
		case 16:
			hs.Crash()
		}
		if i%3 == 0 {
			from.network.loseNext.Store(true)
		}
		sent = append(sent, from.say(t, room, fmt.Sprintf("message %d", i)))
	}
	edit := &event.MessageEventContent{MsgType: event.MsgText, Body: "message 0, corrected"}
	edit.SetEdit(sent[0])
	if _, err := alice.SendMessageEvent(t.Context(), room, event.EventMessage, edit); err != nil {
		t.Fatal(err)
	}
	reaction, err := bob.SendReaction(t.Context(), room, sent[0], "👍")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		by     *chatter
		target id.EventID
	}{{bob, reaction.EventID}, {alice, sent[3]}} {
		if _, err := r.by.RedactEvent(t.Context(), room, r.target, mautrix.ReqRedact{Reason: "a mistake"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bob.RedactEvent(t.Context(), room, sent[0]); err == nil {
		t.Error("bob redacted what alice wrote")
	}
	// Somebody who was kicked sees that, and nothing after it until back.
	if _, err := alice.KickUser(t.Context(), room, &mautrix.ReqKickUser{UserID: bob.UserID, Reason: "a break"}); err != nil {
		t.Fatal(err)
	}
	bob.waitFor(t, "leave", room)
	away := alice.say(t, room, "while bob is away")
	alice.waitFor(t, string(away), room)
	if bob.has(string(away)) {
		t.Error("bob saw a message of a room he was kicked from")
	}
	if _, err := alice.InviteUser(t.Context(), room, &mautrix.ReqInviteUser{UserID: bob.UserID}); err != nil {
		t.Fatal(err)
	}
	bob.join(t, room)
	last := string(bob.say(t, room, "the end"))

	for _, c := range []*chatter{alice, bob} {
		c.waitFor(t, last, room)
		c.end()
		var want []string
		page := ""
		for {
			resp, err := c.Messages(t.Context(), room, page, "", mautrix.DirectionForward, nil, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range resp.Chunk {
				want = append(want, string(e.ID))
			}
			if page = resp.End; page == "" {
				break
			}
		}
		if got := c.timeline(); !slices.Equal(got, want) {
			t.Errorf("%s saw\n%q\nwant\n%q", c.UserID, got, want)
		}
		e, err := c.GetEvent(t.Context(), room, sent[3])
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Content.Raw) != 0 || e.Unsigned.RedactedBecause == nil {
			t.Errorf("%s still sees what was redacted: %v", c.UserID, e.Content.Raw)
		}
	}
}

// chatter is a client that syncs by its own loop and notes what it is told.
type chatter struct {
	*mautrix.Client
	network *lossy
	told    chan string // event IDs of timelines, "invite" and "leave"
	log     []string    // of told, as far as it was read
	stop    context.CancelFunc
	synced  chan error
}

func newChatter(t *testing.T, hs *testserver.Server, user string) *chatter {
	t.Helper()
	client := newMautrix(t, hs, user)
	c := &chatter{
		Client: client, network: client.Client.Transport.(*lossy),
		told: make(chan string, 1000), synced: make(chan error, 1),
	}
	syncer := &eager{mautrix.NewDefaultSyncer()}
	client.Syncer = syncer
	syncer.OnEvent(func(_ context.Context, e *event.Event) {
		mine := e.Type == event.StateMember && e.GetStateKey() == string(client.UserID)
		switch source := e.Mautrix.EventSource; {
		case source&event.SourceTimeline != 0:
			c.told <- string(e.ID)
			if mine && e.Content.AsMember().Membership == event.MembershipLeave {
				c.told <- "leave"
			}
		case source&event.SourceInvite != 0 && mine:
			c.told <- "invite"
		}
	})
	var ctx context.Context
	ctx, c.stop = context.WithCancel(t.Context())
	go func() { c.synced <- client.SyncWithContext(ctx) }()
	return c
}

// end stops the loop and waits for it.
func (c *chatter) end() {
	c.stop()
	<-c.synced
}

// waitFor reads on until something was told, counting only what was not waited
// for before.
func (c *chatter) waitFor(t *testing.T, what string, room id.RoomID) {
	t.Helper()
	for {
		select {
		case got := <-c.told:
			c.log = append(c.log, got)
			if got == what {
				return
			}
		case err := <-c.synced:
			t.Fatalf("%s waits for %s in %s: the loop ended: %v", c.UserID, what, room, err)
		}
	}
}

// has tells whether something was told, waited for or not.
func (c *chatter) has(what string) bool {
	for len(c.told) > 0 {
		c.log = append(c.log, <-c.told)
	}
	return slices.Contains(c.log, what)
}

// timeline is the event IDs that were told.
func (c *chatter) timeline() []string {
	c.has("")
	return slices.DeleteFunc(slices.Clone(c.log), func(s string) bool { return s == "invite" || s == "leave" })
}

func (c *chatter) join(t *testing.T, room id.RoomID) {
	t.Helper()
	c.waitFor(t, "invite", room)
	if _, err := c.JoinRoomByID(t.Context(), room); err != nil {
		t.Fatal(err)
	}
}

func (c *chatter) say(t *testing.T, room id.RoomID, text string) id.EventID {
	t.Helper()
	resp, err := c.SendText(t.Context(), room, text)
	if err != nil {
		t.Fatalf("%s says %q: %v", c.UserID, text, err)
	}
	return resp.EventID
}
