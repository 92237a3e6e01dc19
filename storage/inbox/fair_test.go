package inbox

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// TestFairness checks what eviction promises, on random inboxes and without
// using its own arithmetic.
func TestFairness(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(10, 300).Draw(t, "limit")
		groups := rapid.Int64Range(1, 20).Draw(t, "groups")
		users := rapid.Int64Range(1, 20).Draw(t, "users")
		byBytes := rapid.Bool().Draw(t, "by bytes")
		measure := func(r *storage.InboxRow) int64 { return 1 }
		size := int64(1)
		if byBytes {
			measure = func(r *storage.InboxRow) int64 { return r.Bytes }
			size = rapid.Int64Range(1, limit).Draw(t, "size")
		}
		sender := func() (num, grp int64) {
			g := rapid.Int64Range(0, groups-1).Draw(t, "group")
			return 1 + g*100 + rapid.Int64Range(0, users-1).Draw(t, "user"), g
		}
		r := ranking{size: size}
		var total int64
		for total < limit+20 {
			row := storage.InboxRow{Pos: int64(len(r.rows) + 1), Bytes: rapid.Int64Range(1, 1+limit/10).Draw(t, "bytes")}
			row.Sender, row.Group = sender()
			if total += measure(&row); total > limit {
				break
			}
			r.rows = append(r.rows, row)
		}
		r.in.sender, r.in.group = sender()
		if rapid.Bool().Draw(t, "has own") {
			r.own = r.in.sender
			if len(r.rows) > 0 {
				r.own = rapid.SampledFrom(r.rows).Draw(t, "own").Sender
			}
		}
		r.gone = make([]bool, len(r.rows))
		r.choose(limit, measure, size)
		judge(t, &r, limit, measure, size)
	})
}

// judge fails where somebody lost what fairness grants, or not enough was freed.
func judge(t *rapid.T, r *ranking, limit int64, measure func(*storage.InboxRow) int64, size int64) {
	weight, group := map[int64]int64{r.in.sender: size}, map[int64]int64{}
	GroupOf, users := map[int64]int64{r.in.sender: r.in.group}, map[int64]map[int64]bool{}
	lost, kept := map[int64]bool{}, size
	total := size
	for i := range r.rows {
		row := &r.rows[i]
		total += measure(row)
		weight[row.Sender] += measure(row)
		GroupOf[row.Sender] = row.Group
		switch {
		case r.gone[i]:
			lost[row.Sender] = true
		default:
			kept += measure(row)
		}
	}
	for u, w := range weight {
		if u == r.own {
			continue
		}
		g := GroupOf[u]
		group[g] += w
		if users[g] == nil {
			users[g] = map[int64]bool{}
		}
		users[g][u] = true
	}
	if kept > limit {
		t.Fatalf("%d of %d are kept", kept, limit)
	}
	if total <= limit && len(lost) > 0 {
		t.Fatal("there was room, but somebody lost")
	}
	own := min(weight[r.own], limit/2)
	share := float64(limit-own) / float64(len(group))
	if mine := share / float64(len(users[r.in.group])); r.in.sender != r.own && float64(size) > mine ||
		r.in.sender == r.own && size > limit/2 {
		return // one message larger than a share must displace somebody
	}
	for u := range lost {
		if u == r.own {
			if weight[u] <= limit/2 && kept > size+weight[u] {
				t.Fatal("the owner lost while others were left")
			}
			continue
		}
		g := GroupOf[u]
		if float64(group[g]) <= share {
			t.Fatalf("group %d lost with %d of a share of %g", g, group[g], share)
		}
		if mine := share / float64(len(users[g])); float64(weight[u]) <= mine {
			t.Fatalf("user %d lost with %d of a share of %g", u, weight[u], mine)
		}
	}
	oldest(t, r)
}

// oldest checks that of each sender the oldest messages went.
func oldest(t *rapid.T, r *ranking) {
	kept := map[int64]bool{}
	for i, row := range r.rows {
		if !r.gone[i] {
			kept[row.Sender] = true
		} else if kept[row.Sender] {
			t.Fatalf("user %d lost a newer message before an older one", row.Sender)
		}
	}
}

func inboxOf(senders ...storage.InboxRow) (r ranking) {
	r.rows = senders
	for i := range r.rows {
		r.rows[i].Pos, r.rows[i].Bytes = int64(i+1), 1
	}
	r.gone = make([]bool, len(r.rows))
	return r
}

func one(*storage.InboxRow) int64 { return 1 }

func TestTheHeaviestUserOfTheHeaviestGroupGoesFirst(t *testing.T) {
	t.Parallel()
	a, b, c, d := storage.InboxRow{Sender: 1, Group: 1}, storage.InboxRow{Sender: 2, Group: 1},
		storage.InboxRow{Sender: 3, Group: 2}, storage.InboxRow{Sender: 4, Group: 2}
	r := inboxOf(d, a, b, b, c, c, d, b, a, d)
	r.in = incoming{sender: 4, group: 2}
	r.choose(10, one, 1)
	// Group 2 has six with the one to come, of which user 4 has four.
	if pos, _ := r.victims(); len(pos) != 2 || pos[0] != 1 || pos[1] != 7 {
		t.Errorf("got %v, want the two oldest of user 4", pos)
	}
}

func TestStrangersGoFirst(t *testing.T) {
	t.Parallel()
	heavy, strange := storage.InboxRow{Sender: 1, Group: 1}, storage.InboxRow{Sender: 2, Group: 2}
	r := inboxOf(heavy, heavy, heavy, heavy, heavy, heavy, heavy, heavy, strange, heavy)
	r.in = incoming{sender: 1, group: 1}
	r.strange = map[int64]bool{2: true}
	r.choose(10, one, 1)
	if !r.gone[8] {
		t.Errorf("got %v, want the stranger among the victims", r.gone)
	}
}

func TestOfEqualsTheLatestAcquaintanceGoes(t *testing.T) {
	t.Parallel()
	var rows []storage.InboxRow
	for i := range int64(200) {
		rows = append(rows, storage.InboxRow{Sender: 1 + i, Group: 200 - i}) // the oldest message is of the latest group
	}
	r := inboxOf(rows...)
	r.in = incoming{sender: 300, group: 300}
	r.choose(200, one, 1)
	for i, row := range r.rows {
		if want := row.Group > 179; r.gone[i] != want {
			t.Fatalf("group %d: gone %v, want %v", row.Group, r.gone[i], want)
		}
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	for server, want := range map[matrix.ServerName]string{
		"hearth.test":               "",
		"other.test":                "other.test",
		"a.b.other.test:8448":       "other.test",
		"MATRIX.Example.CO.UK":      "example.co.uk",
		"example.co.uk.":            "example.co.uk",
		"co.uk":                     "co.uk",
		"me.github.io":              "me.github.io",
		"localhost:8008":            "localhost",
		"10.1.2.3:8448":             "10.1.2.0/24",
		"10.1.2.200":                "10.1.2.0/24",
		"[2001:db8:1:2::3]:8448":    "2001:db8:1::/48",
		"[2001:db8:1:ffff::]":       "2001:db8:1::/48",
		"[::ffff:10.1.2.3]:8448":    "10.1.2.0/24",
		"xn--bcher-kva.example.org": "example.org",
	} {
		if got := GroupOf(server, ours); got != want {
			t.Errorf("%s: got %q, want %q", server, got, want)
		}
	}
}

// TestFloods lets 1,200 messages loose on an inbox for 600 that holds the keys
// of 50 quiet senders; from HEARTH_TEST_SCALE=10 on 200,000, with the usual
// limits. None of the keys may be lost.
func TestFloods(t *testing.T) {
	t.Parallel()
	remote := func(name, server string) matrix.UserID { return matrix.UserID("@" + name + ":" + server) }
	sameServer := func(i int) matrix.UserID { return remote(fmt.Sprint("quiet", i), "honest.org") }
	manyServers := func(i int) matrix.UserID { return remote("quiet", fmt.Sprintf("honest%d.org", i)) }
	local := func(i int) matrix.UserID { return user(fmt.Sprint("quiet", i)) }
	for name, flood := range map[string]struct {
		quiet, loud func(i int) matrix.UserID
	}{
		"one local user":         {sameServer, func(int) matrix.UserID { return user("loud") }},
		"one local user beside":  {local, func(int) matrix.UserID { return user("loud") }},
		"the owner":              {local, func(int) matrix.UserID { return user("owner") }},
		"one server":             {manyServers, func(i int) matrix.UserID { return remote(fmt.Sprint("u", i%1000), "evil.org") }},
		"the same server":        {sameServer, func(i int) matrix.UserID { return remote(fmt.Sprint("u", i%1000), "honest.org") }},
		"names on that server":   {sameServer, func(i int) matrix.UserID { return remote(fmt.Sprint("u", i), "honest.org") }},
		"10,000 subdomains":      {sameServer, func(i int) matrix.UserID { return remote("u", fmt.Sprintf("s%d.evil.org", i%10_000)) }},
		"10,000 domains":         {sameServer, func(i int) matrix.UserID { return remote("u", fmt.Sprintf("evil%d.org", i%10_000)) }},
		"10,000 domains on many": {manyServers, func(i int) matrix.UserID { return remote("u", fmt.Sprintf("evil%d.org", i%10_000)) }},
		"10,000 domains on ours": {local, func(i int) matrix.UserID { return remote("u", fmt.Sprintf("evil%d.org", i%10_000)) }},
		"1,000 local accounts":   {local, func(i int) matrix.UserID { return user(fmt.Sprint("loud", i%1000)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opt, messages, keys := Options{MaxMessages: 600, MaxBytes: 75_000}, 1200, 1
			if storagetest.Scale(1) >= 10 {
				opt, messages, keys = Options{}, 200_000, 3
			}
			drown(t, newWorld(t, opt), messages, keys, flood.quiet, flood.loud)
		})
	}
}

func drown(t *testing.T, w *world, messages, keys int, quiet, loud func(int) matrix.UserID) {
	t.Helper()
	_, devices := w.register("owner", "D")
	want := map[string]bool{}
	w.batch(devices[0], 0) // the mirror follows from here on
	send := func(n int, from func(int) matrix.UserID, content func(int) string) {
		for i := 0; i < n; {
			w.write(func(tx *storage.Tx) error {
				for end := min(i+500, n); i < end; i++ {
					if err := w.inbox.Enqueue(tx, from(i), "m.room.encrypted", to("owner", "D", content(i))); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	send(50*keys, func(i int) matrix.UserID { return quiet(i % 50) }, func(i int) string {
		key := fmt.Sprintf(`{"key":%d}`, i)
		want[key] = true
		return key
	})
	send(messages, loud, func(i int) string { return fmt.Sprintf(`{"noise":%d}`, i) })

	got, _ := w.all(devices[0], 0)
	for _, m := range got {
		delete(want, string(m.Content))
	}
	if len(want) > 0 {
		t.Errorf("%d of %d keys were lost", len(want), 50*keys)
	}
	stats := w.inbox.Stats()
	if kept := int64(len(got)); kept+stats.Evicted != int64(messages+50*keys) {
		t.Errorf("%d kept and %d evicted of %d", kept, stats.Evicted, messages+50*keys)
	}
	if n := w.inbox.opt.MaxMessages; len(got) > n || len(got) < n*8/10 && w.inbox.opt.MaxBytes > 1<<20 {
		t.Errorf("%d messages wait, the limit is %d", len(got), n)
	}
	w.must(w.inbox.Check(t.Context()))
}
