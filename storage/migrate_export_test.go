package storage

import "testing"

// WriteOldFile makes a database as a version that knew the first n migrations
// left it, with what the SQL puts in, and returns the number of its schema and
// of the newest.
func WriteOldFile(t *testing.T, path string, n int, sql string) (have, newest int64) {
	t.Helper()
	all, err := readMigrations()
	if err != nil {
		t.Fatal(err)
	}
	c := openFile(t, path)
	for _, m := range all[:n] {
		if err := c.apply(m); err != nil {
			t.Fatal(err)
		}
		c.guard.mayCommit = true
	}
	if err := c.run(sql); err != nil {
		t.Fatal(err)
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	return all[n-1].number, all[len(all)-1].number
}

// SchemaOf lists what the store's file consists of, and the number of its schema.
func (s *Store) SchemaOf(t *testing.T) (schema map[string]string, version int64) {
	t.Helper()
	v, err := s.schemaVersion()
	if err != nil {
		t.Fatal(err)
	}
	return schemaOf(t, s.writer), v
}
