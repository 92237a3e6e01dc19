package rules_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"hearth/federation/rules"
	"hearth/storage/matrix"
)

// scale multiplies the length of a random test by HEARTH_TEST_SCALE.
func scale(n int) int {
	if factor, err := strconv.Atoi(os.Getenv("HEARTH_TEST_SCALE")); err == nil && factor > 1 {
		return n * factor
	}
	return n
}

// graphSize is the number of events of a random room.
const graphSize = 50

// TestDifferential compares the package with the reference on 504 random rooms, 42
// of each room version: every event as parsed, every verdict, every resolved state.
// HEARTH_TEST_SCALE=20 makes 10,080.
//
// Where the two differed, the text decided; see the TestSettled functions.
func TestDifferential(t *testing.T) {
	var mu sync.Mutex // guards stats, compared
	var stats graphStats
	compared := map[string]int{}
	t.Run("versions", func(t *testing.T) {
		for version := 1; version <= 12; version++ {
			t.Run(strconv.Itoa(version), func(t *testing.T) {
				t.Parallel()
				for seed := range scale(42) {
					var d differences
					g := newGraph(version, uint64(seed), graphSize)
					d.compareAll(g)
					d.report(t)
					mu.Lock()
					stats.add(g)
					for what, n := range d.compared {
						compared[what] += n
					}
					mu.Unlock()
					if t.Failed() {
						return
					}
				}
			})
		}
	})
	t.Log(stats.String())
	t.Log("compared: ", compared)
	stats.check(t)
}

func (d *differences) compareAll(g *graph) {
	events := d.compareEvents(g)
	if len(d.list) > 0 {
		return // what was misread is not worth judging
	}
	d.compareVerdicts(g, events)
	d.compareResolutions(g, events)
}

// report fails the test with the first differences.
func (d *differences) report(t *testing.T) {
	t.Helper()
	for i, s := range d.list {
		if i == 5 {
			t.Errorf("and %d more", len(d.list)-i)
			return
		}
		t.Error(s)
	}
}

func (s *graphStats) String() string {
	percent := func(n, of int) string { return fmt.Sprintf("%d (%d %%)", n, n*100/max(1, of)) }
	return strings.Join([]string{
		fmt.Sprintf("%d graphs, %d events", s.graphs, s.events),
		"refused: " + percent(s.refused, s.events),
		fmt.Sprintf("refused by auth events only: %d, by state only: %d", s.byAuthOnly, s.byStateOnly),
		"merges: " + percent(s.merges, s.events),
		fmt.Sprintf("resolutions: %d, with conflicts: %s", s.resolutions, percent(s.contested, s.resolutions)),
		fmt.Sprintf("conflicting keys in each: %.1f", float64(s.conflicts)/float64(max(1, s.contested))),
		"resolved to none of the states given: " + percent(s.decided, s.resolutions),
		fmt.Sprint("accepted: ", s.accepted),
		fmt.Sprint("refused by: ", s.rules),
	}, "\n")
}

// check fails if the graphs were too tame for the comparison to mean much.
func (s *graphStats) check(t *testing.T) {
	for _, c := range []struct {
		what     string
		is, want float64
	}{
		{"share of events refused", float64(s.refused) / float64(s.events), 0.25},
		{"share of events accepted", 1 - float64(s.refused)/float64(s.events), 0.4},
		{"share of resolutions with conflicts", float64(s.contested) / float64(s.resolutions), 0.8},
		{"share of results that are none of the states", float64(s.decided) / float64(s.resolutions), 0.3},
		{"resolutions of each graph", float64(s.resolutions) / float64(s.graphs), 15},
	} {
		if c.is < c.want {
			t.Errorf("%s: %.2f, want at least %.2f", c.what, c.is, c.want)
		}
	}
	for _, kind := range []string{"join", "invite", "leave", "ban", "knock"} {
		if s.accepted["m.room.member "+kind] == 0 {
			t.Errorf("no accepted %s", kind)
		}
	}
	// Every rule that refuses must have refused something in some room version.
	for rule := rules.CreateHasPrev; rule <= rules.RedactionLevel; rule++ {
		seen := false
		for _, v := range matrix.RoomVersions() {
			section := rule.Section(v)
			seen = seen || section != "" && s.rules[string(v)+" "+section] > 0
		}
		if !seen {
			t.Errorf("no event was refused by %s", rule)
		}
	}
}
