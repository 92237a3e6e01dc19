package inbox

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"hearth/storage"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

// TestModel runs random operations against inboxes and against a model that
// holds them as plain slices, with restarts between.
func TestModel(t *testing.T) {
	t.Parallel()
	// One store for all sequences: each makes users of its own. The mirror is
	// so small that it keeps forgetting.
	w := newWorld(t, Options{SyncBatch: 3, BatchBytes: 400, MirrorBytes: 4000})
	sequence := 0
	for range storagetest.Scale(10) {
		rapid.Check(t, func(t *rapid.T) {
			sequence++
			w.t = t
			m := &model{world: w, name: fmt.Sprint("s", sequence), next: 1}
			m.begin(t)
			ops := []func(*rapid.T){
				m.send, m.send, m.send, m.send, m.receive, m.receive, m.fail, m.fail, m.sync, m.sync, m.sync, m.sync,
				m.sync, m.sync, m.syncAgain, m.syncAgain, m.syncOld, m.syncOld, m.delete, m.delete, m.login, m.rare,
			}
			for range rapid.IntRange(1, 24).Draw(t, "length") {
				rapid.SampledFrom(ops).Draw(t, "op")(t)
			}
			m.end(t)
		})
	}
	w.t = t
}

// message is one message of the model.
type message struct {
	pos     int64 // learned when first seen
	sender  matrix.UserID
	content string
	size    int
}

// inboxModel is one device of the model.
type inboxModel struct {
	user   string
	id     string
	num    int64
	list   []message // all that was ever sent to it
	acked  int       // how many of them were acknowledged for certain
	forgot bool      // restarted since: a sync without since may repeat some
	tokens []token
	dead   bool
}

// token is a position and how many messages it acknowledges.
type token struct {
	pos int64
	n   int
}

type model struct {
	*world
	name    string
	users   map[string]int64
	devices []*inboxModel
	next    int
	edus    []DirectToDevice
}

func (m *model) begin(t *rapid.T) {
	m.users = map[string]int64{}
	m.write(func(tx *storage.Tx) (err error) {
		for _, local := range m.locals() {
			if m.users[local], err = tx.AddUser(storage.User{Localpart: local}); err != nil {
				return err
			}
		}
		return nil
	})
	for range rapid.IntRange(0, 4).Draw(t, "devices") {
		m.login(t)
	}
}

func (m *model) end(t *rapid.T) {
	m.must(m.inbox.Check(context.Background()))
	for _, d := range m.devices {
		m.drain(t, d)
	}
	m.write(func(tx *storage.Tx) error {
		for _, d := range m.devices {
			if d.dead {
				continue
			}
			m.inbox.Drop(tx, d.num)
			if err := tx.DeleteDevice(d.num); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *model) locals() []string {
	var all []string
	for i := range 3 {
		all = append(all, fmt.Sprint(m.name, "u", i))
	}
	return all
}

// pick draws a device, a dead one now and then.
func (m *model) pick(t *rapid.T) *inboxModel {
	if len(m.devices) == 0 {
		m.login(t)
	}
	return rapid.SampledFrom(m.devices).Draw(t, "device")
}

// draw makes a request and says what it should give to whom.
func (m *model) draw(t *rapid.T) (Messages, map[*inboxModel]string) {
	request, want := Messages{}, map[*inboxModel]string{}
	for _, local := range m.locals() {
		contents := map[string]jsontext.Value{}
		for _, id := range []string{"*", "D0", "D1", "gone"} {
			if rapid.IntRange(0, 2).Draw(t, "named") == 0 {
				m.next++
				pad := rapid.SampledFrom([]int{0, 0, 100, 500}).Draw(t, "pad")
				contents[id] = jsontext.Value(fmt.Sprintf(`{ "n":%d,"x":"%0*d"}`, m.next, pad, 0))
			}
		}
		if len(contents) == 0 {
			continue
		}
		request[user(local)] = contents
		for _, d := range m.devices {
			if d.user != local || d.dead {
				continue
			}
			if c, ok := contents[d.id]; ok {
				want[d] = string(c)
			} else if c, ok := contents["*"]; ok {
				want[d] = string(c)
			}
		}
	}
	request["@stranger:nowhere.test"] = map[string]jsontext.Value{"*": jsontext.Value(`{}`)}
	return request, want
}

func (m *model) arrive(from matrix.UserID, want map[*inboxModel]string) {
	for d, content := range want {
		size := len(content) + len(`{"content":,"sender":"","type":"m.test"},`) + len(from)
		d.list = append(d.list, message{sender: from, content: content, size: size})
	}
}

func (m *model) send(t *rapid.T) {
	from := user(rapid.SampledFrom(m.locals()).Draw(t, "from"))
	request, want := m.draw(t)
	m.world.send(from, request)
	m.arrive(from, want)
}

// receive applies an EDU of another server, a known one now and then.
func (m *model) receive(t *rapid.T) {
	apply := func(edu DirectToDevice) {
		m.write(func(tx *storage.Tx) error { return m.inbox.Receive(tx, edu.Sender.Server(), edu) })
	}
	if len(m.edus) > 0 && rapid.Bool().Draw(t, "repeat") {
		apply(rapid.SampledFrom(m.edus).Draw(t, "edu"))
		return
	}
	request, want := m.draw(t)
	from := matrix.UserID(rapid.SampledFrom([]string{"@a:one.test", "@b:two.test"}).Draw(t, "from"))
	edu := DirectToDevice{Sender: from, Type: "m.test", MessageID: m.name + "1", Messages: request}
	apply(edu)
	m.edus = append(m.edus, edu)
	m.arrive(from, want)
}

// fail rolls back a unit that did several things.
func (m *model) fail(t *rapid.T) {
	from := user(rapid.SampledFrom(m.locals()).Draw(t, "from"))
	request, _ := m.draw(t)
	remove := rapid.Bool().Draw(t, "remove")
	err := m.store.Write(context.Background(), "test", func(tx *storage.Tx) error {
		if err := m.inbox.Enqueue(tx, from, "m.test", request); err != nil {
			return err
		}
		if remove && len(m.devices) > 0 {
			m.inbox.Drop(tx, m.devices[0].num)
			if err := tx.DeleteDevice(m.devices[0].num); err != nil {
				return err
			}
		}
		return errOnPurpose
	})
	if err != errOnPurpose && !m.anyDead() {
		t.Fatalf("got %v, want the unit's own error", err)
	}
}

func (m *model) anyDead() bool {
	return slices.ContainsFunc(m.devices, func(d *inboxModel) bool { return d.dead })
}

// sync acknowledges the last token and reads what follows.
func (m *model) sync(t *rapid.T) {
	d := m.pick(t)
	since := token{}
	if len(d.tokens) > 0 {
		since = d.tokens[len(d.tokens)-1]
	}
	m.inbox.Ack(d.num, since.pos)
	d.acked = max(d.acked, since.n)
	d.tokens = append(d.tokens, m.expect(t, d, since, m.batch(d.num, since.pos)))
}

// syncAgain presents no position, and so acknowledges nothing.
func (m *model) syncAgain(t *rapid.T) {
	d := m.pick(t)
	got := m.batch(d.num, 0)
	if d.forgot && !d.dead {
		// What was acknowledged just before the restart may come again.
		back := 0
		for back < d.acked && len(got.Messages) > 0 && d.list[d.acked-back-1].pos >= got.Messages[0].Pos {
			back++
		}
		d.acked -= back
		d.forgot = len(got.Messages) == 0
	}
	d.tokens = append(d.tokens, m.expect(t, d, token{}, got))
}

// syncOld presents a token that a later one may have overtaken.
func (m *model) syncOld(t *rapid.T) {
	d := m.pick(t)
	if len(d.tokens) == 0 {
		return
	}
	since := rapid.SampledFrom(d.tokens).Draw(t, "since")
	m.inbox.Ack(d.num, since.pos)
	d.acked = max(d.acked, since.n)
	if d.forgot && since.n < d.acked {
		return
	}
	m.expect(t, d, since, m.batch(d.num, since.pos))
}

// expect compares a batch with the model and returns the token it makes.
func (m *model) expect(t *rapid.T, d *inboxModel, since token, got Batch) token {
	if d.dead {
		if len(got.Messages) > 0 || got.More {
			t.Fatalf("a deleted device received %d messages", len(got.Messages))
		}
		return since
	}
	from := max(since.n, d.acked)
	want, sum := d.list[from:], 0
	for i, w := range want {
		if sum += w.size; i == 3 || i > 0 && sum > 400 {
			want = want[:i]
			break
		}
	}
	if len(got.Messages) != len(want) {
		t.Fatalf("%s %s: got %d messages %v, want %d of %d behind %d", d.user, d.id,
			len(got.Messages), contents(got.Messages), len(want), len(d.list), from)
	}
	for i, g := range got.Messages {
		w := &d.list[from+i]
		if string(g.Content) != w.content || g.Sender != w.sender || w.pos != 0 && w.pos != g.Pos {
			t.Fatalf("%s %s: message %d is %s at %d, want %s at %d", d.user, d.id, from+i, g.Content, g.Pos, w.content, w.pos)
		}
		w.pos = g.Pos
	}
	to := token{got.Next, from + len(want)}
	if more := to.n < len(d.list); got.More != more {
		t.Fatalf("More is %v with %d of %d", got.More, to.n, len(d.list))
	}
	return to
}

func (m *model) delete(t *rapid.T) {
	d := m.pick(t)
	if d.dead {
		return
	}
	m.deleteDevice(d.num)
	d.dead = true
}

// login makes a device, with the identifier of a deleted one if there is one.
func (m *model) login(t *rapid.T) {
	local := rapid.SampledFrom(m.locals()).Draw(t, "user")
	id := rapid.SampledFrom([]string{"D0", "D1"}).Draw(t, "id")
	if slices.ContainsFunc(m.devices, func(d *inboxModel) bool { return d.user == local && d.id == id && !d.dead }) {
		return
	}
	d := &inboxModel{user: local, id: id}
	m.write(func(tx *storage.Tx) (err error) {
		d.num, err = tx.AddDevice(m.users[local], matrix.DeviceID(id), "")
		return err
	})
	m.devices = append(m.devices, d)
}

// rare is what costs much.
func (m *model) rare(t *rapid.T) {
	rapid.SampledFrom([]func(*rapid.T){m.restart, m.sweep, m.check}).Draw(t, "rare")(t)
}

func (m *model) restart(*rapid.T) {
	m.close()
	m.open()
	for _, d := range m.devices {
		d.forgot = true
	}
}

func (m *model) sweep(*rapid.T) { m.must(m.inbox.Sweep(context.Background())) }

func (m *model) check(*rapid.T) { m.must(m.inbox.Check(context.Background())) }

// drain syncs until nothing is left, as a client would.
func (m *model) drain(t *rapid.T, d *inboxModel) {
	since := token{}
	if len(d.tokens) > 0 {
		since = d.tokens[len(d.tokens)-1]
	}
	for more := true; more; {
		m.inbox.Ack(d.num, since.pos)
		d.acked = max(d.acked, since.n)
		got := m.batch(d.num, since.pos)
		since, more = m.expect(t, d, since, got), got.More
	}
	if !d.dead && since.n != len(d.list) {
		t.Fatalf("%s %s: drained %d of %d", d.user, d.id, since.n, len(d.list))
	}
}
