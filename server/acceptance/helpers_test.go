package acceptance

import (
	"fmt"
	"strings"
	"testing"

	"hearth/server/syncer"
	"hearth/server/testserver"
)

// number is a message's content that tells it from others.
func number(n int) string { return fmt.Sprintf(`{"n":%d}`, n) }

// contents joins what messages say.
func contents(events []testserver.Event) string {
	all := make([]string, len(events))
	for i, e := range events {
		all[i] = string(e.Content)
	}
	return strings.Join(all, " ")
}

// wantContents drains the client's inbox and compares.
func wantContents(t *testing.T, c *testserver.Client, want string) {
	t.Helper()
	if got := contents(c.Drain()); got != want {
		t.Fatalf("%s %s got %q, want %q", c.UserID, c.DeviceID, got, want)
	}
}

// position is the stream position inside a sync token.
func position(t *testing.T, token string) int64 {
	t.Helper()
	tok, err := syncer.ParseToken(token)
	if err != nil {
		t.Fatalf("token %q: %v", token, err)
	}
	return tok.Pos
}

// forge moves a token's positions ahead and gives it to the device of another token.
func forge(t *testing.T, token, owner string, ahead int64) string {
	t.Helper()
	tok, err := syncer.ParseToken(token)
	if err != nil {
		t.Fatalf("token %q: %v", token, err)
	}
	mine, err := syncer.ParseToken(owner)
	if err != nil {
		t.Fatalf("token %q: %v", owner, err)
	}
	tok.Device = mine.Device
	tok.Pos += ahead
	tok.ToDevice += ahead
	return tok.String()
}
