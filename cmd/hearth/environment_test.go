package main

import (
	"strings"
	"testing"
)

// TestStrayVariables: a variable that looks like one of ours and means nothing
// is named when the server starts, once; what it may hold is not.
func TestStrayVariables(t *testing.T) {
	t.Parallel()
	_, stderr, code := hearth(t, t.TempDir(), []string{"HEARTH_SERVER_NMAE=secret.test", "HEARTH_LOG_LEVEL=info", "HEARTH_TEST_SCALE=1"}, "",
		"--listen", "127.0.0.1:0", "--exit-with-parent")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if strings.Count(stderr, "HEARTH_SERVER_NMAE") != 1 || strings.Contains(stderr, "secret.test") {
		t.Errorf("want the stray variable named once, without its value: %s", stderr)
	}
	for _, fine := range []string{"HEARTH_LOG_LEVEL", "HEARTH_TEST_SCALE"} {
		if strings.Contains(stderr, fine) {
			t.Errorf("%s is complained of: %s", fine, stderr)
		}
	}
}
