package rules_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"hearth/storage/matrix"
)

// differences collects what the two implementations do not agree on.
type differences struct {
	list     []string
	compared map[string]int
}

func (d *differences) count(what string) {
	if d.compared == nil {
		d.compared = map[string]int{}
	}
	d.compared[what]++
}

// same compares two values of one kind and remembers a difference.
func (d *differences) same(what string, g *graph, about string, got, want any) bool {
	d.count(what)
	if fmt.Sprint(got) == fmt.Sprint(want) {
		return true
	}
	d.list = append(d.list, fmt.Sprintf("%s, %s\n  %s: got %v, want %v", g.name(), about, what, got, want))
	return false
}

func versionOf(n int) *matrix.Version {
	v, ok := matrix.VersionOf(matrix.RoomVersion(strconv.Itoa(n)))
	if !ok {
		panic("unknown room version " + strconv.Itoa(n))
	}
	return v
}

// compareEvents parses each event of the graph and compares what was read from it:
// its ID, hashes, header, canonical form, redaction and signatures.
func (d *differences) compareEvents(g *graph) map[string]*matrix.Event {
	parsed := map[string]*matrix.Event{}
	v := versionOf(g.version)
	for _, ref := range slices.Concat(g.foreign, g.order) {
		raw := g.raw[ref.id]
		about := string(raw)
		ev, err := matrix.ParseEvent(v, raw)
		if !d.same("parses", g, about, err, error(nil)) {
			continue
		}
		parsed[ref.id] = ev
		d.same("event ID", g, about, ev.ID(), ref.id)
		d.same("room ID", g, about, ev.RoomID(), ref.roomID)
		key, isState := ref.stateKey()
		gotKey, gotIs := ev.StateKey()
		d.same("header", g, about,
			fmt.Sprintln(ev.Type(), ev.Sender(), gotKey, gotIs, ev.Depth(), ev.OriginServerTS(), ev.PrevEvents(), ev.AuthEvents()),
			fmt.Sprintln(ref.typ(), ref.sender(), key, isState, ref.num("depth"), ref.num("origin_server_ts"),
				ref.refs("prev_events"), ref.refs("auth_events")))
		d.same("canonical JSON", g, about, string(ev.JSON()), string(refCanonical(refWithout(ref.json, "unsigned"))))

		hash := refContentHash(ref.json)
		claimed, _ := ref.json["hashes"].(map[string]any)["sha256"].(string)
		d.same("content hash fits", g, about, ev.HashOK(), claimed == hash)
		sum, err := matrix.ContentHash(v, raw)
		d.same("content hash", g, about, fmt.Sprint(base64.RawStdEncoding.EncodeToString(sum[:]), err), fmt.Sprint(hash, nil))
		refSum := ev.ReferenceHash()
		d.same("reference hash", g, about, fmt.Sprintf("%x", refSum), fmt.Sprintf("%x", refReferenceHash(g.version, ref.json)))

		redacted := refCanonical(refRedact(g.version, ref.json))
		got, err := matrix.Redact(v, raw)
		d.same("redaction", g, about, fmt.Sprint(string(got), err), fmt.Sprint(string(redacted), nil))
		d.same("redacted event", g, about, string(ev.Redacted().JSON()), string(redacted))
		d.same("redacted event's ID", g, about, ev.Redacted().ID(), ref.id)

		if g.seed%4 != 0 {
			continue // verifying is what takes the time
		}
		signatures, _ := ref.json["signatures"].(map[string]any)
		for _, server := range append(refKeysOf(signatures), "nobody.test") {
			err := matrix.VerifyEvent(ev, matrix.ServerName(server), keysOf(server))
			d.same("signature", g, server+" of "+about, err == nil, g.room.signedByServer(ref, server))
		}
	}
	return parsed
}

// keysOf looks up the keys of a server.
func keysOf(server string) func(matrix.KeyID) (ed25519.PublicKey, bool) {
	return func(id matrix.KeyID) (ed25519.PublicKey, bool) {
		key, ok := graphPublicKeys[server][string(id)]
		return key, ok
	}
}

// signedAsRequired checks the signatures that the event needs. The sender's is always
// good in a graph, and not verified if it is the only one.
func signedAsRequired(ev *matrix.Event) error {
	var errs []error
	if servers := matrix.RequiredSignatures(ev); len(servers) > 1 {
		for _, server := range servers {
			errs = append(errs, matrix.VerifyEvent(ev, server, keysOf(string(server))))
		}
	}
	return errors.Join(errs...)
}
