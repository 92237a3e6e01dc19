package storage

import (
	"time"

	"go.uber.org/zap"
)

// slowUnit is how long a unit may run before the log names it: everybody
// else's writes wait meanwhile.
const slowUnit = 200 * time.Millisecond

// Tx is one unit of the write transaction. It reads what it and the units
// before it wrote.
type Tx struct {
	*Rx
	hooks []func()
	news  []News
	moved bool
}

func (s *Store) newTx(c *conn) *Tx {
	tx := &Tx{Rx: s.newRx(c)}
	tx.pos = s.position.next
	return tx
}

// end makes the unit unusable and reports one that took long.
func (t *Tx) end(why string, took time.Duration) {
	t.over = true
	if took > slowUnit {
		t.store.log.Warn("a unit held up the writer", zap.String("why", why), zap.Duration("took", took))
	}
}

// NextPos takes the next position, for a row that clients sync. It is never
// handed out again, also where the unit or the COMMIT fails.
func (t *Tx) NextPos() int64 {
	t.store.position.next++
	t.pos = t.store.position.next
	t.moved = true
	return t.pos
}

// AfterCommit runs fn after COMMIT, in order of registration and before the
// position is published. fn does no I/O and must not call Write or Read, nor
// take a lock that is ever held across one. A panic in it ends the process.
func (t *Tx) AfterCommit(fn func()) { t.hooks = append(t.hooks, fn) }

// News wakes those who wait for n, once the position is published.
func (t *Tx) News(n News) { t.news = append(t.news, n) }
