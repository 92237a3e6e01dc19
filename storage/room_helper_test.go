package storage_test

import (
	"crypto/ed25519"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// roomTest writes events into one room the way federation/room does, without
// its rules.
type roomTest struct {
	testing.TB
	s      *storage.Store
	num    storage.RoomNum
	id     matrix.RoomID
	v      *matrix.Version
	signer matrix.Signer
	ts     int64
}

const (
	alice = matrix.UserID("@alice:test.example")
	bob   = matrix.UserID("@bob:test.example")
	carol = matrix.UserID("@carol:remote.example")
)

// newRoomTest makes a room in which alice is joined.
func newRoomTest(t testing.TB, s *storage.Store, version matrix.RoomVersion) *roomTest {
	t.Helper()
	v, ok := matrix.VersionOf(version)
	if !ok {
		t.Fatalf("room version %s is not known", version)
	}
	r := &roomTest{TB: t, s: s, v: v, ts: 1_700_000_000_000, signer: matrix.Signer{
		Server: storagetest.ServerName, KeyID: "ed25519:1", Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)),
	}}
	key := ""
	r.id = matrix.RoomID(fmt.Sprintf("!room%d:test.example", s.Pos()))
	create := r.build(matrix.Template{Type: matrix.TypeCreate, StateKey: &key, Sender: alice, Content: jsontext.Value(fmt.Sprintf(`{"n":%d}`, s.Pos())), Depth: 1})
	r.id = create.RoomID()
	within(t, s, func(tx *storage.Tx) error {
		room, err := tx.AddRoom(r.id, v)
		if err != nil {
			return err
		}
		r.num = room.Num
		_, err = r.append(tx, create, nil, 0, storage.NewEvent{Place: storage.Live})
		return err
	})
	r.member(alice, alice, "join")
	return r
}

func (r *roomTest) build(tp matrix.Template) *matrix.Event {
	r.Helper()
	tp.RoomID = r.id
	if tp.OriginServerTS == 0 {
		r.ts++
		tp.OriginServerTS = r.ts
	}
	if r.v.IDFormat == matrix.IDServer {
		tp.EventID = matrix.EventID(fmt.Sprintf("$%d:test.example", r.ts))
	}
	e, err := matrix.Build(r.v, tp, r.signer)
	if err != nil {
		r.Fatal(err)
	}
	return e
}

// draft makes an event after some parents.
func (r *roomTest) draft(typ string, key *string, sender matrix.UserID, content string, parents []storage.Event) *matrix.Event {
	r.Helper()
	tp := matrix.Template{Type: typ, StateKey: key, Sender: sender, Content: jsontext.Value(content), Hashes: map[matrix.EventID][32]byte{}}
	for _, p := range parents {
		tp.PrevEvents = append(tp.PrevEvents, p.ID())
		tp.Hashes[p.ID()] = [32]byte{}
		tp.Depth = max(tp.Depth, p.Depth+1)
	}
	return r.build(tp)
}

// append stores an event after its parents, which share the state before, and
// moves extremities and state.
func (r *roomTest) append(tx *storage.Tx, e *matrix.Event, parents []storage.Event, before storage.StateNum, n storage.NewEvent) (storage.Event, error) {
	room, err := tx.RoomByNum(r.num)
	if err != nil {
		return storage.Event{}, err
	}
	n.Event, n.Depth, n.Generation, n.StateBefore = e, 1, int64(len(e.AuthEvents())+1), before
	for _, p := range parents {
		n.Depth = max(n.Depth, p.Depth+1)
	}
	stored, err := tx.AddEvent(room, n)
	if err != nil || n.Place == storage.Untold {
		return stored, err
	}
	ends := []storage.EventNum{stored.Num}
	have, err := tx.Extremities(r.num)
	if err != nil {
		return stored, err
	}
	for _, x := range have {
		if told, err := tx.HasToldChild(x.Num); err != nil {
			return stored, err
		} else if !told {
			ends = append(ends, x.Num)
		}
	}
	if err := tx.SetExtremities(r.num, ends); err != nil {
		return stored, err
	}
	key, isState := e.StateKey()
	if !isState {
		return stored, nil
	}
	next, err := tx.ChildState(r.num, room.State, []storage.StateKeyed{{Type: e.Type(), StateKey: key, Event: stored.Num}})
	if err == nil {
		_, err = tx.SetCurrentState(room, next, stored.Pos)
	}
	return stored, err
}

// send appends an event at the extremities.
func (r *roomTest) send(typ string, key *string, sender matrix.UserID, content string) (stored storage.Event) {
	r.Helper()
	within(r.TB, r.s, func(tx *storage.Tx) (err error) {
		stored, err = r.sendIn(tx, typ, key, sender, content)
		return err
	})
	return stored
}

func (r *roomTest) sendIn(tx *storage.Tx, typ string, key *string, sender matrix.UserID, content string) (storage.Event, error) {
	room, err := tx.RoomByNum(r.num)
	if err != nil {
		return storage.Event{}, err
	}
	parents, err := tx.Extremities(r.num)
	if err != nil {
		return storage.Event{}, err
	}
	return r.append(tx, r.draft(typ, key, sender, content, parents), parents, room.State, storage.NewEvent{Place: storage.Live})
}

func (r *roomTest) member(sender, user matrix.UserID, membership string) storage.Event {
	r.Helper()
	key := string(user)
	return r.send(matrix.TypeMember, &key, sender, fmt.Sprintf(`{"membership":%q}`, membership))
}

func (r *roomTest) message(sender matrix.UserID, text string) storage.Event {
	r.Helper()
	return r.send("m.room.message", nil, sender, fmt.Sprintf(`{"body":%q,"msgtype":"m.text"}`, text))
}

func (r *roomTest) state(typ, key, content string) storage.Event {
	r.Helper()
	return r.send(typ, &key, alice, content)
}

// read runs fn on a snapshot.
func (r *roomTest) read(fn func(*storage.Rx) error) {
	r.Helper()
	reading(r.TB, r.s, fn)
}

func reading(t testing.TB, s *storage.Store, fn func(*storage.Rx) error) {
	t.Helper()
	if err := s.Read(t.Context(), "test", fn); err != nil {
		t.Fatal(err)
	}
}

// must is a value that was read without an error.
func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
