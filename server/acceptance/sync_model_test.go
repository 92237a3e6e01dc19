package acceptance

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"hearth/server/testserver"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// TestSyncModel plays random sequences of what several users do in rooms, whose
// devices sync now and then, each with wishes of its own. What each is told is
// held against the truth event by event; what it has put together in the end is
// what a fresh sync tells. In between the server restarts.
func TestSyncModel(t *testing.T) {
	t.Parallel()
	hs := testserver.New(t)
	const groups = 4
	n := storagetest.ScaleRandom(500) / groups
	var pause sync.RWMutex // held for reading by whoever talks to the server
	var wg sync.WaitGroup
	for g := range groups {
		wg.Go(func() {
			p := newPlay(t, hs, g, &pause)
			for i := range n {
				p.sequence(uint64(i))
				if g == 0 && i%(n/2) == n/4 {
					p.restart(hs)
				}
			}
		})
	}
	wg.Wait()
}

// play is one group of users, whose rooms nobody else is in. What they do has
// an order.
type play struct {
	t     *testing.T
	pause *sync.RWMutex
	group int
	rng   *rand.Rand
	root  *testserver.Client // creates the rooms and is always there
	users []*testserver.Client
	all   []*testserver.Client // their devices, two each
	data  map[matrix.UserID]map[string]map[string]string

	rooms   map[matrix.RoomID]*truth
	order   []*truth
	clients []*modelClient
	n       int
}

func newPlay(t *testing.T, hs *testserver.Server, group int, pause *sync.RWMutex) *play {
	p := &play{t: t, pause: pause, group: group, data: map[matrix.UserID]map[string]map[string]string{}}
	p.root = hs.Register(fmt.Sprintf("root%d", group))
	for _, name := range []string{"ann", "ben", "cat"} {
		name += fmt.Sprint(group)
		first := hs.Register(name)
		p.users = append(p.users, first)
		p.all = append(p.all, first, hs.Login(name))
		p.data[first.UserID] = map[string]map[string]string{"": {}}
	}
	return p
}

func (p *play) restart(hs *testserver.Server) {
	p.pause.Lock()
	defer p.pause.Unlock()
	hs.Restart()
}

// sequence is one play from the first room to the end, with new clients.
func (p *play) sequence(seed uint64) {
	p.pause.RLock()
	defer func() { p.pause.RUnlock() }()
	p.rng = rand.New(rand.NewPCG(seed, uint64(p.group)))
	p.rooms, p.order, p.clients = map[matrix.RoomID]*truth{}, nil, nil
	ways := wishes(p.root.UserID)
	for _, c := range p.all {
		p.clients = append(p.clients, newModelClient(p.t, c, ways[p.rng.IntN(len(ways))]))
	}
	p.root.Rewind("")
	p.create()
	for range 10 {
		if p.rng.IntN(4) == 0 { // where a restart may come
			p.pause.RUnlock()
			p.pause.RLock()
		}
		if p.step() {
			p.observe()
		}
		for _, m := range p.clients {
			if p.rng.IntN(4) == 0 {
				m.sync(p.rooms, p.rng.IntN(8) == 0)
				if p.rng.IntN(4) == 0 {
					m.check(p.rooms, p.data[m.c.UserID])
				}
			}
		}
	}
	for _, m := range p.clients {
		m.sync(p.rooms, false)
		m.check(p.rooms, p.data[m.c.UserID])
		if p.rng.IntN(3) == 0 {
			since := m.c.Since()
			fresh := newModelClient(p.t, m.c, m.wish)
			fresh.sync(p.rooms, false)
			fresh.check(p.rooms, p.data[m.c.UserID])
			m.c.Rewind(since)
		}
		if p.rng.IntN(3) != 0 {
			continue
		}
		if s := m.c.SyncWith(m.wish.query()); len(s.Rooms.Join)+len(s.Rooms.Leave)+len(s.Rooms.Invite)+len(s.Rooms.Knock)+len(s.AccountData.Events) != 0 {
			p.t.Fatalf("%s was told something although nothing happened: %v", m.c.UserID, s.Raw)
		}
	}
	p.end()
}

// end has everybody leave and forget, so that no play burdens the next.
func (p *play) end() {
	p.t.Helper()
	for id, r := range p.rooms {
		for _, c := range append(p.users[:len(p.users):len(p.users)], p.root) {
			delete(p.data[c.UserID], string(id))
			now := r.member(len(r.events), c.UserID)
			if now == "" || r.forgotten[c.UserID] {
				continue
			}
			if now != "leave" && now != "ban" {
				p.try(c, http.MethodPost, testserver.RoomPath(id, "leave"), "{}")
			}
			p.try(c, http.MethodPost, testserver.RoomPath(id, "forget"), "{}")
		}
	}
}

// observe adds what root is told to the truth.
func (p *play) observe() {
	p.t.Helper()
	s := p.root.SyncWith(url.Values{"filter": {`{"room":{"timeline":{"limit":100}}}`}})
	for id, told := range s.Rooms.Join {
		r := p.rooms[id]
		if r == nil {
			r = &truth{id: id, forgotten: map[matrix.UserID]bool{}}
			p.rooms[id], p.order = r, append(p.order, r)
		}
		r.events = append(r.events, told.Timeline.Events...)
		for _, e := range told.Timeline.Events {
			if m := text1(e, "membership"); e.Type == matrix.TypeMember && m != "leave" && m != "ban" {
				delete(r.forgotten, matrix.UserID(*e.StateKey))
			}
		}
	}
}

// try sends a request that may be refused, and tells whether it was not.
func (p *play) try(c *testserver.Client, method, path, body string) bool {
	p.t.Helper()
	a, err := c.Do(p.t.Context(), method, path, body)
	if err != nil || a.Status >= 500 {
		p.t.Fatalf("%s %s: %v, %v", method, path, a, err)
	}
	return a.Status == http.StatusOK
}

func pick[T any](p *play, from ...T) T { return from[p.rng.IntN(len(from))] }

func (p *play) create() {
	p.t.Helper()
	options := fmt.Sprintf(`{"preset":%q,"room_version":%q,"power_level_content_override":{"users_default":50},"initial_state":[
		{"type":"m.room.history_visibility","content":{"history_visibility":%q}},{"type":"m.room.join_rules","content":{"join_rule":%q}}]%s}`,
		pick(p, "public_chat", "private_chat"), pick(p, "12", "12", "10"),
		pick(p, "shared", "shared", "joined", "invited", "world_readable"), pick(p, "public", "public", "invite", "knock"),
		pick(p, "", `,"name":"N"`, fmt.Sprintf(`,"invite":[%q]`, p.users[0].UserID)))
	p.root.CreateRoom(options)
	p.observe()
}

// step does one thing, allowed or not, and tells whether it was.
func (p *play) step() bool {
	p.t.Helper()
	p.n++
	r, u := pick(p, p.order...), pick(p, p.users...)
	body := "{}"
	switch act := pick(p, "say", "say", "say", "join", "join", "leave", "invite", "kick", "ban", "unban", "knock", "forget",
		"name", "state", "profile", "history", "data", "room data", "create", "redact", "go on", "go on", "go on", "go on"); act {
	case "say":
		return p.try(u, http.MethodPut, testserver.RoomPath(r.id, "send", "m.room.message", u.NextTxn()), fmt.Sprintf(`{"body":"%d"}`, p.n))
	case "go on":
		return p.goOn(r, u)
	case "invite", "kick", "ban", "unban":
		by := p.root
		if act == "invite" {
			by = pick(p, p.root, pick(p, p.users...))
		}
		return p.try(by, http.MethodPost, testserver.RoomPath(r.id, act), fmt.Sprintf(`{"user_id":%q}`, u.UserID))
	case "knock":
		return p.try(u, http.MethodPost, "/_matrix/client/v3/knock/"+url.PathEscape(string(r.id)), body)
	case "forget":
		if now := r.member(len(r.events), u.UserID); p.try(u, http.MethodPost, testserver.RoomPath(r.id, act), body) && (now == "leave" || now == "ban") {
			r.forgotten[u.UserID] = true
		}
		return false // nothing for others to see
	case "name":
		return p.try(pick(p, u, p.root), http.MethodPut, testserver.RoomPath(r.id, "state", "m.room.name"), pick(p, `{"name":""}`, fmt.Sprintf(`{"name":"%d"}`, p.n)))
	case "state":
		return p.try(pick(p, u, p.root), http.MethodPut, testserver.RoomPath(r.id, "state", "x.state", pick(p, "a", "b")), fmt.Sprintf(`{"n":%d}`, p.n))
	case "profile":
		return p.try(u, http.MethodPut, testserver.RoomPath(r.id, "state", matrix.TypeMember, string(u.UserID)), fmt.Sprintf(`{"membership":"join","displayname":"%d"}`, p.n))
	case "history":
		return p.try(p.root, http.MethodPut, testserver.RoomPath(r.id, "state", matrix.TypeHistoryVisibility), fmt.Sprintf(`{"history_visibility":%q}`, pick(p, "shared", "joined", "invited", "world_readable")))
	case "data", "room data":
		room, path := "", ""
		if act == "room data" {
			room, path = string(r.id), "/rooms/"+url.PathEscape(string(r.id))
		}
		typ, content := pick(p, "x.a", "x.b"), fmt.Sprintf(`{"n":%d}`, p.n)
		if p.try(u, http.MethodPut, "/_matrix/client/v3/user/"+url.PathEscape(string(u.UserID))+path+"/account_data/"+typ, content) {
			of := p.data[u.UserID]
			if of[room] == nil {
				of[room] = map[string]string{}
			}
			of[room][typ] = content
		}
		return false
	case "create":
		if len(p.order) < 3 {
			p.create()
		}
		return false
	case "redact":
		e := pick(p, r.events...)
		return p.try(pick(p, u, p.root), http.MethodPut, testserver.RoomPath(r.id, "redact", string(e.ID), u.NextTxn()), body)
	default: // join and leave
		return p.try(u, http.MethodPost, testserver.RoomPath(r.id, strings.TrimSpace(act)), body)
	}
}

// goOn has a user come or go from where they are.
func (p *play) goOn(r *truth, u *testserver.Client) bool {
	p.t.Helper()
	switch r.member(len(r.events), u.UserID) {
	case "join", "knock":
		return p.try(u, http.MethodPost, testserver.RoomPath(r.id, "leave"), "{}")
	case "invite":
		return p.try(u, http.MethodPost, testserver.RoomPath(r.id, pick(p, "join", "leave")), "{}")
	default:
		return p.try(p.root, http.MethodPost, testserver.RoomPath(r.id, "invite"), fmt.Sprintf(`{"user_id":%q}`, u.UserID))
	}
}
