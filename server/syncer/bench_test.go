package syncer

import (
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	"hearth/federation/room"
	"hearth/storage"
	"hearth/storage/matrix"
)

// manyRooms makes n public rooms of p's.
func (p *person) manyRooms(n int) []storage.Room {
	p.w.t.Helper()
	rooms := make([]storage.Room, n)
	for done := 0; done < n; {
		p.w.write(func(tx *storage.Tx) (err error) {
			for end := min(done+50, n); done < end; done++ {
				if rooms[done], err = p.w.rooms.Create(tx, room.Creation{Creator: p.id, Preset: room.PresetPublic, Name: fmt.Sprint(done)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return rooms
}

// bigRoom makes a room with n members.
func (p *person) bigRoom(n int) storage.Room {
	p.w.t.Helper()
	r := p.public()
	for done := 1; done < n; {
		p.w.write(func(tx *storage.Tx) error {
			for end := min(done+200, n); done < end; done++ {
				who := matrix.UserID(fmt.Sprintf("@member%d:test", done))
				err := p.w.rooms.Join(tx, r, room.Act{Sender: who, Content: []byte(fmt.Sprintf(`{"displayname":"Member %d"}`, done))})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return r
}

func (p *person) mustSync(r Request) (next string, size int64) {
	p.w.t.Helper()
	resp, err := p.w.syncer.Sync(p.w.t.Context(), r)
	if err != nil {
		p.w.t.Fatal(err)
	}
	var n counter
	if err := resp.WriteJSON(&n); err != nil {
		p.w.t.Fatal(err)
	}
	if err := resp.Close(); err != nil {
		p.w.t.Fatal(err)
	}
	return resp.Next().String(), int64(n)
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

var _ io.Writer = (*counter)(nil)

// pace measures what is done in turns on several worlds, so that all see the
// same weather, and tells what the last costs as a ratio of the first.
type pace struct{ took []time.Duration }

func (p *pace) do(i int, fn func()) {
	for len(p.took) <= i {
		p.took = append(p.took, 0)
	}
	began := time.Now()
	fn()
	p.took[i] += time.Since(began)
}

func (p *pace) report(b *testing.B, what string) {
	b.Helper()
	first, last := p.took[0].Seconds(), p.took[len(p.took)-1].Seconds()
	b.ReportMetric(last*1000/float64(b.N), what+"-ms")
	b.ReportMetric(last/first, what+"-ratio")
}

// BenchmarkNext is an incremental sync that tells one message, of a user who is
// in 500 rooms, against one who is in 10.
func BenchmarkNext(b *testing.B) {
	var users []*person
	for _, rooms := range []int{10, 500} {
		alice := newWorld(b).person("alice")
		r := alice.manyRooms(rooms)[rooms/2]
		since, _ := alice.mustSync(alice.request(""))
		alice.say(r, "one")
		alice.since = since
		users = append(users, alice)
	}
	var next pace
	for b.Loop() {
		for i, alice := range users {
			next.do(i, func() { alice.mustSync(alice.request("")) })
		}
	}
	next.report(b, "sync")
}

// BenchmarkFirst is a first sync of 500 rooms, against ten of 50.
func BenchmarkFirst(b *testing.B) {
	few, many := newWorld(b).person("alice"), newWorld(b).person("alice")
	few.manyRooms(50)
	many.manyRooms(500)
	var size int64
	var first pace
	for b.Loop() {
		first.do(0, func() {
			for range 10 {
				few.mustSync(few.request(""))
			}
		})
		first.do(1, func() { _, size = many.mustSync(many.request("")) })
	}
	first.report(b, "sync")
	b.ReportMetric(float64(size), "bytes")
}

// BenchmarkCrowd is what a member does in a room of 10,000, against one of 100:
// say something, enter, and be told of both by a sync.
func BenchmarkCrowd(b *testing.B) {
	type crowd struct {
		alice *person
		room  storage.Room
	}
	var crowds []crowd
	for _, members := range []int{100, 10_000} {
		alice := newWorld(b).person("alice")
		crowds = append(crowds, crowd{alice, alice.bigRoom(members)})
		alice.since, _ = alice.mustSync(alice.request(""))
	}
	var send, join, sync pace
	for n := 0; b.Loop(); n++ {
		for i, c := range crowds {
			send.do(i, func() { c.alice.say(c.room, "x") })
			join.do(i, func() {
				who := matrix.UserID(fmt.Sprintf("@new%d:test", n))
				c.alice.w.write(func(tx *storage.Tx) error {
					return c.alice.w.rooms.Join(tx, c.room, room.Act{Sender: who})
				})
			})
			sync.do(i, func() { c.alice.since, _ = c.alice.mustSync(c.alice.request("")) })
		}
	}
	send.report(b, "send")
	join.report(b, "join")
	sync.report(b, "sync")
}

// BenchmarkBigRoom is a first sync of a room with 10,000 members, with all of
// them and with lazy loading, and what it holds in memory at the end.
func BenchmarkBigRoom(b *testing.B) {
	w := newWorld(b)
	alice := w.person("alice")
	alice.bigRoom(10_000)
	for what, filter := range map[string]string{"all": "", "lazy": `{"room":{"state":{"lazy_load_members":true}}}`} {
		b.Run(what, func(b *testing.B) {
			var size, held int64
			var before, after runtime.MemStats
			for b.Loop() {
				runtime.GC()
				runtime.ReadMemStats(&before)
				resp, err := w.syncer.Sync(b.Context(), alice.request(filter))
				if err != nil {
					b.Fatal(err)
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				held = max(held, int64(after.HeapAlloc)-int64(before.HeapAlloc))
				var n counter
				if err := resp.WriteJSON(&n); err != nil {
					b.Fatal(err)
				}
				size = int64(n)
				_ = resp.Close()
			}
			b.ReportMetric(float64(size), "bytes")
			b.ReportMetric(float64(held), "held-bytes")
		})
	}
}

// BenchmarkWake is one message in a room whose 1,000 members all wait: until
// each of them has its answer, and until each has looked and waits on because
// its filter hides the message.
func BenchmarkWake(b *testing.B) {
	const members = 1000
	for what, filter := range map[string]string{"told": "", "hidden": `{"room":{"timeline":{"types":["x.rare"]}}}`} {
		b.Run(what, func(b *testing.B) {
			w := newWorld(b)
			alice := w.person("alice")
			r := alice.public()
			polls := make([]*person, members)
			for i := range polls {
				polls[i] = w.person(fmt.Sprint("m", i))
				polls[i].act(r, "join", nil)
			}
			for _, p := range polls {
				p.since, _ = p.mustSync(p.request(""))
			}
			for b.Loop() {
				b.StopTimer()
				var wg sync.WaitGroup
				closing := make(chan struct{})
				for _, p := range polls {
					wg.Go(func() {
						q := p.request(filter)
						q.Timeout, q.Closing = time.Minute, closing
						p.since, _ = p.mustSync(q)
					})
				}
				for w.syncer.polls.count() < members {
					runtime.Gosched()
				}
				reads := w.reads()
				b.StartTimer()
				alice.say(r, "x")
				if filter != "" {
					for w.reads() < reads+members {
						runtime.Gosched()
					}
					close(closing)
				}
				wg.Wait()
			}
		})
	}
}

func (p *polls) count() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range p.waiting {
		n += len(list)
	}
	return n
}
