package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"hearth/server/testserver"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// TestRoomCrash kills the real binary with SIGKILL at random moments while its
// users talk in rooms, change their state, redact, invite, enter, leave, make
// rooms and replace them, and all their devices sync. After each restart:
//
//   - what was acknowledged is in its room once, and what was given up at most
//     once; so are the memberships of guests, in their order
//   - nothing is there by half: who is in a room is told so, with its whole
//     state; a new room has all that was asked for, its alias and invitations;
//     a room and its replacement name each other
//   - each device, which keeps what it was told, has each event once and in
//     order, and the state and the memberships that the server has
func TestRoomCrash(t *testing.T) {
	p := newVictim(t)
	p.start()
	c := newRoomCrash(t, p)
	rounds := storagetest.Scale(6)
	for n := range rounds {
		c.round(n == rounds-1 || n%10 == 5)
		if t.Failed() {
			t.Fatalf("in round %d of %d", n, rounds)
		}
	}
	t.Logf("%d rounds: %d acknowledged, %d of them repeated, %d given up of which %d were applied; %d rooms; lost %d, twice %d",
		rounds, len(c.acked), c.repeated, len(c.given), c.applied, len(c.made), c.lost, c.twice)
}

// roomCrash is the state of the test: who is there, and what was answered.
type roomCrash struct {
	t         *testing.T
	p         *victim
	rooms     []matrix.RoomID
	root      *testserver.Follower // in all rooms, from the beginning
	actors    []*roomActor
	followers []*testserver.Follower
	checked   map[matrix.RoomID]int // events of root that were counted

	fuse  *fuse
	alive chan struct{} // closed once the server is back

	mu    sync.Mutex // guards what follows
	acked map[string]matrix.EventID
	given map[string]bool // given up: may have been applied or not
	again map[string]bool // state that may be there twice: it has no transaction
	made  map[string]matrix.RoomID
	found map[string]int // how often root was told of it

	repeated, applied, lost, twice int
}

func newRoomCrash(t *testing.T, p *victim) *roomCrash {
	c := &roomCrash{
		t: t, p: p, checked: map[matrix.RoomID]int{}, acked: map[string]matrix.EventID{}, given: map[string]bool{},
		again: map[string]bool{}, made: map[string]matrix.RoomID{}, found: map[string]int{},
	}
	site := testserver.NewSite(t, p.name, p.url)
	root := site.Register("root")
	c.root = testserver.NewFollower(root)
	for i := range 4 {
		a := &roomActor{roomCrash: c, n: i, owner: site.Register(fmt.Sprintf("owner%d", i)), guest: site.Register(fmt.Sprintf("guest%d", i))}
		c.actors = append(c.actors, a)
		c.followers = append(c.followers, testserver.NewFollower(site.Login(a.owner.UserID.Localpart())), testserver.NewFollower(a.guest))
	}
	for _, version := range []string{"12", "10", "5"} {
		room := root.CreateRoom(`{"preset":"public_chat","room_version":"` + version + `","power_level_content_override":{"users_default":10,
			"invite":0,"kick":20,"state_default":10,"redact":50,"users":{` + c.powers(version) + `}}}`)
		c.rooms = append(c.rooms, room)
		for _, a := range c.actors {
			a.owner.Join(room)
			a.guests = append(a.guests, nil)
		}
	}
	c.followers = append(c.followers, c.root)
	for _, f := range c.followers {
		f.CatchUp()
		f.Check()
	}
	return c
}

// powers lets owners remove guests.
func (c *roomCrash) powers(version string) string {
	var all []string
	if version != "12" {
		all = append(all, fmt.Sprintf(`%q:100`, c.root.UserID))
	}
	for _, a := range c.actors {
		all = append(all, fmt.Sprintf(`%q:20`, a.owner.UserID))
	}
	return strings.Join(all, ",")
}

// round has everybody act and sync, kills the server at a random moment, starts
// it again, and lets every pending request come to its end.
func (c *roomCrash) round(check bool) {
	c.fuse, c.alive = newFuse(1+rand.Int64N(120)), make(chan struct{})
	ctx, kill := context.WithCancel(c.t.Context())
	defer kill()
	var wg sync.WaitGroup
	for _, a := range c.actors {
		wg.Go(func() {
			for ctx.Err() == nil {
				a.act()
			}
		})
	}
	for _, f := range c.followers {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := f.Follow(ctx, time.Second); err != nil {
					return
				}
			}
		})
	}
	<-c.fuse.burnt
	<-time.After(time.Duration(rand.Int64N(int64(3 * time.Millisecond)))) // the random moment
	c.p.kill()
	kill()
	if check && rand.IntN(2) == 0 {
		c.wantSound("with no server running")
	}
	c.p.start()
	close(c.alive)
	wg.Wait()
	for _, f := range c.followers {
		f.CatchUp()
		f.Check()
	}
	c.count()
	if check {
		c.wantSound("with the server running")
	}
}

// wantSound runs the program's own check of the data directory.
func (c *roomCrash) wantSound(when string) {
	c.t.Helper()
	if stdout, stderr, code := hearth(c.t, c.p.dir, c.p.env, "", "check"); code != 0 {
		c.t.Errorf("hearth check %s: exit code %d\n%s%s", when, code, stdout, stderr)
	}
}

// count looks at what root was told since it was counted the last time.
func (c *roomCrash) count() {
	marks := map[matrix.EventID]string{}
	for mark, id := range c.acked {
		marks[id] = mark
	}
	for id, r := range c.root.Rooms {
		for _, e := range r.Events[c.checked[id]:] {
			c.countEvent(id, e, marks)
		}
		c.checked[id] = len(r.Events)
	}
	for mark, id := range c.acked {
		n := c.found[mark]
		switch {
		case n == 0:
			c.lost++
			c.t.Errorf("%s was acknowledged as %s and is lost", mark, id)
		case n > 1 && (n > 2 || !c.again[mark]):
			c.twice++
			c.t.Errorf("%s, acknowledged as %s, is there %d times", mark, id, n)
		}
	}
	c.applied = 0
	for mark := range c.given {
		c.applied += c.found[mark]
		if c.found[mark] > 1 {
			c.twice++
			c.t.Errorf("%s, which was given up, is there %d times", mark, c.found[mark])
		}
	}
	for _, a := range c.actors {
		a.wantGuests()
		a.wantRooms()
	}
}

func (c *roomCrash) countEvent(room matrix.RoomID, e testserver.RoomEvent, marks map[matrix.EventID]string) {
	mark := text(e.Content, "mark")
	if mark == "" {
		mark = marks[e.ID] // redacted before root was told of it
	}
	if mark == "" {
		return
	}
	c.found[mark]++
	if want, acked := c.acked[mark]; acked && want != e.ID && !c.again[mark] {
		c.t.Errorf("%s: %s was acknowledged as %s and is told as %s", room, mark, want, e.ID)
	}
	if !c.given[mark] && c.acked[mark] == "" {
		c.t.Errorf("%s: %s was never sent", room, mark)
	}
}
