package inbox

import (
	"cmp"
	"container/heap"
	"slices"

	"hearth/storage"
)

// Who makes room, when a limit would be exceeded:
//
// The victim is the oldest message of the heaviest user of the heaviest group
// of servers. Groups have equal shares of the limit, and users equal shares of
// their group's. Who is within its share loses nothing as long as anybody is
// over. Room is made down to 90 %, so that ranking an inbox of n messages is
// paid for by the next n/10.
//
// Names are free, and ten thousand of them would make an equal share less than
// one message. So the 64 groups that this server has known longest keep shares
// that others cannot thin out, all of them together less than half of the
// limit, and so do the 64 longest known users of each group. Later
// acquaintances lose before these do, and of equals the latest.
//
// Strangers, who share no room with the owner, go before all others: of them
// too first those that are over, then the later acquaintances. If nobody is met
// in any room, nobody is a stranger. The owner's own devices go after all
// others, as long as they hold at most half of the limit.
const (
	seniors     = 64
	seniorShare = 0.1 // of the whole for the first, 1/n of that for the nth; the sum of 64 is 0.474
	lowWater    = 0.9
	brimWater   = 0.99 // above this, one more ranking would not be worth its cost
)

// ranking chooses victims among the messages of one inbox. It is pure.
type ranking struct {
	rows    []storage.InboxRow // oldest first
	in      incoming           // who sends the message that needs room
	size    int64              // its bytes
	own     int64              // the owner as a sender; 0: has never sent
	strange map[int64]bool     // senders who share no room with the owner; nil: none
	gone    []bool             // per row: chosen
}

// victims returns the positions of all chosen rows, and their bytes.
func (r *ranking) victims() (positions []int64, bytes int64) {
	for i, gone := range r.gone {
		if gone {
			positions = append(positions, r.rows[i].Pos)
			bytes += r.rows[i].Bytes
		}
	}
	return positions, bytes
}

// party is one sender of the inbox under one measure.
type party struct {
	num    int64
	group  *group
	rows   []int // indices, oldest first
	weight int64
	over   bool // beyond its share
	above  bool // beyond an equal share
	junior bool // not among the longest known
}

// group is the senders of one group of servers.
type group struct {
	num    int64
	users  []*party
	weight int64
	queue  queue[*party] // of a drain
}

// choose marks rows until one more message, whose measure is extra, fits the
// limit. measure is what a row counts against it.
func (r *ranking) choose(limit int64, measure func(*storage.InboxRow) int64, extra int64) {
	d := drain{ranking: r, measure: measure, total: extra}
	groups, own := r.weigh(&d, extra)
	if d.total <= limit {
		return
	}
	low, brim, half := part(limit, lowWater), part(limit, brimWater), limit/2
	mine := []*group{own.group}
	if own.weight > half {
		d.run(max(low, d.total-(own.weight-half)), mine, everyone)
	}
	share(groups, float64(limit-min(own.weight, half)))
	if r.strange != nil {
		d.run(low, groups, func(u *party) bool { return r.strange[u.num] && u.over })
		d.run(low, groups, func(u *party) bool { return r.strange[u.num] && u.junior })
		d.run(low, groups, func(u *party) bool { return r.strange[u.num] })
	}
	d.run(low, groups, func(u *party) bool { return u.over })
	// From here on nobody is over who has anything left: the shares of the
	// longest known make more than a whole with the equal ones.
	if d.total > brim {
		d.run(low, groups, func(u *party) bool { return u.junior })
	}
	if d.total > limit {
		d.run(low, groups, func(u *party) bool { return u.above })
		d.run(limit, groups, everyone)
		d.run(limit, mine, everyone)
	}
}

func part(limit int64, of float64) int64 { return int64(float64(limit) * of) }

func everyone(*party) bool { return true }

// weigh sorts what is left of the inbox by group and user, with the owner
// apart, and counts the message that is to come as its sender's.
func (r *ranking) weigh(d *drain, extra int64) (groups []*group, own *party) {
	byNum := map[int64]*group{}
	parties := map[int64]*party{}
	own = &party{num: r.own, group: &group{}}
	own.group.users = []*party{own}
	if r.own != 0 {
		parties[r.own] = own
	}
	find := func(sender, grp int64) *party {
		u := parties[sender]
		if u != nil {
			return u
		}
		g := byNum[grp]
		if g == nil {
			g = &group{num: grp}
			byNum[grp] = g
			groups = append(groups, g)
		}
		u = &party{num: sender, group: g}
		g.users = append(g.users, u)
		parties[sender] = u
		return u
	}
	sender := find(r.in.sender, r.in.group)
	sender.weight += extra
	sender.group.weight += extra
	for i := range r.rows {
		if r.gone[i] {
			continue
		}
		row := &r.rows[i]
		u, w := find(row.Sender, row.Group), d.measure(row)
		u.rows = append(u.rows, i)
		u.weight += w
		u.group.weight += w
		d.total += w
	}
	return groups, own
}

// share decides who is over: a user beyond its share of a group beyond its own.
func share(groups []*group, whole float64) {
	byNum := func(a, b *group) int { return cmp.Compare(a.num, b.num) }
	slices.SortFunc(groups, byNum) // the longest known first
	for i, g := range groups {
		mine, equal := shareOf(whole, len(groups), i), whole/float64(len(groups))
		slices.SortFunc(g.users, func(a, b *party) int { return cmp.Compare(a.num, b.num) })
		for j, u := range g.users {
			u.over = float64(g.weight) > mine && float64(u.weight) > shareOf(mine, len(g.users), j)
			u.above = float64(g.weight) > equal && float64(u.weight) > equal/float64(len(g.users))
			u.junior = i >= seniors || j >= seniors
		}
	}
}

// shareOf is the share of the one of n that is known longest but for rank others.
func shareOf(whole float64, n, rank int) float64 {
	equal := whole / float64(n)
	if rank >= seniors {
		return equal
	}
	return max(equal, whole*seniorShare/float64(rank+1))
}

// drain takes rows away under one measure.
type drain struct {
	*ranking
	measure func(*storage.InboxRow) int64
	total   int64
}

// run chooses the oldest row of the heaviest eligible user of the heaviest
// group that has one, until the total is at most stop or nobody is left.
func (d *drain) run(stop int64, groups []*group, eligible func(*party) bool) {
	if d.total <= stop {
		return
	}
	var heaviest queue[*group]
	for _, g := range groups {
		g.queue = g.queue[:0]
		for _, u := range g.users {
			if len(u.rows) > 0 && eligible(u) {
				g.queue = append(g.queue, u)
			}
		}
		if len(g.queue) > 0 {
			heap.Init(&g.queue)
			heaviest = append(heaviest, g)
		}
	}
	heap.Init(&heaviest)
	for d.total > stop && len(heaviest) > 0 {
		g := heaviest[0]
		u := g.queue[0]
		w := d.measure(&d.rows[u.rows[0]])
		d.gone[u.rows[0]] = true
		u.rows = u.rows[1:]
		u.weight -= w
		g.weight -= w
		d.total -= w
		g.queue.settle(len(u.rows) == 0)
		heaviest.settle(len(g.queue) == 0)
	}
}

// weighty is what a queue orders: heaviest first, and of equals the one met last.
type weighty interface{ precedes() (weight, num int64) }

func (u *party) precedes() (weight, num int64) { return u.weight, u.num }
func (g *group) precedes() (weight, num int64) { return g.weight, g.num }

// queue is a heap with the heaviest on top.
type queue[T weighty] []T

func (q queue[T]) Len() int { return len(q) }
func (q queue[T]) Less(i, j int) bool {
	wi, ni := q[i].precedes()
	wj, nj := q[j].precedes()
	return wi > wj || wi == wj && ni > nj
}
func (q queue[T]) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements [heap.Interface].
func (q *queue[T]) Push(x any) { *q = append(*q, x.(T)) }

// Pop implements [heap.Interface].
func (q *queue[T]) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// settle puts the top in its place after it became lighter, or takes it off.
func (q *queue[T]) settle(done bool) {
	if done {
		heap.Pop(q)
		return
	}
	heap.Fix(q, 0)
}
