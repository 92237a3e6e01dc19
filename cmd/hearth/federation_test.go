package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestFederationQueue: what waits for another server is listed, with and
// without a running server, and can be hurried.
func TestFederationQueue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ok := func(args ...string) string {
		t.Helper()
		out, stderr, code := hearth(t, dir, nil, "", append([]string{"federation"}, args...)...)
		if code != 0 || stderr != "" {
			t.Fatalf("%v: %d %s%s", args, code, out, stderr)
		}
		return out
	}
	p := startProcess(t, dir)
	if got := ok("queue"); strings.Count(got, "\n") != 1 {
		t.Errorf("before anything was sent: %s", got)
	}
	const dest = "127.0.0.1:1" // to which nothing may connect
	sendToDevice(t, p.ready.URL, dir, dest)
	failed := regexp.MustCompile(`(?m)^127\.0\.0\.1:1 +1 +\d{3} +\ds +([1-9]\d*) +\S+ +never +".+"$`)
	for !failed.MatchString(ok("queue", dest)) { // ends with the test
		if t.Context().Err() != nil {
			t.Fatal("the attempt was not recorded")
		}
	}
	if got := ok("queue"); !failed.MatchString(got) {
		t.Errorf("all queues: %s", got)
	}
	if got := ok("queue", "quiet.example"); strings.Count(got, "\n") != 1 {
		t.Errorf("of another server: %s", got)
	}
	if got := ok("retry", dest); !strings.Contains(got, "tried again now") {
		t.Errorf("retry: %s", got)
	}
	if got := ok("retry", "quiet.example"); !strings.Contains(got, "does not fail") {
		t.Errorf("retry of a server that does not fail: %s", got)
	}
	for _, bad := range []string{"not a name", "localhost", ""} {
		for _, verb := range []string{"queue", "retry"} {
			if out, stderr, code := hearth(t, dir, nil, "", "federation", verb, bad); code != 1 || stderr == "" {
				t.Errorf("%s %q: %d %s", verb, bad, code, out)
			}
		}
	}
	stop(t, p)
	if got := ok("queue"); !strings.Contains(got, dest) {
		t.Errorf("without a server: %s", got)
	}
	ok("retry", dest)
	if got := ok("queue", dest); !regexp.MustCompile(`(?m)^127\.0\.0\.1:1 +1 +\d{3} +\ds +0 +now +never +`).MatchString(got) {
		t.Errorf("retried without a server: %s", got)
	}
}

// sendToDevice sends a message to a user of another server.
func sendToDevice(t *testing.T, url, dir, dest string) {
	t.Helper()
	if _, stderr, code := hearth(t, dir, nil, "some password", "user", "add", "bob", "--password-stdin"); code != 0 {
		t.Fatal(stderr)
	}
	status, login := post(t, url+"/_matrix/client/v3/login", `{"type":"m.login.password","identifier":{"type":"m.id.user","user":"bob"},"password":"some password"}`)
	if status != http.StatusOK {
		t.Fatalf("log in: %v", login)
	}
	body := strings.NewReader(fmt.Sprintf(`{"messages":{"@carol:%s":{"*":{}}}}`, dest))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/_matrix/client/v3/sendToDevice/m.test/1", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", fmt.Sprint("Bearer ", login["access_token"]))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("send: %d", res.StatusCode)
	}
}
