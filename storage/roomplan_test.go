package storage

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// roomTables are the tables that grow with rooms.
var roomTables = regexp.MustCompile(`\b(rooms|events|event_edges|missing_parents|event_senders|extremities|redactions|` +
	`current_state|state_changes|room_states|memberships|joined_servers|aliases)\b`)

// TestRoomQueryPlans holds every query on the tables of rooms to an index.
func TestRoomQueryPlans(t *testing.T) {
	t.Parallel()
	s, err := Open(context.Background(), Options{Dir: t.TempDir(), ServerName: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	sorts := map[*statement]string{
		pastHeroes:     "members of a room that everybody has left",
		missingParents: "backward extremities, which are few",
		eventChildren:  "children of one event",
		newsByRoom:     "at most a hundred rooms",
		newsByUser:     "rooms of one user",
		membershipsOf:  "rooms of one user",
	}
	scans := map[*statement]string{
		purgedRoom:         "the first of an index of those to be purged",
		oldestEventSenders: "the first few",
	}
	looked := 0
	for _, st := range statements {
		if !roomTables.MatchString(st.sql) {
			continue
		}
		looked++
		for _, step := range planOf(t, s.writer, st.sql) {
			bad := badStep(step)
			if bad == "a scan" && scans[st] == "" || bad == "a sort" && sorts[st] == "" {
				t.Errorf("%s: %s\n%s", bad, step, st.sql)
			}
		}
	}
	if looked < 60 {
		t.Errorf("only %d statements were looked at", looked)
	}
	for sql, want := range map[string]string{
		`SELECT num FROM events WHERE depth = 1`:                      "a scan",
		`SELECT num FROM events WHERE room = 1 ORDER BY json LIMIT 1`: "a sort",
	} {
		found := ""
		for _, step := range planOf(t, s.writer, sql) {
			found += badStep(step)
		}
		if !strings.Contains(found, want) {
			t.Errorf("in %s it finds %q, want %s", sql, found, want)
		}
	}
}

var scansTable = regexp.MustCompile(`^SCAN (\w+)`)

func badStep(step string) string {
	if m := scansTable.FindStringSubmatch(step); m != nil && !slices.Contains([]string{"j", "json_each", "CONSTANT"}, m[1]) {
		return "a scan"
	}
	if strings.Contains(step, "USE TEMP B-TREE") {
		return "a sort"
	}
	return ""
}

func planOf(t *testing.T, c *conn, sql string) (steps []string) {
	t.Helper()
	st, err := c.raw.Prepare("EXPLAIN QUERY PLAN " + sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	args := make([]driver.NamedValue, 30) // more than any statement takes
	for i := range args {
		args[i].Ordinal = i + 1
	}
	rows, err := st.(driver.StmtQueryContext).QueryContext(background, args)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	vals := make([]driver.Value, len(rows.Columns()))
	for rows.Next(vals) == nil {
		steps = append(steps, fmt.Sprint(vals[3]))
	}
	if err := errors.Join(rows.Close(), st.Close()); err != nil {
		t.Fatal(err)
	}
	return steps
}
