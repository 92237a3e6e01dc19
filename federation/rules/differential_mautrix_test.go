//go:build oracle && goexperiment.jsonv2

package rules_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json/v2"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"maunium.net/go/mautrix/federation/eventauth"
	"maunium.net/go/mautrix/federation/pdu"
	"maunium.net/go/mautrix/id"

	"hearth/federation/rules"
)

// oracle is a graph as mautrix sees it.
type oracle struct {
	g      *graph
	room   id.RoomVersion
	events map[string]*pdu.PDU
}

func newOracle(g *graph) (*oracle, error) {
	o := &oracle{g: g, room: id.RoomVersion(strconv.Itoa(g.version)), events: map[string]*pdu.PDU{}}
	for _, ref := range slices.Concat(g.foreign, g.order) {
		var p pdu.PDU
		if err := json.Unmarshal(g.raw[ref.id], &p); err != nil {
			return nil, fmt.Errorf("%s: %w", g.raw[ref.id], err)
		}
		p.InternalMeta.EventID = id.EventID(ref.id)
		p.InternalMeta.Rejected = ref.rejected
		o.events[ref.id] = &p
	}
	return o, nil
}

func (o *oracle) get(ids []id.EventID) ([]*pdu.PDU, error) {
	var out []*pdu.PDU
	for _, i := range ids {
		if p := o.events[string(i)]; p != nil {
			out = append(out, p)
		}
	}
	return out, nil
}

func (o *oracle) key(server string, keyID id.KeyID, _ time.Time) (id.SigningKey, time.Time, error) {
	key, ok := graphPublicKeys[server][string(keyID)]
	if !ok {
		return "", time.Time{}, errors.New("no such key")
	}
	return id.SigningKey(base64.RawStdEncoding.EncodeToString(ed25519.PublicKey(key))), time.UnixMilli(2_000_000_000_000), nil
}

// verdict asks mautrix, by the event's auth events if state is nil. A panic is an
// answer of its own.
func (o *oracle) verdict(ref *refEvent, state refState) (answer string) {
	defer func() {
		if p := recover(); p != nil {
			answer = fmt.Sprint("panic: ", p)
		}
	}()
	var given []*pdu.PDU
	if state != nil {
		given = []*pdu.PDU{}
		for _, k := range refSortedKeys(state) {
			if o.g.version >= 12 && k.typ == "m.room.create" {
				continue // it takes this one from the room ID
			}
			given = append(given, o.events[state[k].id])
		}
	}
	err := eventauth.Authorize(o.room, o.events[ref.id], given, o.get, o.key)
	if err != nil {
		return "refused: " + err.Error()
	}
	return "allowed"
}

// TestMautrixDifferential compares events, IDs, hashes, redaction and verdicts of room
// versions 3 to 12 with those of mautrix, which is one more reading of the text. It
// needs GOEXPERIMENT=jsonv2 and the tag oracle.
//
// Where mautrix departs from the text, mautrixFault says how, and only such a case
// with such an answer is passed over.
func TestMautrixDifferential(t *testing.T) {
	total := &oracleCount{faults: map[string]int{}}
	for version := 3; version <= 12; version++ {
		for seed := range scale(15) {
			g := newGraph(version, uint64(seed)+1000, graphSize)
			var d differences
			events := d.compareEvents(g)
			o, err := newOracle(g)
			if err != nil {
				t.Fatal(err)
			}
			o.compare(&d, total, &production{g, events})
			d.report(t)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d events, %d verdicts, %d of them refusals; faults passed over: %v",
		total.events, total.verdicts, total.refusals, total.faults)
	passed := 0
	for _, n := range total.faults {
		passed += n
	}
	// Nothing compared, or nearly everything passed over, would prove nothing.
	if total.events < scale(6000) || total.verdicts < scale(12000) || total.refusals < scale(4000) {
		t.Errorf("only %d events, %d verdicts, %d refusals were compared", total.events, total.verdicts, total.refusals)
	}
	if passed*25 > total.verdicts {
		t.Errorf("%d of %d verdicts were passed over", passed, total.verdicts)
	}
}

type oracleCount struct {
	events, verdicts, refusals int
	faults                     map[string]int
}

func (o *oracle) compare(d *differences, n *oracleCount, p *production) {
	g := o.g
	for _, ref := range slices.Concat(g.foreign[:1], g.order) {
		ev, theirs := p.events[ref.id], o.events[ref.id]
		about := string(g.raw[ref.id])
		n.events++
		if fault := mautrixReading(ref); fault != "" {
			n.faults[fault]++
		} else {
			id, err := theirs.GetEventID(o.room)
			d.same("mautrix event ID", g, about, fmt.Sprint(ev.ID(), nil), fmt.Sprint(id, err))
			d.same("mautrix content hash", g, about, ev.HashOK(), theirs.VerifyContentHash())
			redacted, err := json.Marshal(theirs.Clone().Redact(o.room))
			d.same("mautrix redaction", g, about, fmt.Sprint(string(ev.Redacted().JSON()), nil),
				fmt.Sprint(string(refCanonical(refDecode(redacted))), err))
		}
		if signedAsRequired(ev) != nil {
			continue // ours has then not been asked; the rule itself is the reference's to compare
		}
		o.compareVerdict(d, n, ref, nil, p.byAuth(ref))
		// Without the checks of auth_events theirs knows the create event by the room ID
		// alone, so of version 12 only events of this room can be judged by a state.
		if before := g.before[ref.id]; len(before) > 0 && ref.roomID == g.roomID {
			o.compareVerdict(d, n, ref, before, verdict(rules.Authorize(ev, p.state(before))))
		}
	}
}

func (o *oracle) compareVerdict(d *differences, n *oracleCount, ref *refEvent, state refState, ours string) {
	theirs := o.verdict(ref, state)
	view := state
	if view == nil {
		view = o.g.room.stateOfAuthEvents(ref)
	}
	n.verdicts++
	if ours != "" {
		n.refusals++
	}
	if (ours == "") == (theirs == "allowed") && !strings.HasPrefix(theirs, "panic: ") {
		return
	}
	if fault := mautrixFault(o.g.room, ref, view, ours, theirs); fault != "" {
		n.faults[fault]++
		return
	}
	d.same("mautrix verdict", o.g, fmt.Sprintf("by state: %v, %s", state != nil, o.g.raw[ref.id]), ours, theirs)
}
