package storage

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"modernc.org/sqlite"
)

// backupStep is how many pages are copied between two batches: about 1 MB.
const backupStep = 256

// errBackupLost is what a backup ends with whose connection was given up.
var errBackupLost = errors.New("the writing connection was replaced meanwhile; try again")

// liveBackup is a backup under way. Only a leader touches it.
//
// It reads through the writing connection, in steps between batches: SQLite
// then carries every later commit over to the pages already copied, so the
// backup is of the moment at which it ends, and neither holds a snapshot that
// would keep the log from being reset nor starts over for a busy writer.
type liveBackup struct {
	b   *sqlite.Backup
	err error // why it ended early
}

// Backup writes a copy of the database to file, which must not exist, while
// the store goes on working. The copy is consistent, verified, durable when
// Backup returns, and a single file; it appears under its name only then. It
// carries the flag that begins a new epoch wherever it is opened, so that it
// may be restored by Restore or by copying it back. progress, if not nil, is
// called with bytes.
func (s *Store) Backup(ctx context.Context, file string, progress func(done, total int64)) (err error) {
	switch _, err := os.Stat(file); {
	case err == nil:
		return fmt.Errorf("backup: %s exists already", file)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("backup: %w", err)
	}
	partial := file + ".partial"
	f, err := os.OpenFile(partial, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("backup: %w", err), os.Remove(partial))
		}
	}()
	if err := f.Close(); err != nil {
		return err
	}
	if err := s.copyTo(ctx, partial, progress); err != nil {
		return err
	}
	if err := flagNewEpoch(dsn{path: partial, vfs: s.dsn.vfs}); err != nil {
		return err
	}
	if err := verify(ctx, dsn{path: partial, vfs: s.dsn.vfs}); err != nil {
		return err
	}
	if err := syncFile(partial); err != nil {
		return err
	}
	if err := os.Rename(partial, file); err != nil {
		return err
	}
	return syncDir(filepath.Dir(file))
}

// copyTo copies the database into the empty file dest.
func (s *Store) copyTo(ctx context.Context, dest string, progress func(done, total int64)) error {
	// No journal and no syncs: until the rename the copy is nobody's.
	name := dsn{path: dest, vfs: s.dsn.vfs}.name(pragmas("journal_mode", "OFF", "synchronous", "OFF")...)
	var live *liveBackup
	err := s.exclusive(ctx, func() (err error) {
		live, err = s.beginBackup(name)
		return err
	})
	for more := err == nil; more && err == nil; {
		err = s.exclusive(ctx, func() (err error) {
			more, err = live.step(progress)
			return err
		})
	}
	if live == nil {
		return err
	}
	ended := s.exclusive(background, func() error { return s.endBackup(live) })
	if errors.Is(ended, ErrClosed) {
		<-s.closed // Close has ended it
	}
	return errors.Join(err, ended)
}

func (s *Store) beginBackup(name string) (*liveBackup, error) {
	if s.backup != nil {
		return nil, errors.New("another backup is under way")
	}
	if s.writer == nil {
		if err := s.reopen(); err != nil {
			return nil, err
		}
	}
	b, err := s.writer.raw.NewBackup(name)
	if err != nil {
		return nil, err
	}
	s.backup = &liveBackup{b: b}
	return s.backup, nil
}

func (l *liveBackup) step(progress func(done, total int64)) (more bool, err error) {
	if l.err != nil {
		return false, l.err
	}
	if more, err = l.b.Step(backupStep); err != nil {
		return false, err
	}
	if progress != nil {
		total := int64(l.b.PageCount())
		progress((total-int64(l.b.Remaining()))*pageSize, total*pageSize)
	}
	return more, nil
}

// endBackup releases the backup and its file. The writing connection must not
// be closed before.
func (s *Store) endBackup(l *liveBackup) error {
	if s.backup != l {
		return l.err
	}
	s.backup = nil
	return l.b.Finish()
}

// loseBackup ends a backup under way because its connection is given up.
func (s *Store) loseBackup() {
	if s.backup == nil {
		return
	}
	s.backup.err = errors.Join(errBackupLost, s.backup.b.Finish())
	s.backup = nil
}

// flagNewEpoch marks a copy, and makes it the single file that a backup is.
func flagNewEpoch(d dsn) error {
	c, err := openConn(d.name(pragmas("journal_mode", "DELETE", "synchronous", "FULL")...))
	if err != nil {
		return err
	}
	return errors.Join(c.run("UPDATE position SET new_epoch = 1"), c.close())
}

// verify checks that the file is a whole database of this program.
func verify(ctx context.Context, d dsn) error {
	c, err := openConn(d.name("mode=ro", "immutable=1"))
	if err != nil {
		return err
	}
	err = func() error {
		id, err := c.number("PRAGMA application_id")
		if err != nil {
			return err
		}
		if id != applicationID {
			return errors.New("it is not a database of this program")
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return c.each("PRAGMA integrity_check(5)", func(v []driver.Value) error {
			if v[0] != "ok" {
				return fmt.Errorf("it is damaged: %v", v[0])
			}
			return nil
		})
	}()
	return errors.Join(err, c.close())
}

func syncFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

const (
	autoBackupInfix = ".before-schema-"
	autoBackupsKept = 2
)

// backupBeforeMigration keeps the file as it was before an upgrade, beside it.
// One upgrade takes one backup, however many migrations it runs: going back
// means going back to the version before.
func (s *Store) backupBeforeMigration(ctx context.Context, newest int64) error {
	file := s.dsn.path + autoBackupInfix + strconv.FormatInt(newest, 10)
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // of an upgrade that failed half-way
	}
	if err := s.Backup(ctx, file, nil); err != nil {
		return err
	}
	old, err := filepath.Glob(s.dsn.path + autoBackupInfix + "*")
	if err != nil {
		return err
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(name[strings.LastIndex(name, "-")+1:]) // a stranger's file sorts first
		return n
	}
	slices.SortFunc(old, func(a, b string) int { return number(a) - number(b) })
	for len(old) > autoBackupsKept {
		if err := os.Remove(old[0]); err != nil {
			return err
		}
		old = old[1:]
	}
	return nil
}
