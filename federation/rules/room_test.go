package rules

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"hearth/storage/matrix"
)

// The users of the tests. Alice creates rooms.
const (
	alice = "@alice:a.test"
	bob   = "@bob:b.test"
	carol = "@carol:c.test"
	dave  = "@dave:a.test"
	eve   = "@eve:e.test"
)

// pdu is an event in short form. Its ID is what the test calls it by.
type pdu struct {
	id      string // without the sigil
	typ     string
	key     string // state key; "-" for no state event
	sender  string
	content string
	auth    string // IDs without sigil, separated by blanks
	prev    string
	ts      int64 // 0: one more than the event before
	depth   int64 // 0: ts
	room    string
	signed  string // a further server with a signature on it
	redacts string
}

// tester is what both testing and rapid have.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// room is a Source of events by readable IDs. Server names are part of IDs
// only where a test writes them.
type room struct {
	tb      tester
	version *matrix.Version
	id      string
	stored  map[matrix.EventID]Stored
	ts      int64
	asked   int // events that Events was asked for
	batches int
}

func newRoom(tb tester, version matrix.RoomVersion) *room {
	tb.Helper()
	v, ok := matrix.VersionOf(version)
	if !ok {
		tb.Fatalf("no room version %s", version)
	}
	r := &room{tb: tb, version: v, id: "!room:a.test", stored: make(map[matrix.EventID]Stored)}
	if v.RoomIDFromCreate {
		r.id = hashRoom("create")
	}
	return r
}

// hashRoom is a room ID in the form of a hash.
func hashRoom(name string) string { return "!" + name + strings.Repeat("_", 43-len(name)) }

func (r *room) build(p pdu) *matrix.Event {
	r.tb.Helper()
	if p.ts == 0 {
		r.ts++
		p.ts = r.ts
	}
	if p.depth == 0 {
		p.depth = p.ts
	}
	if p.room == "" {
		p.room = r.id
	}
	id := string(r.find(p.id))
	if r.version.IDFormat == matrix.IDServer {
		id = "$" + p.id
		if !strings.Contains(id, ":") {
			id += ":" + serverOf(p.sender)
		}
	}
	signatures := map[string]any{serverOf(p.sender): map[string]string{"ed25519:1": "AA"}}
	if p.signed != "" {
		signatures[p.signed] = map[string]string{"ed25519:1": "AA"}
	}
	fields := map[string]any{
		"type": p.typ, "sender": p.sender, "origin_server_ts": p.ts, "depth": p.depth,
		"content":     jsontext.Value(p.content),
		"auth_events": r.references(p.auth), "prev_events": r.references(p.prev),
		"hashes": map[string]string{"sha256": "AA"}, "signatures": signatures,
	}
	if p.room != "none" && (p.typ != matrix.TypeCreate || !r.version.RoomIDFromCreate || p.room != r.id) {
		fields["room_id"] = p.room
	}
	if p.key != "-" {
		fields["state_key"] = p.key
	}
	if p.redacts != "" {
		fields["redacts"] = p.redacts
	}
	if r.version.IDFormat == matrix.IDServer {
		fields["event_id"] = id
	}
	raw, err := json.Marshal(fields)
	if err == nil {
		raw, err = matrix.CanonicalJSON(raw)
	}
	if err != nil {
		r.tb.Fatalf("%s: %v", p.id, err)
	}
	ev, err := matrix.ParseStored(r.version, matrix.EventID(id), raw)
	if err != nil {
		r.tb.Fatalf("%s: %v\n%s", p.id, err, raw)
	}
	return ev
}

func serverOf(user string) string { return string(matrix.UserID(user).Server()) }

func (r *room) references(ids string) []any {
	list := []any{}
	for _, id := range strings.Fields(ids) {
		if full := r.find(id); r.version.PairReferences {
			list = append(list, []any{full, map[string]string{"sha256": "AA"}})
		} else {
			list = append(list, full)
		}
	}
	return list
}

// find completes an ID, which in room versions 1 and 2 has a server.
func (r *room) find(id string) matrix.EventID {
	if id == "create" && r.version.RoomIDFromCreate {
		return matrix.EventID("$" + r.id[1:])
	}
	if r.version.IDFormat == matrix.IDServer && !strings.Contains(id, ":") {
		for _, server := range []string{"a.test", "b.test", "c.test", "e.test"} {
			if _, ok := r.stored[matrix.EventID("$"+id+":"+server)]; ok {
				return matrix.EventID("$" + id + ":" + server)
			}
		}
		return matrix.EventID("$" + id + ":nowhere.test")
	}
	return matrix.EventID("$" + id)
}

// add stores events, in the order given.
func (r *room) add(list ...pdu) {
	r.tb.Helper()
	for _, p := range list {
		ev := r.build(p)
		r.stored[ev.ID()] = Stored{Event: ev}
	}
}

func (r *room) event(id string) *matrix.Event {
	r.tb.Helper()
	s, ok := r.stored[r.find(id)]
	if !ok {
		r.tb.Fatalf("no event %s", id)
	}
	return s.Event
}

func (r *room) mark(id string, standing Standing) {
	full := r.find(id)
	s := r.stored[full]
	s.Standing = standing
	r.stored[full] = s
}

// state is a state by the IDs of its events.
func (r *room) state(ids string) StateMap {
	r.tb.Helper()
	s := make(StateMap)
	for _, id := range strings.Fields(ids) {
		ev := r.event(id)
		key, _ := ev.StateKey()
		s[Key{ev.Type(), key}] = ev.ID()
	}
	return s
}

// Events implements Source.
func (r *room) Events(ids []matrix.EventID) ([]Stored, error) {
	r.asked += len(ids)
	r.batches++
	list := make([]Stored, len(ids))
	for i, id := range ids {
		list[i] = r.stored[id]
	}
	return list, nil
}

// indexed is the room with stored generations.
type indexed struct {
	*room
	gens map[matrix.EventID]int64
}

func (r *room) indexed() *indexed {
	x := &indexed{room: r, gens: make(map[matrix.EventID]int64)}
	for id := range r.stored {
		x.generation(id)
	}
	return x
}

func (x *indexed) generation(id matrix.EventID) int64 {
	if gen, ok := x.gens[id]; ok {
		return gen
	}
	s, ok := x.stored[id]
	if !ok {
		return 0
	}
	gen := int64(0)
	for _, a := range s.Event.AuthEvents() {
		gen = max(gen, x.generation(a))
	}
	x.gens[id] = gen + 1
	return gen + 1
}

// Generations implements Generations.
func (x *indexed) Generations(ids []matrix.EventID) ([]int64, error) {
	list := make([]int64, len(ids))
	for i, id := range ids {
		list[i] = x.gens[id]
	}
	return list, nil
}

// levels is the content of m.room.power_levels: bob has 50, alice 100 where
// she can be named. extra goes in front, as `"ban":60,`; users as `"@x:y":1`.
func (r *room) levels(extra string, users ...string) string {
	users = append(users, `"`+bob+`":50`)
	if !r.version.PrivilegedCreators {
		users = append(users, `"`+alice+`":100`)
	}
	return "{" + extra + `"users":{` + strings.Join(users, ",") + "}}"
}

func (r *room) createContent(extra string) string {
	return fmt.Sprintf(`{%s"creator":%q,"room_version":%q}`, extra, alice, r.version.ID)
}

func member(membership string) string { return `{"membership":"` + membership + `"}` }

func joinRule(rule string) string { return `{"join_rule":"` + rule + `"}` }

// property checks a property on random input, more often in long runs.
func property(t *testing.T, holds func(*rapid.T)) {
	t.Helper()
	times, err := strconv.Atoi(os.Getenv("HEARTH_TEST_SCALE"))
	if err != nil || times < 1 {
		times = 1
	}
	for range times {
		rapid.Check(t, holds)
	}
}

// everyVersion runs a test in each room version.
func everyVersion(t *testing.T, test func(t *testing.T, v *matrix.Version)) {
	for _, id := range matrix.RoomVersions() {
		t.Run("v"+string(id), func(t *testing.T) {
			v, _ := matrix.VersionOf(id)
			test(t, v)
		})
	}
}
