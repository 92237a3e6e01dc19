package room

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap/zaptest"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// The users of tests. The server of the first three is the store's.
const (
	alice matrix.UserID = "@alice:" + storagetest.ServerName
	bob   matrix.UserID = "@bob:" + storagetest.ServerName
	carol matrix.UserID = "@carol:" + storagetest.ServerName
)

// world is a store with Rooms and some local users.
type world struct {
	tb    testing.TB
	store *storage.Store
	rooms *Rooms
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{tb: tb, store: storagetest.Open(tb)}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	signer := matrix.Signer{Server: storagetest.ServerName, KeyID: "ed25519:test", Key: key}
	w.rooms = New(w.store, func() matrix.Signer { return signer }, Options{}, zaptest.NewLogger(tb))
	w.write(func(tx *storage.Tx) error {
		for _, u := range []matrix.UserID{alice, bob, carol} {
			if _, err := tx.AddUser(storage.User{Localpart: u.Localpart()}); err != nil {
				return err
			}
		}
		return nil
	})
	return w
}

// try runs a unit and returns its error.
func (w *world) try(fn func(*storage.Tx) error) error {
	w.tb.Helper()
	return w.rooms.Write(context.Background(), "test", fn)
}

func (w *world) write(fn func(*storage.Tx) error) {
	w.tb.Helper()
	if err := w.try(fn); err != nil {
		w.tb.Fatal(err)
	}
}

func (w *world) read(fn func(*storage.Rx) error) {
	w.tb.Helper()
	if err := w.store.Read(context.Background(), "test", fn); err != nil {
		w.tb.Fatal(err)
	}
}

// create makes a room or fails the test.
func (w *world) create(c Creation) (room storage.Room) {
	w.tb.Helper()
	w.write(func(tx *storage.Tx) (err error) {
		room, err = w.rooms.Create(tx, c)
		return err
	})
	return room
}

// send sends a draft and returns the event.
func (w *world) send(room storage.Room, d Draft) (ev storage.Event) {
	w.tb.Helper()
	ev, err := w.trySend(room, d)
	if err != nil {
		w.tb.Fatal(err)
	}
	return ev
}

func (w *world) trySend(room storage.Room, d Draft) (ev storage.Event, err error) {
	w.tb.Helper()
	err = w.try(func(tx *storage.Tx) (err error) {
		ev, err = w.rooms.Send(tx, room, d)
		return err
	})
	return ev, err
}

type act func(*Rooms, *storage.Tx, storage.Room, Act) error

// act does something to a membership.
func (w *world) act(do act, room storage.Room, a Act) error {
	w.tb.Helper()
	return w.try(func(tx *storage.Tx) error { return do(w.rooms, tx, room, a) })
}

func (w *world) mustAct(do act, room storage.Room, a Act) {
	w.tb.Helper()
	if err := w.act(do, room, a); err != nil {
		w.tb.Fatal(err)
	}
}

// state is an entry of the current state; nil: there is none.
func (w *world) state(room storage.Room, typ, key string) (ev *matrix.Event) {
	w.tb.Helper()
	w.read(func(rx *storage.Rx) error {
		v := w.rooms.current(rx, room.Num)
		ev = v.Event(typ, key)
		return v.err
	})
	return ev
}

func (w *world) membership(room storage.Room, u matrix.UserID) string {
	w.tb.Helper()
	if ev := w.state(room, matrix.TypeMember, string(u)); ev != nil {
		return ev.Membership()
	}
	return ""
}

// message is a draft of a message.
func message(from matrix.UserID, body string) Draft {
	return Draft{Type: "m.room.message", Sender: from, Content: content("msgtype", "m.text", "body", body)}
}

// setting is a draft of a state event.
func setting(from matrix.UserID, typ, key string, value jsontext.Value) Draft {
	return Draft{Type: typ, StateKey: &key, Sender: from, Content: value}
}
