package view

import (
	"crypto/ed25519"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"hearth/federation/room"
	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// world is a real store with rooms made the way the server makes them.
type world struct {
	tb    testing.TB
	store *storage.Store
	rooms *room.Rooms
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{tb: tb, store: storagetest.Open(tb)}
	signer := matrix.Signer{Server: storagetest.ServerName, KeyID: "ed25519:1", Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	w.rooms = room.New(w.store, func() matrix.Signer { return signer }, room.Options{}, zap.NewNop())
	return w
}

func (w *world) write(fn func(*storage.Tx) error) {
	w.tb.Helper()
	if err := w.rooms.Write(w.tb.Context(), "test", fn); err != nil {
		w.tb.Fatal(err)
	}
}

func (w *world) read(fn func(*storage.Rx) error) {
	w.tb.Helper()
	if err := w.store.Read(w.tb.Context(), "test", fn); err != nil {
		w.tb.Fatal(err)
	}
}

func (w *world) user(name string) User {
	w.tb.Helper()
	u := User{ID: matrix.UserID("@" + name + ":" + storagetest.ServerName)}
	w.write(func(tx *storage.Tx) (err error) {
		if u.Num, err = tx.AddUser(storage.User{Localpart: name}); err != nil {
			return err
		}
		u.Device, err = tx.AddDevice(u.Num, "PHONE", "")
		return err
	})
	return u
}

func (w *world) create(by User, visibility string) (r storage.Room) {
	w.tb.Helper()
	w.write(func(tx *storage.Tx) (err error) {
		r, err = w.rooms.Create(tx, room.Creation{Creator: by.ID, Preset: room.PresetPrivate, InitialState: []room.StateDraft{
			{Type: matrix.TypeHistoryVisibility, Content: jsontext.Value(fmt.Sprintf(`{"history_visibility":%q}`, visibility))},
			{Type: matrix.TypeJoinRules, Content: jsontext.Value(`{"join_rule":"knock"}`)},
		}})
		return err
	})
	return r
}

func (w *world) send(r storage.Room, d room.Draft) (e storage.Event) {
	w.tb.Helper()
	w.write(func(tx *storage.Tx) (err error) {
		e, err = w.rooms.Send(tx, r, d)
		return err
	})
	return w.event(e.ID())
}

func (w *world) say(r storage.Room, by User, body string) storage.Event {
	w.tb.Helper()
	return w.send(r, room.Draft{Type: "m.room.message", Sender: by.ID, Content: jsontext.Value(fmt.Sprintf(`{"body":%q,"msgtype":"m.text"}`, body))})
}

func (w *world) set(r storage.Room, by User, typ, key, content string) storage.Event {
	w.tb.Helper()
	return w.send(r, room.Draft{Type: typ, StateKey: &key, Sender: by.ID, Content: jsontext.Value(content)})
}

type change func(*room.Rooms, *storage.Tx, storage.Room, room.Act) error

// act changes a membership and returns the event that did.
func (w *world) act(do change, r storage.Room, by, whom User) (e storage.Event) {
	w.tb.Helper()
	w.write(func(tx *storage.Tx) (err error) {
		if err := do(w.rooms, tx, r, room.Act{Sender: by.ID, Target: whom.ID}); err != nil {
			return err
		}
		e, err = tx.CurrentState(r.Num, matrix.TypeMember, string(whom.ID))
		return err
	})
	return e
}

func (w *world) event(id matrix.EventID) (e storage.Event) {
	w.tb.Helper()
	w.read(func(rx *storage.Rx) (err error) {
		e, err = rx.Event(id)
		return err
	})
	return e
}

// all is the room's timeline, oldest first.
func (w *world) all(r storage.Room) (events []storage.Event) {
	w.tb.Helper()
	w.read(func(rx *storage.Rx) (err error) {
		events, _, err = rx.Timeline(r.Num, storage.Cursor{}, false, 100_000)
		return err
	})
	return events
}

// as runs fn with the eyes of a user.
func (w *world) as(u User, fn func(*Viewer) error) {
	w.tb.Helper()
	w.read(func(rx *storage.Rx) error { return fn(New(rx, u)) })
}

// sees tells whether the user sees the event, asked alone.
func (w *world) sees(u User, e storage.Event) (yes bool) {
	w.tb.Helper()
	w.as(u, func(v *Viewer) error {
		may, err := v.CanSee([]storage.Event{e})
		if err == nil {
			yes = may[0]
		}
		return err
	})
	return yes
}
