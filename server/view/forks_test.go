package view

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/federation/room"
	"hearth/storage"
	"hearth/storage/matrix"
)

// peer is a user of another server, who says things on any events of the room.
const peer matrix.UserID = "@dave:elsewhere.test"

// receive has an event of the peer received that was made on these parents.
func (w *world) receive(r storage.Room, typ string, key *string, content string, parents ...storage.Event) storage.Event {
	w.tb.Helper()
	t := matrix.Template{
		RoomID: r.ID, Type: typ, StateKey: key, Sender: peer, Content: jsontext.Value(content),
		OriginServerTS: parents[0].OriginServerTS(),
	}
	for _, p := range parents {
		t.PrevEvents = append(t.PrevEvents, p.ID())
		t.Depth = max(t.Depth, p.Depth+1)
	}
	w.read(func(rx *storage.Rx) error {
		for _, of := range []storage.StateKey{
			{Type: matrix.TypePowerLevels}, {Type: matrix.TypeJoinRules}, {Type: matrix.TypeMember, StateKey: string(peer)},
		} {
			if e, err := rx.CurrentState(r.Num, of.Type, of.StateKey); err == nil && (typ == matrix.TypeMember || of.Type != matrix.TypeJoinRules) {
				t.AuthEvents = append(t.AuthEvents, e.ID())
			}
		}
		return nil
	})
	signer := matrix.Signer{Server: peer.Server(), KeyID: "ed25519:1", Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	ev, err := matrix.Build(r.Version, t, signer)
	if err != nil {
		w.tb.Fatal(err)
	}
	out, err := w.rooms.Receive(w.tb.Context(), ev)
	if err != nil || out.Reason != nil {
		w.tb.Fatalf("receive %s: %v, %v", typ, err, out.Reason)
	}
	return w.event(ev.ID())
}

// forked is a room in which the peer is.
func (w *world) forked(by User, visibility string) storage.Room {
	w.tb.Helper()
	r := w.create(by, visibility)
	w.set(r, by, matrix.TypeJoinRules, "", `{"join_rule":"public"}`)
	key := string(peer)
	w.receive(r, matrix.TypeMember, &key, `{"membership":"join"}`, w.last(r))
	return r
}

func (w *world) last(r storage.Room) storage.Event {
	all := w.all(r)
	return all[len(all)-1]
}

const hello = `{"body":"hello","msgtype":"m.text"}`

// What comes after a user left is not theirs, though in the graph it lies beside
// their leaving and they were joined at it.
func TestForkBesideLeaving(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, bob := w.user("alice"), w.user("bob")
	for _, visibility := range []string{visibleShared, visibleJoined} {
		r := w.forked(alice, visibility)
		w.act((*room.Rooms).Join, r, bob, bob)
		said := w.say(r, alice, "x")
		early := w.receive(r, "m.room.message", nil, hello, said)
		w.act((*room.Rooms).Leave, r, bob, bob)
		beside := w.receive(r, "m.room.message", nil, `{"body":"late"}`, said)
		late := w.receive(r, "m.room.message", nil, hello, beside)
		if !w.sees(bob, early) || w.sees(bob, late) || !w.sees(alice, late) {
			t.Errorf("%s: bob sees %v, %v, alice %v", visibility, w.sees(bob, early), w.sees(bob, late), w.sees(alice, late))
		}
		if w.sees(bob, beside) {
			t.Errorf("%s: bob sees what came beside his leaving", visibility)
		}
		late.Pos = -late.Pos // fetched later, as history: it is not above his leaving
		if w.sees(bob, late) {
			t.Errorf("%s: bob sees what was fetched later", visibility)
		}
	}
}

// An event with several parents has a state of its own, which follows from none
// of them.
func TestForkMerged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, carol := w.user("alice"), w.user("carol")
	r := w.forked(alice, visibleJoined)
	for i := range 8 {
		value := []string{visibleShared, visibleJoined}[i%2]
		base := w.last(r)
		setting := w.set(r, alice, matrix.TypeHistoryVisibility, "", fmt.Sprintf(`{"history_visibility":%q}`, value))
		said := w.receive(r, "m.room.message", nil, hello, base)
		w.receive(r, "m.room.message", nil, hello, said, setting)
	}
	w.act((*room.Rooms).Join, r, carol, carol)
	events := w.all(r)
	var may []bool
	w.as(carol, func(v *Viewer) (err error) {
		may, err = v.CanSee(events)
		return err
	})
	for i, e := range events {
		if alone := w.sees(carol, e); may[i] != alone {
			t.Errorf("event %d (%s): %v in a batch, %v alone", i, e.Type(), may[i], alone)
		}
	}
}

// What arrives late, deep in the graph, while a client pages: the pages do not
// have it, but beside /sync it is neither lost nor told twice.
func TestPagesOfForks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.user("alice")
	r := w.forked(alice, visibleShared)
	base := w.say(r, alice, "base")
	for i := range 10 {
		w.say(r, alice, fmt.Sprint(i))
	}
	before := w.all(r)
	last := before[len(before)-1]
	synced := StreamToken(last.Pos)
	page := func(q Query) (p Page) {
		w.as(alice, func(v *Viewer) error {
			opened, err := v.Room(r.ID)
			if err == nil {
				p, err = v.Page(opened, q)
			}
			return err
		})
		return p
	}
	behind := TokenAfter(last)
	firsts := []Page{page(Query{Backwards: true, Limit: 3}), page(Query{From: &behind, Backwards: true, Limit: 3})}
	late := w.receive(r, "m.room.message", nil, hello, base)
	more := w.say(r, alice, "more")
	if late.Depth >= last.Depth {
		t.Fatalf("depth %d is not below %d", late.Depth, last.Depth)
	}
	for _, first := range firsts {
		rest, _ := w.pages(alice, r, Query{From: &first.End, Backwards: true, Limit: 4})
		if got := append(idsOf(first.Events), rest...); !slices.Equal(got, reversed(idsOf(before))) {
			t.Errorf("paging back: got %d events, want %d", len(got), len(before))
		}
	}
	news := []matrix.EventID{late.ID(), more.ID()}
	if got, _ := w.pages(alice, r, Query{From: &synced, Limit: 1}); !slices.Equal(got, news) {
		t.Errorf("after the sync: got %v, want %v", got, news)
	}
	now := StreamToken(more.Pos)
	if got, _ := w.pages(alice, r, Query{From: &now, To: &synced, Backwards: true, Limit: 1}); !slices.Equal(got, reversed(news)) {
		t.Errorf("back to the sync: got %v, want %v", got, news)
	}
	// A client that comes anew sees it in its place, once.
	all, _ := w.pages(alice, r, Query{Limit: 4})
	if !slices.Equal(all, idsOf(w.all(r))) || slices.Index(all, late.ID()) > slices.Index(all, last.ID()) {
		t.Errorf("got %d events in a wrong order", len(all))
	}
}
