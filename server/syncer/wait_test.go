package syncer

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hearth/federation/room"
	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/storagetest"
)

// poll waits for news in the background, up to a minute of the bubble's clock.
func (p *person) poll(filter string) <-chan told {
	done := make(chan told, 1)
	r := p.request(filter)
	waiting(&r)
	go func() {
		resp, err := p.w.syncer.Sync(p.w.t.Context(), r)
		if err != nil {
			p.w.t.Error(err)
			close(done)
			return
		}
		done <- p.read(resp)
	}()
	return done
}

// Everything that there is to tell of rooms ends a wait at once.
func TestRoomNewsEndWait(t *testing.T) {
	for what, do := range map[string]func(w *world, alice, bob *person, r storage.Room){
		"message":      func(_ *world, alice, _ *person, r storage.Room) { alice.say(r, "1") },
		"state":        func(_ *world, alice, _ *person, r storage.Room) { alice.set(r, "m.room.name", "", `{"name":"N"}`) },
		"kicked":       func(_ *world, alice, bob *person, r storage.Room) { alice.act(r, "kick", bob) },
		"invited":      func(_ *world, alice, bob *person, _ storage.Room) { alice.act(alice.public(), "invite", bob) },
		"joined":       func(_ *world, alice, bob *person, _ storage.Room) { bob.act(alice.public(), "join", nil) },
		"account data": func(w *world, _, bob *person, r storage.Room) { w.put(bob, storage.AccountData{Room: r.ID, Type: "x"}) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				alice, bob := w.person("alice"), w.person("bob")
				r := alice.public()
				bob.act(r, "join", nil)
				bob.sync("")
				began := time.Now()
				done := bob.poll("")
				synctest.Wait()
				do(w, alice, bob, r)
				got := <-done
				if took := time.Since(began); took != 0 {
					t.Errorf("it took %v", took)
				}
				if got.rooms() != 1 {
					t.Errorf("got %s", got.raw)
				}
			})
		})
	}
}

func (w *world) put(p *person, d storage.AccountData) {
	w.t.Helper()
	d.Content = []byte(`{}`)
	w.write(func(tx *storage.Tx) error {
		_, err := tx.SetAccountData(p.num, d, storage.AccountDataLimits{})
		return err
	})
}

// A waiting poll hears of the rooms that its filter lets through, and of no
// others.
func TestFollowsRooms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alice, bob := w.person("alice"), w.person("bob")
		r, hidden, left := alice.public(), alice.public(), alice.public()
		bob.act(hidden, "join", nil)
		bob.act(left, "join", nil)
		bob.act(left, "leave", nil)
		filter := fmt.Sprintf(`{"room":{"not_rooms":[%q]}}`, hidden.ID)
		bob.sync(filter)
		reads := w.reads()
		done := bob.poll(filter)
		synctest.Wait()
		alice.say(hidden, "1") // wakes nobody
		alice.say(left, "1")
		synctest.Wait()
		if n := w.reads() - reads; n != 2 { // one to answer, one to find the rooms
			t.Errorf("%d reads, want 2", n)
		}
		bob.act(hidden, "leave", nil) // wakes, and tells nothing
		synctest.Wait()
		bob.act(r, "join", nil)
		if got := <-done; len(got.Rooms.Join) != 1 {
			t.Errorf("got %s", got.raw)
		}
	})
}

// What happens in a room while a poll begins is in its snapshot, or wakes it.
// The bubble's clock turns a lost wake-up into an empty answer at once.
func TestNoLostRoomNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alice, bob := w.person("alice"), w.person("bob")
		r := alice.public()
		bob.act(r, "join", nil)
		bob.sync("")
		var spin atomic.Int64
		for i := range storagetest.Scale(300) {
			var wg sync.WaitGroup
			begun := make(chan struct{})
			wg.Go(func() {
				err := w.rooms.Write(t.Context(), "test", func(tx *storage.Tx) error {
					close(begun)
					_, err := w.rooms.Send(tx, r, room.Draft{Type: "x", Sender: alice.id})
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
			<-begun
			for range i % 64 * 1000 {
				spin.Add(1)
			}
			got := bob.sync("", waiting)
			wg.Wait()
			if n := len(got.Rooms.Join[r.ID].Timeline.Events); n != 1 {
				t.Fatalf("round %d: got %d events, want 1", i, n)
			}
		}
	})
}

func (w *world) reads() int64 { return w.store.Stats().Reads }

// News that the filter hides does not end a wait, and is read once: each wake
// looks only at what came since the one before.
func TestHiddenNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alice, bob := w.person("alice"), w.person("bob")
		r := alice.public()
		bob.act(r, "join", nil)
		bob.sync("")
		began := time.Now()
		const filter = `{"room":{"timeline":{"types":["x.rare"]}}}`
		done := bob.poll(filter)
		synctest.Wait()
		reads := w.reads()
		const n = 50
		for range n {
			w.write(func(tx *storage.Tx) error {
				for range 2 * maxScan / n {
					if _, err := w.rooms.Send(tx, r, room.Draft{Type: "x.often", Sender: alice.id}); err != nil {
						return err
					}
				}
				return nil
			})
			time.Sleep(time.Second / 10) // the bubble's clock
			synctest.Wait()
		}
		if got := w.reads() - reads; got != n { // whatever is in them
			t.Errorf("%d reads for %d commits", got, n)
		}
		got := <-done
		if took := time.Since(began); took != time.Minute || got.rooms() != 0 {
			t.Errorf("took %v, told %s", took, got.raw)
		}
		bob.since = got.Next
		only(t, bob.sync(""), 0, 0, 0, 0) // the position is behind what was hidden
	})
}

// A poll that finds nothing for it in a busy room reads less often, so that it
// costs those who send there little, and is still told soon of what it wants.
func TestHiddenNewsInABusyRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		alice, bob := w.person("alice"), w.person("bob")
		r := alice.public()
		bob.act(r, "join", nil)
		bob.sync("")
		done := bob.poll(`{"room":{"timeline":{"types":["x.rare"]}}}`)
		synctest.Wait()
		send := func(typ string) {
			w.write(func(tx *storage.Tx) error {
				_, err := w.rooms.Send(tx, r, room.Draft{Type: typ, Sender: alice.id})
				return err
			})
			synctest.Wait()
		}
		reads := w.reads()
		for range 50 { // all at one time
			send("x.often")
		}
		if got := w.reads() - reads; got > 5 {
			t.Errorf("%d reads of what comes at one time", got)
		}
		began := time.Now()
		send("x.rare")
		got := <-done
		if took := time.Since(began); took > time.Second/10 || got.rooms() != 1 {
			t.Errorf("took %v, told %s", took, got.raw)
		}
	})
}

// A response whose to-device part was cut tells nothing of rooms, and the
// events come with a later one.
func TestKeysBeforeEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	box := inbox.New(w.store, inbox.Options{SyncBatch: 2}, w.syncer.log)
	w.syncer = New(w.store, box, w.syncer.log, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	r := alice.public()
	bob.act(r, "join", nil)
	bob.sync("")
	for range 3 {
		w.write(func(tx *storage.Tx) error {
			return box.Enqueue(tx, alice.id, "x.key", inbox.Messages{bob.id: {"PHONE": []byte(`{}`)}})
		})
	}
	alice.say(r, "1")
	if got := bob.sync(""); got.rooms() != 0 || strings.Contains(got.raw, `"rooms"`) {
		t.Errorf("a cut response told %s", got.raw)
	}
	got := bob.sync("")
	want(t, "timeline", got.Rooms.Join[r.ID].timeline(), "message=1")
}

// A token that is not trusted starts anew: every room whole, and with a gap,
// as what the client has may be of another history.
func TestUntrustedToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.person("alice")
	r := alice.public()
	alice.sync("")
	tok, err := ParseToken(alice.since)
	if err != nil {
		t.Fatal(err)
	}
	tok.Epoch++
	alice.since = tok.String()
	got := alice.sync(`{"room":{"timeline":{"limit":50}}}`).Rooms.Join[r.ID]
	if !got.Timeline.Limited || len(got.Timeline.Events) != 6 {
		t.Errorf("got %+v", got)
	}
}

// A long answer goes through a file, whose place is free again afterwards, and
// the snapshot it was read from has ended before it is written.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice := w.person("alice")
	r := alice.public()
	const n = 600
	w.write(func(tx *storage.Tx) error {
		for i := range n {
			key := fmt.Sprint(i)
			content := fmt.Sprintf(`{"n":%d,"pad":%q}`, i+1, strings.Repeat("x", 2000))
			if _, err := w.rooms.Send(tx, r, room.Draft{Type: "x.big", StateKey: &key, Sender: alice.id, Content: []byte(content)}); err != nil {
				return err
			}
		}
		return nil
	})
	resp, err := w.syncer.Sync(t.Context(), alice.request(""))
	if err != nil {
		t.Fatal(err)
	}
	alice.say(r, "afterwards") // a snapshot that is still open would not mind, but the pool would
	got := alice.read(resp).Rooms.Join[r.ID]
	if len(got.State.Events)+len(got.Timeline.Events) != n+6 {
		t.Errorf("got %d events of state and %d of the timeline", len(got.State.Events), len(got.Timeline.Events))
	}
	left, err := os.ReadDir(w.temp)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
