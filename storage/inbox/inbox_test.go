package inbox

import (
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestMessagesArriveOnceAndInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.register("alice", "A")
	_, bob := w.register("bob", "B1", "B2")
	w.send(user("alice"), to("bob", "B1", `{"n":1}`))
	w.send(user("alice"), to("bob", "B1", `{"n":2}`))
	w.send(user("alice"), to("bob", "B2", `{"n":3}`))
	got, next := w.all(bob[0], 0)
	if want := []string{`{"n":1}`, `{"n":2}`}; !slices.Equal(contents(got), want) {
		t.Fatalf("got %v, want %v", contents(got), want)
	}
	if again, _ := w.all(bob[0], 0); len(again) != 2 {
		t.Fatalf("unacknowledged: got %d messages again, want 2", len(again))
	}
	w.inbox.Ack(bob[0], next)
	if rest, _ := w.all(bob[0], 0); len(rest) != 0 {
		t.Fatalf("acknowledged, but got %v", contents(rest))
	}
	if other, _ := w.all(bob[1], 0); len(other) != 1 {
		t.Fatalf("the other device: got %d messages, want 1", len(other))
	}
}

func TestEveryDeviceGetsItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	_, alice := w.register("alice", "A", "A2")
	_, bob := w.register("bob", "B1", "B2")
	w.send(user("alice"), Messages{
		user("bob"):           {"*": jsontext.Value(`{"all":1}`), "B2": jsontext.Value(`{"own":1}`), "NONE": jsontext.Value(`{}`)},
		user("alice"):         {"*": jsontext.Value(`{"all":1}`)},
		user("nobody"):        {"*": jsontext.Value(`{}`)},
		"@bob:elsewhere.test": {"B1": jsontext.Value(`{"wrong":1}`)},
	})
	for device, want := range map[int64]string{alice[0]: `{"all":1}`, alice[1]: `{"all":1}`, bob[0]: `{"all":1}`, bob[1]: `{"own":1}`} {
		got, _ := w.all(device, 0)
		if !slices.Equal(contents(got), []string{want}) {
			t.Errorf("device %d: got %v, want %v", device, contents(got), want)
		}
	}
}
