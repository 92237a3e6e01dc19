package acceptance

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hearth/server/testserver"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// TestVisibilityTable asks every door about every room: users with each path of
// memberships, in rooms of each history visibility. Whatever is sent carries a
// marker; no answer may hold a marker that the specification keeps from that
// user, and what it gives them is found. Client-Server API, "Room History
// Visibility", "Stripped state" and "Leaving rooms".
func TestVisibilityTable(t *testing.T) {
	if storagetest.Raced {
		t.Skip("asks one thing after the other, for minutes: nothing for the race detector")
	}
	t.Parallel()
	tab := newVisibilityTable(t)
	for phase := range phases {
		for _, r := range tab.rooms {
			r.play(phase)
		}
		for _, u := range tab.users {
			u.since = append(u.since, u.Sync().NextBatch)
		}
	}
	for _, r := range tab.rooms {
		r.collect(t)
	}
	for _, u := range tab.users {
		u.askAll(t, tab)
	}
}

// phases is how many times every room moves on.
const phases = 7

// paths are what befalls the users, one letter at the beginning of each phase
// from the second on: invited, joins, leaves, is kicked, banned, unbanned,
// knocks, forgets; a dot is nothing.
var paths = map[string]string{
	"stranger": "", "invited": "I", "disinvited": "IK", "rejected": "IL", "knocking": "N", "gaveup": "NL",
	"refused": "NK", "left": "IJL", "kicked": "IJK", "banned": "IJB", "bannedoutside": "B", "bannedinvited": "IB",
	"unbanned": "IJBU", "reinvited": "IJLI", "reinvitedrejected": "IJLIL", "reinvitedbanned": "IJLIB",
	"knockingagain": "IJLN", "refusedagain": "IJLNK", "leftbanned": "IJLB", "forgot": "IJLF",
	"forgotinvited": "IJLFI", "forgotrejected": "IJLFIL", "forgotrejoined": "IJLFIJ", "rejoined": "IJLIJ",
	"leftagain": "IJLIJL", "late": "...IJ", "latebanned": "...IJB",
}

// visibilities are the rooms: the visibility in each phase, the last one lasting.
var visibilities = [][]string{
	{"shared"}, {"invited"}, {"joined"}, {"world_readable", "world_readable", "joined"},
	{"joined", "joined", "joined", "shared"}, {"shared", "shared", "shared", "shared", "invited"},
}

type visibilityTable struct {
	owner, walker *testserver.Client
	users         []*tableUser
	rooms         []*tableRoom
}

type tableUser struct {
	*testserver.Client // asks everything
	other              *testserver.Client
	name, path         string
	since              []string // of each phase
}

type tableRoom struct {
	*visibilityTable
	t          *testing.T
	n          int
	id         matrix.RoomID
	visibility []string
	events     []told // all of them, oldest first, as the owner sees them
	around     map[matrix.EventID][2]string
	tokens     []string
	said       matrix.EventID // to be redacted in the next phase
}

func newVisibilityTable(t *testing.T) *visibilityTable {
	hs := testserver.New(t)
	tab := &visibilityTable{owner: hs.Register("owner"), walker: hs.Register("walker")}
	for name, path := range paths {
		u := &tableUser{other: hs.Register(name), name: name, path: path}
		u.Client = hs.Login(name)
		tab.users = append(tab.users, u)
	}
	for n, v := range visibilities {
		r := &tableRoom{visibilityTable: tab, t: t, n: n, visibility: v, around: map[matrix.EventID][2]string{}}
		r.id = tab.owner.CreateRoom(fmt.Sprintf(`{"preset":"private_chat","initial_state":[
			{"type":"m.room.history_visibility","content":{"history_visibility":%q}},
			{"type":"m.room.join_rules","content":{"join_rule":"knock"}}]}`, v[0]))
		enter(r.id, tab.owner, tab.walker)
		tab.rooms = append(tab.rooms, r)
	}
	return tab
}

// marker is a word that is found again. Its kind says what it marks: m, u
// messages; x, y what was redacted; r, q why; s state of its own key; p, d state
// that is replaced in each phase; n the name; t transactions.
func marker(room int, kind string, phase int) string {
	return fmt.Sprintf("zq%d%s%dqz", room, kind, phase)
}

var markers = regexp.MustCompile(`zq(\d)([a-z])(\d)qz`)

// play does what happens in one phase of a room.
func (r *tableRoom) play(phase int) {
	mark := func(kind string) string { return marker(r.n, kind, phase) }
	if v := r.at(phase); phase > 0 && v != r.at(phase-1) {
		r.owner.SetState(r.id, "m.room.history_visibility", "", fmt.Sprintf(`{"history_visibility":%q}`, v))
	}
	for _, u := range r.users {
		r.step(u, u.stepAt(phase))
	}
	r.owner.SendTxn(r.id, "m.room.message", mark("t"), fmt.Sprintf(`{"body":%q}`, mark("m")))
	if r.said != "" {
		r.owner.Redact(r.id, r.said, mark("q"))
	}
	r.said = r.owner.Say(r.id, mark("y"))
	r.owner.Redact(r.id, r.owner.Say(r.id, mark("x")), mark("r"))
	r.owner.SetState(r.id, "org.test.own", mark("s"), fmt.Sprintf(`{"v":%q}`, mark("s")))
	r.owner.SetState(r.id, "org.test.same", "", fmt.Sprintf(`{"v":%q}`, mark("p")))
	r.owner.SetState(r.id, "m.room.name", "", fmt.Sprintf(`{"name":%q}`, mark("n")))
	r.walker.SetState(r.id, matrix.TypeMember, string(r.walker.UserID), fmt.Sprintf(`{"membership":"join","displayname":%q}`, mark("d")))
	for _, u := range r.users {
		if u.memberAt(phase) == "join" {
			u.other.SendTxn(r.id, "m.room.message", mark("t"), fmt.Sprintf(`{"body":%q}`, mark("u")))
		}
	}
}

func (r *tableRoom) step(u *tableUser, step byte) {
	switch step {
	case 'I':
		r.owner.Invite(r.id, u.other)
	case 'J':
		u.Join(r.id)
	case 'L':
		u.Leave(r.id)
	case 'K':
		r.owner.Kick(r.id, u.other)
	case 'B':
		r.owner.Ban(r.id, u.other)
	case 'U':
		r.owner.Unban(r.id, u.other)
	case 'N':
		u.Knock(r.id)
	case 'F':
		u.Forget(r.id)
	}
}

// collect gathers the events and the tokens, as somebody could who sees all.
func (r *tableRoom) collect(t *testing.T) {
	var all page
	get(t, r.owner, &all, r.id, "dir=f&limit=1000", "messages")
	r.events = all.Chunk
	for i, e := range r.events {
		if i%20 != 0 && e.Type != matrix.TypeMember {
			continue
		}
		var c struct {
			Start string `json:"start"`
			End   string `json:"end"`
		}
		get(t, r.owner, &c, r.id, "limit=0", "context", string(e.ID))
		r.around[e.ID] = [2]string{c.Start, c.End}
		if i%20 == 0 {
			r.tokens = append(r.tokens, c.End)
		}
	}
	r.tokens = append(r.tokens, r.owner.Sync().NextBatch)
}

func (r *tableRoom) at(phase int) string { return r.visibility[min(phase, len(r.visibility)-1)] }

func (u *tableUser) stepAt(phase int) byte {
	if phase == 0 || phase > len(u.path) {
		return '.'
	}
	return u.path[phase-1]
}

func (u *tableUser) memberAt(phase int) string {
	m := "leave"
	for i := range phase + 1 {
		switch u.stepAt(i) {
		case 'I':
			m = "invite"
		case 'J':
			m = "join"
		case 'N':
			m = "knock"
		case 'L', 'K', 'U':
			m = "leave"
		case 'B':
			m = "ban"
		}
	}
	return m
}

// lastIn is the last phase in which the user was in the room; -1 if there is
// none, or if the room was forgotten and nothing befell them in it since.
func (u *tableUser) lastIn() int {
	if strings.HasSuffix(u.path, "F") {
		return -1
	}
	last := -1
	for i := range phases {
		if u.memberAt(i) == "join" {
			last = i
		}
	}
	return last
}

// sees tells whether the user may see what was sent in a phase.
func (u *tableUser) sees(r *tableRoom, phase int) bool {
	switch m := u.memberAt(phase); r.at(phase) {
	case "world_readable":
		return true
	case "shared":
		return phase <= u.lastIn()
	case "invited":
		return phase <= u.lastIn() && (m == "join" || m == "invite")
	default:
		return phase <= u.lastIn() && m == "join"
	}
}

// entitled tells whether the user may see a marker by any door.
func (u *tableUser) entitled(r *tableRoom, kind string, phase int) bool {
	knew := func(i int) bool { // the state as of a phase
		return i < phases && (u.sees(r, i) || u.memberAt(i) == "join" && i <= u.lastIn())
	}
	switch kind {
	case "m", "u", "r", "q":
		return u.sees(r, phase)
	case "y": // the last one is not redacted any more
		return phase == phases-1 && u.sees(r, phase)
	case "s":
		for i := phase; i < phases; i++ {
			if knew(i) {
				return true
			}
		}
	case "p", "d":
		return knew(phase) || knew(phase+1)
	case "n": // stripped state has the name as it was then
		m, last := u.memberAt(phases-1), strings.LastIndexAny(u.path, "IN")
		return knew(phase) || knew(phase+1) || (m == "invite" || m == "knock") && phase == last
	}
	return false
}

// asking counts what a user was told.
type asking struct {
	*tableUser
	t     *testing.T
	tab   *visibilityTable
	found map[string]bool
}

// rests tells whether a door among many of its kind is left out by this user in
// this room: another asks it. A long run leaves out nothing.
func (a *asking) rests(r *tableRoom, door int) bool {
	return (door+len(a.name)+r.n)%max(1, 5/storagetest.Scale(1)) != 0
}

func (u *tableUser) askAll(t *testing.T, tab *visibilityTable) {
	a := &asking{u, t, tab, map[string]bool{}}
	for _, path := range u.syncs() {
		a.ask(path)
	}
	for _, r := range tab.rooms {
		a.askRoom(r)
		for phase := range phases {
			if m := marker(r.n, "m", phase); u.sees(r, phase) && !a.found[m] {
				t.Errorf("%s in room %v may see phase %d, and no door shows it", u.name, r.visibility, phase)
			}
		}
	}
}

// syncs are the forms of /sync, from each token that the user has.
func (u *tableUser) syncs() []string {
	filter := func(f string) string { return "&filter=" + url.QueryEscape(f) }
	forms := []string{
		"", "&full_state=true", "&use_state_after=true" + filter(`{"room":{"include_leave":true}}`),
		"&full_state=true" + filter(`{"event_format":"federation","room":{"include_leave":true,"timeline":{"limit":100}}}`),
		filter(`{"room":{"include_leave":true,"state":{"lazy_load_members":true},"timeline":{"limit":3}}}`),
	}
	var list []string
	for i, since := range append([]string{""}, u.since...) {
		for j, form := range forms {
			if i == 0 || i%2 == 0 || j%2 == 0 {
				list = append(list, v3+"/sync?since="+since+form)
			}
		}
	}
	return list
}

func (a *asking) askRoom(r *tableRoom) {
	in := func(parts ...string) string { return testserver.RoomPath(r.id, parts...) }
	for _, path := range []string{
		in("state"), in("members"), in("members") + "?membership=join", in("joined_members"), in("aliases"), in("initialSync"),
		in("messages") + "?dir=b&limit=1000", in("messages") + "?dir=f&limit=1000", in("state", "org.test.same"),
		in("messages") + "?dir=b&limit=1000&filter=" + url.QueryEscape(`{"lazy_load_members":true}`),
		in("state", "org.test.same") + "?format=event", in("state", "m.room.name", "") + "?format=event",
		in("state", matrix.TypeMember, string(a.tab.walker.UserID)) + "?format=event",
		v3 + "/directory/list/room/" + url.PathEscape(string(r.id)), v3 + "/events?timeout=0&room_id=" + url.QueryEscape(string(r.id)),
	} {
		a.ask(path)
	}
	tokens := append(slices.Clone(r.tokens), a.since[2], a.since[4])
	for i, e := range r.events {
		own := e.Key != nil && *e.Key == string(a.UserID)
		marked := markers.FindStringSubmatch(fmt.Sprint(e.Content))
		if !own && marked == nil && e.Type != matrix.TypeRedaction {
			continue
		}
		if rests := !own && a.rests(r, i); !rests || marked != nil && marked[2] == "m" {
			a.ask(in("event", string(e.ID)))
		} else if rests {
			continue
		}
		a.ask(in("context", string(e.ID)) + "?limit=2")
		if own {
			a.ask(v3 + "/events/" + url.PathEscape(string(e.ID)))
			around := r.around[e.ID]
			tokens = append(tokens, around[:]...)
		}
	}
	for i, token := range tokens {
		if i < len(r.tokens) && a.rests(r, i) {
			continue
		}
		to := "&to=" + tokens[(i+1)%len(tokens)]
		a.ask(in("members") + "?at=" + token)
		a.ask(in("messages") + "?limit=20&dir=b&from=" + token)
		a.ask(in("messages") + "?limit=20&dir=f&from=" + token + to)
		a.ask(v3 + "/events?timeout=0&from=" + token + "&room_id=" + url.QueryEscape(string(r.id)))
	}
	a.askTime(r)
}

// askTime asks for events by their time: they are named, so it matters which.
func (a *asking) askTime(r *tableRoom) {
	phase := 0
	phaseOf := map[matrix.EventID]int{}
	for _, e := range r.events {
		if m := markers.FindStringSubmatch(fmt.Sprint(e.Content["body"])); m != nil && m[2] == "m" {
			phase = int(m[3][0] - '0')
		}
		if e.Content["body"] != nil {
			phaseOf[e.ID] = phase
		}
	}
	for _, query := range []string{"ts=0&dir=f", "ts=99999999999999&dir=b"} {
		body := a.ask("/_matrix/client/v1/rooms/" + url.PathEscape(string(r.id)) + "/timestamp_to_event?" + query)
		for id, phase := range phaseOf {
			if strings.Contains(body, string(id)) && !a.sees(r, phase) {
				a.t.Errorf("%s in room %v: %s names an event of phase %d: %s", a.name, r.visibility, query, phase, body)
			}
		}
	}
}

// ask reads one door and checks what it shows.
func (a *asking) ask(path string) string {
	answer, err := a.Do(a.t.Context(), http.MethodGet, path, nil)
	if err != nil || answer.Status >= 500 {
		a.t.Fatalf("%s asks %s: %v, %v", a.name, path, answer, err)
	}
	body := string(answer.Body)
	for _, m := range markers.FindAllStringSubmatch(body, -1) {
		r, phase := a.tab.rooms[m[1][0]-'0'], int(m[3][0]-'0')
		if a.found[m[0]] && a.entitled(r, m[2], phase) {
			continue
		}
		a.found[m[0]] = true
		if !a.entitled(r, m[2], phase) {
			a.t.Errorf("%s (%s) in room %v is shown %s of phase %d by %s", a.name, a.path, r.visibility, m[2], phase, path)
		}
	}
	return body
}
