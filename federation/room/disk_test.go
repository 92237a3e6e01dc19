package room

import (
	"crypto/ed25519"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// TestDisk fills a room and looks at what it takes, by table, and at what is
// left when states nobody needs are collected, and the room is purged. At
// HEARTH_TEST_SCALE=50 it is 100,000 messages and 2,000 membership changes in a
// room of 1,000 members.
func TestDisk(t *testing.T) {
	t.Parallel()
	messages, changes := min(100_000, storagetest.Scale(2000)), min(2000, storagetest.Scale(200))
	members := changes / 2
	d := newDisk(t)
	empty := d.used()

	room := d.w.create(Creation{Creator: alice, Preset: "public_chat"})
	user := func(n int) matrix.UserID {
		return matrix.UserID(fmt.Sprintf("@member%d:%s", n%members, storagetest.ServerName))
	}
	d.each(members, func(tx *storage.Tx, n int) error {
		return d.w.rooms.Join(tx, room, Act{Sender: user(n)})
	})
	before := storagetest.Sizes(t, d.dir)
	d.each(changes, func(tx *storage.Tx, n int) error {
		if n%2 == 0 {
			return d.w.rooms.Leave(tx, room, Act{Sender: user(n / 2 * 7)})
		}
		return d.w.rooms.Join(tx, room, Act{Sender: user(n / 2 * 7)})
	})
	after := storagetest.Sizes(t, d.dir)
	stateOf := func(m map[string]int64) int64 {
		return m["state_snapshots"] + m["state_same"] + m["state_children"] + m["state_loose"]
	}
	each := (stateOf(after) - stateOf(before)) / int64(changes)
	t.Logf("%d members, %d changes of membership: snapshots take %d bytes, %d for each change; a copy of the members for each would take %d",
		members, changes, stateOf(after), each, 5*members)
	if each > 150 {
		t.Errorf("the snapshot of a change takes %d bytes", each)
	}

	body := strings.Repeat("x", 100)
	d.each(messages, func(tx *storage.Tx, n int) error {
		_, err := d.w.rooms.Send(tx, room, message(alice, body))
		return err
	})
	full := storagetest.Sizes(t, d.dir)
	if stateOf(full) > stateOf(after)+4096 {
		t.Errorf("messages made the snapshots grow by %d bytes", stateOf(full)-stateOf(after))
	}
	d.report(room, full, messages, members+changes+messages)

	d.collects(room, stateOf)
	d.purges(room, empty)
}

// disk is a world of which the directory is known.
type disk struct {
	t   *testing.T
	dir string
	w   *world
}

func newDisk(t *testing.T) *disk {
	d := &disk{t: t, dir: t.TempDir()}
	d.open()
	return d
}

func (d *disk) open() {
	signer := matrix.Signer{Server: storagetest.ServerName, KeyID: "ed25519:test", Key: ed25519.NewKeyFromSeed(make([]byte, 32))}
	store := storagetest.OpenDir(d.t, d.dir)
	d.w = &world{tb: d.t, store: store, rooms: New(store, func() matrix.Signer { return signer }, Options{}, zaptest.NewLogger(d.t))}
}

// each runs fn n times, many to a unit.
func (d *disk) each(n int, fn func(*storage.Tx, int) error) {
	d.t.Helper()
	for i := 0; i < n; {
		d.w.write(func(tx *storage.Tx) error {
			for range min(200, n-i) {
				if err := fn(tx, i); err != nil {
					return err
				}
				i++
			}
			return nil
		})
	}
}

// used is how many bytes of the file are.
func (d *disk) used() (n int64) {
	for name, bytes := range storagetest.Sizes(d.t, d.dir) {
		if name != "" {
			n += bytes
		}
	}
	return n
}

// file is the size of the file when no log is beside it.
func (d *disk) file() int64 {
	d.t.Helper()
	if err := d.w.store.Close(); err != nil {
		d.t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(d.dir, storage.FileName))
	if err != nil {
		d.t.Fatal(err)
	}
	d.open()
	return info.Size()
}

func (d *disk) report(room storage.Room, sizes map[string]int64, messages, events int) {
	total := int64(0)
	var lines []string
	for _, name := range slices.SortedFunc(maps.Keys(sizes), func(a, b string) int { return int(sizes[b] - sizes[a]) }) {
		total += sizes[name]
		if n := sizes[name] / int64(events); n > 2 {
			lines = append(lines, fmt.Sprintf("%s %d", name, n))
		}
	}
	var length int
	d.w.read(func(rx *storage.Rx) error {
		last, _, err := rx.Timeline(room.Num, storage.Cursor{}, true, 1)
		for _, ev := range last {
			length = len(ev.JSON())
		}
		return err
	})
	d.t.Logf("%d events, %d of them messages of %d bytes of JSON: %d bytes an event in all: %s",
		events, messages, length, total/int64(events), strings.Join(lines, ", "))
}

// collects makes states that nothing refers to, and has them collected.
func (d *disk) collects(room storage.Room, stateOf func(map[string]int64) int64) {
	d.t.Helper()
	before, r := stateOf(storagetest.Sizes(d.t, d.dir)), rand.New(rand.NewPCG(1, 2))
	d.each(300, func(tx *storage.Tx, _ int) error {
		now, err := tx.RoomByNum(room.Num)
		if err != nil {
			return err
		}
		all, err := tx.State(now.State)
		if err != nil {
			return err
		}
		half := slices.DeleteFunc(all, func(e storage.StateKeyed) bool { return r.IntN(2) == 0 })
		_, err = tx.StoreState(room.Num, []storage.StateNum{now.State}, half)
		return err
	})
	grown := stateOf(storagetest.Sizes(d.t, d.dir))
	for more := true; more; {
		d.w.write(func(tx *storage.Tx) error {
			n, err := tx.CollectState(math.MaxInt64, 100)
			more = n == 100
			return err
		})
	}
	after := stateOf(storagetest.Sizes(d.t, d.dir))
	d.t.Logf("snapshots took %d bytes, with 300 states of half the members that nothing refers to %d, and after collection %d", before, grown, after)
	if grown < before+before/10 || after > before+8192 {
		d.t.Errorf("collection leaves %d bytes of %d; before there were %d", after, grown, before)
	}
}

// purges deletes the room and expects the file to be as if it had never been.
func (d *disk) purges(room storage.Room, empty int64) {
	d.t.Helper()
	full := d.file()
	d.w.write(func(tx *storage.Tx) error { return tx.PurgeRoom(room.Num) })
	for range 2 { // keys of states go after what names them
		if err := d.w.store.SweepNow(d.t.Context()); err != nil {
			d.t.Fatal(err)
		}
	}
	left := d.file()
	d.t.Logf("the file had %d bytes; after the purge it has %d, of which %d are used; at the beginning there were %d", full, left, d.used(), empty)
	if used := d.used(); used > empty+64<<10 {
		d.t.Errorf("%d bytes are used after the purge, %d were before the room", used, empty)
		for name, bytes := range storagetest.Sizes(d.t, d.dir) {
			if bytes > 8192 {
				d.t.Logf("%s: %d bytes", name, bytes)
			}
		}
	}
	if full > 16<<20 && left > full/3 {
		d.t.Errorf("the file keeps %d of %d bytes", left, full)
	}
}
