package acceptance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"hearth/server/testserver"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// TestCrowd has twenty users do everything at once in a few rooms, against each
// other: they enter, leave, invite, kick, ban, talk, change state and power,
// replace rooms and forget them, while each has a device that syncs. Nothing
// fails but what is refused; in the end each device knows what there is, and
// every message that was acknowledged is there once.
func TestCrowd(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	ctx, stop := context.WithCancel(t.Context())
	var acting, syncing sync.WaitGroup
	for i := range c.users {
		acting.Go(func() {
			for n := range storagetest.Scale(25) {
				c.act(i, n)
			}
		})
	}
	for _, f := range c.followers {
		syncing.Go(func() {
			for ctx.Err() == nil {
				if _, err := f.Follow(ctx, time.Second); err != nil && ctx.Err() == nil {
					t.Errorf("%s: sync: %v", f.UserID, err)
					return
				}
			}
		})
	}
	acting.Wait()
	stop()
	syncing.Wait()
	for _, f := range c.followers {
		f.CatchUp()
		f.Check()
	}
	c.wantAcknowledged()
	t.Logf("%d done, %d refused, %d rooms", c.done, c.refused, len(c.rooms))
}

type crowd struct {
	t         *testing.T
	users     []*testserver.Client
	root      *testserver.Follower // was in each room first
	followers []*testserver.Follower

	mu            sync.Mutex // guards what follows
	rooms         []matrix.RoomID
	acked         map[matrix.EventID]matrix.RoomID
	done, refused int
}

func newCrowd(t *testing.T) *crowd {
	hs := testserver.New(t)
	c := &crowd{t: t, root: testserver.NewFollower(hs.Register("root")), acked: map[matrix.EventID]matrix.RoomID{}}
	c.followers = []*testserver.Follower{c.root}
	for i := range 20 {
		c.users = append(c.users, hs.Register(fmt.Sprintf("user%d", i)))
		c.followers = append(c.followers, testserver.NewFollower(c.users[i]))
	}
	for _, version := range []string{"12", "11", "6"} {
		c.rooms = append(c.rooms, c.root.CreateRoom(`{"preset":"public_chat","room_version":"`+version+`",
			"power_level_content_override":{"users_default":50,"events":{"m.room.tombstone":50,"m.room.power_levels":50},"kick":49,"ban":49}}`))
	}
	return c
}

// act has a user do something, at random.
func (c *crowd) act(i, n int) {
	me, whom := c.users[i], c.users[rand.IntN(len(c.users))]
	c.mu.Lock()
	room := c.rooms[rand.IntN(len(c.rooms))]
	c.mu.Unlock()
	target := fmt.Sprintf(`{"user_id":%q}`, whom.UserID)
	post := func(act, body string) *testserver.Answer {
		return c.do(me, http.MethodPost, testserver.RoomPath(room, act), body)
	}
	switch k := rand.IntN(40); {
	case k < 12:
		post("join", "{}")
	case k < 15:
		post("leave", "{}")
	case k < 17:
		post("invite", target)
	case k < 18:
		post("kick", target)
	case k < 19:
		post("ban", target)
	case k < 21:
		post("unban", target)
	case k < 22:
		post("forget", "{}")
	case k < 25:
		c.do(me, http.MethodPut, testserver.RoomPath(room, "state", "m.test", fmt.Sprint(i%3)), number(n))
	case k < 26:
		c.do(me, http.MethodPut, testserver.RoomPath(room, "state", "m.room.history_visibility", ""), `{"history_visibility":"shared"}`)
	case k < 27 && n%5 == 0:
		c.add(post("upgrade", `{"new_version":"11"}`), "replacement_room")
	case k < 28 && n%5 == 0:
		c.add(c.do(me, http.MethodPost, v3+"/createRoom", fmt.Sprintf(`{"preset":"public_chat","invite":[%q]}`, whom.UserID)), "room_id")
	default:
		c.say(me, room)
	}
}

// say sends a message, from two goroutines at once.
func (c *crowd) say(me *testserver.Client, room matrix.RoomID) {
	path := testserver.RoomPath(room, "send", "m.test", me.NextTxn())
	var other *testserver.Answer
	var wg sync.WaitGroup
	wg.Go(func() { other = c.do(me, http.MethodPut, path, `{"n":1}`) })
	one := c.do(me, http.MethodPut, path, `{"n":2}`)
	wg.Wait()
	ids := []matrix.EventID{}
	for _, a := range []*testserver.Answer{one, other} {
		if a.Status == http.StatusOK {
			var out struct {
				ID matrix.EventID `json:"event_id"`
			}
			a.Decode(c.t, &out)
			ids = append(ids, out.ID)
		}
	}
	if len(ids) == 2 && ids[0] != ids[1] {
		c.t.Errorf("one transaction sent %s and %s", ids[0], ids[1])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		c.acked[id] = room
	}
}

func (c *crowd) do(by *testserver.Client, method, path, body string) *testserver.Answer {
	a, err := by.Do(c.t.Context(), method, path, body)
	if err != nil || a.Status >= http.StatusInternalServerError {
		c.t.Errorf("%s %s: %v, %v", method, path, a, err)
		return &testserver.Answer{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.Status == http.StatusOK {
		c.done++
	} else {
		c.refused++
	}
	return a
}

// add notes a room that was made.
func (c *crowd) add(a *testserver.Answer, key string) {
	if a.Status != http.StatusOK {
		return
	}
	var out map[string]string
	a.Decode(c.t, &out)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rooms = append(c.rooms, matrix.RoomID(out[key]))
}

// wantAcknowledged looks for what was acknowledged in the rooms that root was
// never sent out of.
func (c *crowd) wantAcknowledged() {
	c.t.Helper()
	found := map[matrix.EventID]int{}
	for _, room := range c.rooms[:3] {
		for _, e := range c.root.Page(room, "") {
			found[e.ID]++
		}
	}
	for id, room := range c.acked {
		if slices.Contains(c.rooms[:3], room) && found[id] != 1 {
			c.t.Errorf("%s was acknowledged and is in %s %d times", id, room, found[id])
		}
	}
}
