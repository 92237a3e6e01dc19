package storage

import (
	"context"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.uber.org/zap"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// ErrNewer is returned by Open where the file was written by a later version
// of this program, which may keep its promises in ways this one cannot.
var ErrNewer = errors.New("storage: the database was written by a newer version")

// applicationID marks the file as ours ("Hrth"): another program's database is
// refused instead of migrated.
const applicationID = 0x48727468

// migration is one numbered file. Once released it is never edited.
type migration struct {
	number int64
	name   string
	sql    string
}

// readMigrations lists the embedded files in order.
func readMigrations() ([]migration, error) {
	files, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		return nil, err
	}
	var all []migration
	for _, f := range files {
		digits, _, _ := strings.Cut(f.Name(), "_")
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || n <= 0 {
			return nil, fmt.Errorf("migration %s: its name must begin with a number", f.Name())
		}
		if len(all) > 0 && all[len(all)-1].number >= n {
			return nil, fmt.Errorf("migration %s: number %d is taken", f.Name(), n)
		}
		text, err := migrationFiles.ReadFile("migrations/" + f.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, migration{n, f.Name(), string(text)})
	}
	return all, nil
}

// migrate brings the file's schema to the newest version.
func (s *Store) migrate(ctx context.Context) error {
	all, err := readMigrations()
	if err != nil {
		return err
	}
	have, err := s.schemaVersion()
	if err != nil {
		return err
	}
	newest := all[len(all)-1].number
	if have > newest {
		return fmt.Errorf("%w: schema %d, this version knows %d", ErrNewer, have, newest)
	}
	if have == newest {
		return nil
	}
	if have > 0 {
		if err := s.backupBeforeMigration(ctx, newest); err != nil {
			return fmt.Errorf("backup before migration: %w", err)
		}
	}
	for _, m := range all {
		if m.number <= have {
			continue
		}
		if err := s.writer.apply(m); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
		if have > 0 {
			s.log.Info("migrated", zap.String("migration", m.name))
		}
	}
	return nil
}

// schemaVersion is the number of the last migration the file has seen; 0: the
// file is new.
func (s *Store) schemaVersion() (int64, error) {
	id, err := s.writer.number("PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	tables, err := s.writer.number("SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, err
	}
	if tables > 0 && id != applicationID {
		return 0, fmt.Errorf("%s is not a database of this program (application ID %#x)", s.dsn.path, id)
	}
	return s.writer.number("PRAGMA user_version")
}

// apply runs one migration in one transaction. Foreign keys are checked at its
// end instead of on the way, so that a table can be rebuilt.
func (c *conn) apply(m migration) error {
	if err := c.run("PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := c.run(fmt.Sprintf("%s\n;PRAGMA application_id = %d; PRAGMA user_version = %d", m.sql, applicationID, m.number))
	if err == nil {
		err = c.each("PRAGMA foreign_key_check", func(v []driver.Value) error {
			return fmt.Errorf("row %v of %v refers to a row of %v that is not there", v[1], v[0], v[2])
		})
	}
	if err != nil {
		return errors.Join(err, c.run("ROLLBACK"))
	}
	c.guard.mayCommit = true
	defer func() { c.guard.mayCommit = false }()
	return c.run("COMMIT; PRAGMA foreign_keys = ON")
}
