package acceptance

import (
	"fmt"
	"strings"
	"testing"

	"hearth/server/testserver"
	"hearth/server/web"
)

// TestDeepestContent: what a client may nest arrives at another server, though
// it lies deeper in a transaction.
func TestDeepestContent(t *testing.T) {
	t.Parallel()
	net := testserver.Network(t, 2, testserver.QuietLog())
	alice, bob := net[0].Register("alice"), net[1].Register("bob")
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	deepest := 0
	for n := web.MaxDepth; deepest == 0; n-- {
		path := testserver.ToDevicePath("m.test", fmt.Sprint(n))
		a, err := alice.Do(t.Context(), "PUT", path, testserver.Messages{bob.UserID: {"*": nested(n)}}.Body())
		if err != nil {
			t.Fatal(err)
		}
		if a.Status == 200 {
			deepest = n
		}
	}
	alice.SendToDevices("m.test", "last", testserver.Messages{bob.UserID: {"*": `{"last":1}`}})
	got := receive(t, bob, 2)
	if string(got[0].Content) != nested(deepest) || string(got[1].Content) != `{"last":1}` {
		t.Fatalf("got %.40s first, want %d levels, and then the last", got[0].Content, deepest)
	}
}
