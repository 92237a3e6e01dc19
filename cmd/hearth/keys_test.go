package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// published is what a server says of its keys.
type published struct {
	Verify map[string]struct{ Key string } `json:"verify_keys"`
	Old    map[string]struct {
		Key     string
		Expired int64 `json:"expired_ts"`
	} `json:"old_verify_keys"`
	Signatures map[string]map[string]string `json:"signatures"`
}

func publishedKeys(t *testing.T, url string) published {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/_matrix/key/v2/server", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var out published
	if err := json.UnmarshalRead(res.Body, &out, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	return out
}

// only is the ID of the one key in use, which must have signed.
func (p published) only(t *testing.T) string {
	t.Helper()
	for id := range p.Verify {
		if len(p.Verify) == 1 && p.Signatures["localhost"][id] != "" {
			return id
		}
	}
	t.Fatalf("not one key that has signed: %+v", p)
	return ""
}

// TestKeys: a running server signs with a new key at once, and a key goes from
// one server to another through a file in Synapse's form.
func TestKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ok := func(dir, stdin string, args ...string) string {
		t.Helper()
		out, stderr, code := hearth(t, dir, nil, stdin, args...)
		if code != 0 || stderr != "" {
			t.Fatalf("%v: %d %s%s", args, code, out, stderr)
		}
		return out
	}
	p := startProcess(t, dir)
	before := publishedKeys(t, p.ready.URL)
	first := before.only(t)
	second := strings.TrimSpace(ok(dir, "", "key", "rotate"))
	after := publishedKeys(t, p.ready.URL)
	if got := after.only(t); got != second || second == first || !regexp.MustCompile(`^ed25519:a_\w{6}$`).MatchString(second) {
		t.Errorf("after the rotation %q is in use, want %q; before it was %q", got, second, first)
	}
	if old := after.Old[first]; old.Key != before.Verify[first].Key || old.Expired <= 0 {
		t.Errorf("the old key: %+v, want %+v", old, before.Verify[first])
	}
	exported := ok(dir, "", "key", "export")
	if !regexp.MustCompile(`^ed25519 a_\w{6} [A-Za-z0-9+/]{43}\n$`).MatchString(exported) {
		t.Errorf("exported %d bytes that are no such file", len(exported))
	}
	stop(t, p)

	other := t.TempDir()
	q := startProcess(t, other)
	made := publishedKeys(t, q.ready.URL).only(t)
	stop(t, q)
	file := filepath.Join(other, "signing.key")
	const older = "ed25519 a_older AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"
	if err := os.WriteFile(file, []byte(exported+older), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(ok(other, "", "key", "import", file)); got != second {
		t.Errorf("imported %q, want %q", got, second)
	}
	q = startProcess(t, other)
	now := publishedKeys(t, q.ready.URL)
	if got := now.only(t); got != second || now.Verify[got] != after.Verify[got] {
		t.Errorf("imported: %+v, want %+v", now, after)
	}
	if now.Old[made].Key == "" || now.Old["ed25519:a_older"].Key == "" {
		t.Errorf("old keys: %+v", now.Old)
	}
	if again := ok(other, "", "key", "export"); again != exported {
		t.Error("exported again it differs")
	}
	if got := strings.TrimSpace(ok(other, older, "key", "import", "-")); got != "ed25519:a_older" || publishedKeys(t, q.ready.URL).only(t) != got {
		t.Errorf("brought back into use: %q", got)
	}
	for _, bad := range []string{"", "ed25519 a_b AAAA\n", "rsa a_b AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n", "ed25519 a/b AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n", older + older, "ed25519 a_older BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"} {
		_, stderr, code := hearth(t, other, nil, bad, "key", "import", "-")
		if code != 1 || strings.Contains(stderr, "AAAA") {
			t.Errorf("import of %q: %d %s", bad, code, stderr)
		}
	}
	stop(t, q)
}
