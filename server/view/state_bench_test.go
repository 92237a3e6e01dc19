package view

import (
	"fmt"
	"testing"
	"time"

	"hearth/federation/room"
	"hearth/storage"
	"hearth/storage/matrix"
)

// BenchmarkMembers is the list of all members of a room in which people talked
// between the joins, so that each has a state of its own before it.
func BenchmarkMembers(b *testing.B) {
	w := newWorld(b)
	alice := w.user("alice")
	r := w.create(alice, visibleShared)
	w.set(r, alice, matrix.TypeJoinRules, "", `{"join_rule":"public"}`)
	w.write(func(tx *storage.Tx) error {
		for i := range 1000 {
			u := matrix.UserID(fmt.Sprintf("@u%d:%s", i, alice.ID.Server()))
			if err := w.rooms.Join(tx, r, room.Act{Sender: u, Target: u}); err != nil {
				return err
			}
			if _, err := w.rooms.Send(tx, r, room.Draft{Type: "m.room.message", Sender: u}); err != nil {
				return err
			}
		}
		return nil
	})
	for _, state := range []bool{true, false} {
		b.Run(fmt.Sprintf("state=%v", state), func(b *testing.B) { w.benchMembers(b, alice, r, state) })
	}
}

func (w *world) benchMembers(b *testing.B, alice User, r storage.Room, state bool) {
	for b.Loop() {
		w.as(alice, func(v *Viewer) error {
			opened, err := v.Room(r.ID)
			if err != nil {
				return err
			}
			nums, err := v.State(opened, matrix.TypeMember)
			if err != nil {
				return err
			}
			members, err := v.rx.EventsByNum(nums)
			if err != nil {
				return err
			}
			_, err = v.ClientEvents(members, Format{RoomID: true, State: state})
			return err
		})
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "µs/member")
}

// BenchmarkPage is one answer of /messages with 100 events.
func BenchmarkPage(b *testing.B) {
	w := newWorld(b)
	alice := w.user("alice")
	r := w.create(alice, visibleShared)
	w.write(func(tx *storage.Tx) error {
		for range 1000 {
			if _, err := w.rooms.Send(tx, r, room.Draft{Type: "m.room.message", Sender: alice.ID}); err != nil {
				return err
			}
		}
		return nil
	})
	var rows, page time.Duration
	for b.Loop() {
		w.as(alice, func(v *Viewer) error {
			began := time.Now()
			_, _, err := v.rx.Timeline(r.Num, storage.Cursor{}, true, 101)
			rows += time.Since(began)
			return err
		})
		w.as(alice, func(v *Viewer) error {
			began := time.Now()
			defer func() { page += time.Since(began) }()
			opened, err := v.Room(r.ID)
			if err != nil {
				return err
			}
			page, err := v.Page(opened, Query{Backwards: true, Limit: 100})
			if err != nil {
				return err
			}
			_, err = v.ClientEvents(page.Events, withAll)
			return err
		})
	}
	b.ReportMetric(float64(page.Microseconds())/float64(b.N)/1000, "page-ms")
	b.ReportMetric(page.Seconds()/rows.Seconds(), "ratio")
}
