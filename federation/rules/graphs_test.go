package rules_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// graph is a random room: contested on purpose, with events that the rules accept
// and events that they refuse. One seed always makes the same graph.
type graph struct {
	version int
	seed    uint64
	rng     *rand.Rand
	room    *refRoom
	roomID  string
	users   []string

	order   []*refEvent         // events of the room, parents first
	foreign []*refEvent         // events of another room, for auth_events that do not belong
	raw     map[string][]byte   // as sent, by event ID
	before  map[string]refState // S(E), by event ID
	after   map[string]refState // S'(E)
	byState map[string]string   // the rule that refused it against S(E), or ""
	byAuth  map[string]string   // the rule that refused it against its auth_events, or ""
	resolve []graphResolution
	heads   []*refEvent // the ends of long forks, in graphs that have them
	clock   int64
	serial  int
}

// graphResolution is one set of states and what they resolve to.
type graphResolution struct {
	states []refState
	want   refState
}

const graphKeyID = "ed25519:k1"

var graphServers = []string{"one.test", "two.test:8448", "three.test"}

// graphKeys are the servers' signing keys, and those of an identity server for
// third-party invites; fixed, so that graphs are the same on every run.
var graphKeys = func() map[string]ed25519.PrivateKey {
	keys := map[string]ed25519.PrivateKey{}
	for i, name := range append([]string{"id.test", "id2.test"}, graphServers...) {
		seed := [ed25519.SeedSize]byte{byte(i + 1)}
		keys[name] = ed25519.NewKeyFromSeed(seed[:])
	}
	return keys
}()

// graphPublicKeys is what a receiving server would have fetched.
var graphPublicKeys = func() map[string]map[string]ed25519.PublicKey {
	keys := map[string]map[string]ed25519.PublicKey{}
	for _, name := range graphServers {
		keys[name] = map[string]ed25519.PublicKey{graphKeyID: graphKeys[name].Public().(ed25519.PublicKey)}
	}
	return keys
}()

// newGraph makes a room of the version with about size events.
func newGraph(version int, seed uint64, size int) *graph {
	g := &graph{
		version: version, seed: seed,
		rng:  rand.New(rand.NewPCG(seed, uint64(version))),
		room: newRefRoom(version, graphPublicKeys),
		raw:  map[string][]byte{}, before: map[string]refState{}, after: map[string]refState{},
		byState: map[string]string{}, byAuth: map[string]string{},
		clock: 1_700_000_000_000,
	}
	for i, name := range []string{"alice", "bob", "carol", "dave", "erin", "Frank Ünder", "grace"} {
		g.users = append(g.users, "@"+name+":"+graphServers[i%len(graphServers)])
	}
	g.found()
	if g.chance(0.5) {
		for range pick(g, 2, 2, 3) {
			g.heads = append(g.heads, g.order[len(g.order)-1])
		}
	}
	for len(g.order) < size {
		g.grow()
	}
	for range 10 {
		g.resolveSome()
	}
	return g
}

// name says which graph a difference is in.
func (g *graph) name() string { return fmt.Sprintf("version %d, seed %d", g.version, g.seed) }

func (g *graph) chance(p float64) bool { return g.rng.Float64() < p }

func pick[T any](g *graph, list ...T) T { return list[g.rng.IntN(len(list))] }

// found makes the first events: another room to borrow from, then this one's.
func (g *graph) found() {
	g.roomID = "!other:" + refDomain(g.users[1])
	g.makeCreate(g.users[1], refState{})
	g.foreign, g.order = g.order, nil

	g.roomID = "!room:" + refDomain(g.users[0])
	g.makeCreate(g.users[0], refState{})
	creator := g.users[0]
	join := map[string]any{"type": "m.room.member", "state_key": creator, "sender": creator,
		"content": map[string]any{"membership": "join"}}
	g.add(join, g.order)
	if g.chance(0.8) {
		g.add(g.firstPowerLevels(creator), g.order[len(g.order)-1:])
	}
	if g.chance(0.85) {
		g.add(g.joinRules(creator), g.order[len(g.order)-1:])
	}
}

func (g *graph) makeCreate(creator string, before refState) {
	content := map[string]any{"room_version": fmt.Sprint(g.version)}
	if g.version == 1 && g.chance(0.5) {
		delete(content, "room_version")
	}
	if g.version <= 10 {
		content["creator"] = creator
	}
	if g.chance(0.1) {
		content["m.federate"] = pick[any](g, false, true, "false")
	}
	if g.version >= 12 && g.chance(0.5) {
		content["additional_creators"] = []any{g.users[2], pick(g, g.users...)}
	}
	ev := map[string]any{"type": "m.room.create", "state_key": "", "sender": creator, "content": content}
	if g.version >= 12 {
		g.roomID = ""
	}
	e := g.add(ev, nil)
	g.roomID = e.roomID
}

// grow appends one event after one or several earlier ones.
func (g *graph) grow() {
	head, prev := -1, []*refEvent(nil)
	if len(g.heads) > 0 && !g.chance(0.05) {
		head = g.rng.IntN(len(g.heads))
		prev = g.heads[head : head+1]
		if other := pick(g, g.heads...); other != prev[0] && g.chance(0.1) {
			prev = []*refEvent{prev[0], other}
		}
	} else {
		prev = g.choosePrev()
	}
	state := g.stateAfter(prev, false)
	ev := g.act(state)
	switch {
	case ev["type"] == "m.room.create" && g.chance(0.8):
		prev = nil
	case g.chance(0.06):
		g.spoil(ev)
	}
	if e := g.add(ev, prev); head >= 0 && e.typ() != "m.room.create" && (!e.rejected || g.chance(0.02)) {
		g.heads[head] = e
	}
}

// choosePrev forks and merges: most events follow recent ones, some follow old ones.
func (g *graph) choosePrev() []*refEvent {
	n := 1
	if g.chance(0.35) {
		n = pick(g, 2, 2, 2, 3, 4)
	}
	var prev []*refEvent
	for tries := 0; len(prev) < n && tries < 20; tries++ {
		window := min(len(g.order), pick(g, 3, 6, 6, 12, 1000))
		e := g.order[len(g.order)-1-g.rng.IntN(window)]
		again := e.rejected && !g.chance(0.1) || e == g.order[0] && len(g.order) > 2 && !g.chance(0.1)
		again = again || e.typ() == "m.room.create" && e != g.order[0]
		for _, p := range prev {
			again = again || p == e
		}
		if !again {
			prev = append(prev, e)
		}
	}
	if len(prev) == 0 {
		return g.order[:1]
	}
	return prev
}

// stateAfter resolves the states after some events and remembers the case.
func (g *graph) stateAfter(prev []*refEvent, remember bool) refState {
	var states []refState
	for _, p := range prev {
		states = append(states, g.after[p.id])
	}
	if len(states) == 0 {
		return refState{}
	}
	if len(states) == 1 {
		return states[0]
	}
	want := g.room.resolve(states)
	if remember {
		g.resolve = append(g.resolve, graphResolution{states, want})
	}
	return want
}

// resolveSome resolves states that no event merges. One of them may be a state that
// only another server holds, with an event that we rejected by its state: "handled as
// usual by the algorithm". Room Version 2, "Rejected events".
func (g *graph) resolveSome() {
	var states []refState
	for range pick(g, 1, 2, 2, 3, 3, 5) {
		if e := pick(g, g.order...); e.typ() != "m.room.create" {
			states = append(states, g.after[e.id])
		}
	}
	for _, h := range g.heads {
		if g.chance(0.5) {
			states = append(states, g.after[h.id])
		}
	}
	if len(states) == 0 {
		return
	}
	if g.version >= 2 && g.chance(0.5) {
		for _, e := range g.order {
			if _, isState := e.stateKey(); isState && e.typ() != "m.room.create" && g.byAuth[e.id] == "" && g.byState[e.id] != "" && g.chance(0.5) {
				states[0] = refCopyState(states[0])
				states[0][e.key()] = e
			}
		}
	}
	g.resolve = append(g.resolve, graphResolution{states, g.room.resolve(states)})
}

// add completes an event, hashes and signs it, checks it and puts it into the graph.
func (g *graph) add(ev map[string]any, prev []*refEvent) *refEvent {
	g.serial++
	g.clock += pick[int64](g, 0, 0, 1, 5)
	before := g.stateAfter(prev, true)
	g.complete(ev, prev, before)
	raw := refCanonical(ev)
	if g.chance(0.02) {
		raw = refCanonical(refRedact(g.version, ev)) // all that some server has left
	}
	e := refParse(g.version, raw)
	if g.room.events[e.id] != nil {
		return g.room.events[e.id]
	}
	g.raw[e.id] = raw
	g.room.events[e.id] = e
	g.order = append(g.order, e)
	g.before[e.id] = before
	g.byState[e.id] = g.room.authorize(e, before)
	g.byAuth[e.id] = g.room.authorizeByAuthEvents(e)
	e.rejected = g.byState[e.id] != "" || g.byAuth[e.id] != ""
	g.after[e.id] = g.room.after(e, before)
	return e
}

// complete fills in what every event has, if the maker of the event left it out.
func (g *graph) complete(ev map[string]any, prev []*refEvent, before refState) {
	depth := int64(0)
	for _, p := range prev {
		depth = max(depth, p.num("depth"))
	}
	if g.version <= 2 && g.chance(0.15) {
		depth = max(0, depth-2) // nobody checks, and version 1 resolves by it
	}
	defaults := map[string]any{
		"depth": depth + 1, "origin_server_ts": g.clock + pick[int64](g, 0, 0, 0, -10, 10, -100), "origin": refDomain(ev["sender"].(string)),
		"prev_events": g.refs(prev),
	}
	if g.roomID != "" && ev["-room"] == nil {
		defaults["room_id"] = g.roomID
	}
	delete(ev, "-room")
	if g.version <= 2 {
		defaults["event_id"] = fmt.Sprintf("$e%d-%d:%s", g.seed, g.serial, refDomain(ev["sender"].(string)))
	}
	for k, v := range defaults {
		if _, has := ev[k]; !has {
			ev[k] = v
		}
	}
	if g.chance(0.1) { // keys that only some versions protect, or none
		key := pick(g, "membership", "prev_state", "org.example.extra", "redacts", "\ufb01\U0001f600")
		if _, has := ev[key]; !has {
			ev[key] = pick[any](g, "join", "$x", "join")
		}
	}
	g.normalize(ev)
	auth := g.authEventsFor(ev, before)
	ev["auth_events"] = g.refs(auth)
	signers, _ := ev["-signers"].([]string)
	delete(ev, "-signers")
	if g.chance(0.3) {
		ev["unsigned"] = map[string]any{"age": json.Number("7")}
	}
	server := refDomain(ev["sender"].(string))
	refHashAndSign(g.version, ev, server, graphKeyID, graphKeys[server])
	for _, s := range signers {
		g.cosign(ev, s)
	}
}

// normalize turns Go numbers into what decoding would give.
func (g *graph) normalize(ev map[string]any) {
	signers, has := ev["-signers"]
	delete(ev, "-signers")
	for k, v := range refDecode(refCanonical(ev)) {
		ev[k] = v
	}
	if has {
		ev["-signers"] = signers
	}
}

// cosign adds another server's signature; a name with "!" before it gets a bad one.
func (g *graph) cosign(ev map[string]any, server string) {
	server, bad := strings.CutPrefix(server, "!")
	key := graphKeys[server]
	if bad {
		key = graphKeys["id.test"]
	}
	if key != nil && !(bad && server == refDomain(ev["sender"].(string))) {
		refAddSignature(g.version, ev, server, graphKeyID, key)
	}
}

// refs writes references to events as the room version does.
func (g *graph) refs(events []*refEvent) []any {
	out := []any{}
	for _, e := range events {
		if g.version <= 2 {
			out = append(out, []any{e.id, map[string]any{"sha256": refContentHash(e.json)}})
		} else {
			out = append(out, e.id)
		}
	}
	return out
}
