package server_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// imports are the direct imports of each package of the module, of its tests too
// if tests is true.
func imports(t *testing.T, tests bool) map[string][]string {
	t.Helper()
	format := `{{.ImportPath}} {{join .Imports " "}}`
	if tests {
		format += ` {{join .TestImports " "}} {{join .XTestImports " "}}`
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-e", "-f", format, "hearth/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		all[words[0]] = words[1:]
	}
	if len(all["hearth/cmd/hearth"]) == 0 || len(all["hearth/storage"]) == 0 {
		t.Fatalf("go list found nothing: %s", out)
	}
	return all
}

// within tells whether pkg is root or lies below it.
func within(pkg, root string) bool { return pkg == root || strings.HasPrefix(pkg, root+"/") }

// TestArrowsPointOneWay: cmd → server → federation → storage → storage/matrix.
// Every direct import is checked, so the transitive ones hold too.
func TestArrowsPointOneWay(t *testing.T) {
	t.Parallel()
	layers := []string{"hearth/cmd", "hearth/server", "hearth/federation", "hearth/storage", "hearth/storage/matrix"}
	layer := func(pkg string) int {
		for i := len(layers) - 1; i >= 0; i-- {
			if within(pkg, layers[i]) {
				return i
			}
		}
		return -1
	}
	for pkg, list := range imports(t, false) {
		if layer(pkg) < 0 {
			t.Errorf("%s lies outside of %v", pkg, layers)
		}
		for _, imp := range list {
			if to := layer(imp); to >= 0 && to < layer(pkg) {
				t.Errorf("%s imports %s, against the arrow", pkg, imp)
			}
		}
	}
}

// TestOnlyOwnersImport holds which package alone may use what.
func TestOnlyOwnersImport(t *testing.T) {
	t.Parallel()
	for _, rule := range []struct {
		what   []string // import paths, with what lies below them
		owners []string // packages, with what lies below them
		tests  bool     // tests are bound too
	}{
		{[]string{"database/sql", "modernc.org/sqlite"}, []string{"hearth/storage"}, false},
		{[]string{"github.com/gorilla/mux"}, []string{"hearth/server"}, true},
		{[]string{"github.com/BurntSushi/toml"}, []string{"hearth/server/config"}, true},
		{[]string{"testing", "net/http/httptest"}, []string{"hearth/server/testserver", "hearth/storage/storagetest"}, false},
		{[]string{"hearth/server/testserver", "hearth/storage/storagetest"}, []string{"hearth/server/testserver", "hearth/storage/storagetest"}, false},
		{[]string{"github.com/urfave/cli/v3", "github.com/schollz/progressbar/v3", "golang.org/x/term"}, []string{"hearth/cmd"}, true},
	} {
		for pkg, list := range imports(t, rule.tests) {
			if slices.ContainsFunc(rule.owners, func(o string) bool { return within(pkg, o) }) {
				continue
			}
			for _, imp := range list {
				if slices.ContainsFunc(rule.what, func(w string) bool { return within(imp, w) }) {
					t.Errorf("%s imports %s, which is for %v", pkg, imp, rule.owners)
				}
			}
		}
	}
}

// TestForbiddenImports holds what single packages may not know.
func TestForbiddenImports(t *testing.T) {
	t.Parallel()
	pure := []string{"go.uber.org/zap", "net", "os", "io/fs", "database/sql", "modernc.org/sqlite", "hearth/storage"}
	all := imports(t, false)
	for _, rule := range []struct {
		pkg       string
		forbidden []string
	}{
		{"hearth/storage/matrix", pure},
		{"hearth/federation/rules", pure},
		{"hearth/server/clientapi", []string{"hearth/server/fedapi", "database/sql"}},
		{"hearth/server/fedapi", []string{"hearth/server/clientapi", "database/sql"}},
		{"hearth/federation", []string{"net/http/httptest", "github.com/gorilla/mux"}},
		// Rooms are written and read in units of the store: whoever calls other
		// servers for them, or serves them, does so from outside.
		{"hearth/federation/room", []string{"net", "hearth/federation/remote", "hearth/federation/keyring", "hearth/federation/inbound"}},
		{"hearth/server/view", []string{"net", "go.uber.org/zap", "hearth/federation/remote", "hearth/server/web", "hearth/server/syncer", "hearth/server/clientapi", "hearth/server/fedapi"}},
		{"hearth/server/syncer", []string{"net", "hearth/federation", "hearth/server/web", "hearth/server/clientapi", "hearth/server/fedapi"}},
	} {
		for pkg, list := range all {
			if !within(pkg, rule.pkg) {
				continue
			}
			for _, imp := range list {
				// net/netip and net/url only name things, and storage/matrix is vocabulary.
				if imp == "net/netip" || imp == "net/url" || within(imp, "hearth/storage/matrix") ||
					imp == "net/http" && within(pkg, "hearth/storage/matrix") { // for names of statuses
					continue
				}
				if slices.ContainsFunc(rule.forbidden, func(f string) bool { return within(imp, f) }) {
					t.Errorf("%s imports %s", pkg, imp)
				}
			}
		}
	}
}

// TestCommandCallsOnlyServer: main has no logic of its own to need more for.
func TestCommandCallsOnlyServer(t *testing.T) {
	t.Parallel()
	for pkg, list := range imports(t, false) {
		if !within(pkg, "hearth/cmd") {
			continue
		}
		for _, imp := range list {
			if strings.HasPrefix(imp, "hearth/") && imp != "hearth/server" && imp != "hearth/server/config" {
				t.Errorf("%s imports %s", pkg, imp)
			}
		}
	}
}
