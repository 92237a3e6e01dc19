package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Restore puts a backup in place of the database in dir, which is kept aside
// under a name ending in ".replaced". It refuses where a server has dir open
// (ErrLocked), and where the backup is damaged or not ours. The file appears
// in one step; its first opening begins a new epoch. progress, if not nil, is
// called with bytes.
func Restore(ctx context.Context, backup, dir string, progress func(done, total int64)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore: %w", err)
		}
	}()
	if err := makeDir(dir); err != nil {
		return err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()

	target := filepath.Join(dir, FileName)
	incoming := target + ".restoring"
	if err := removeSidecars(incoming); err != nil {
		return err
	}
	defer func() {
		if err != nil { // nobody else would: it is as big as the database
			err = errors.Join(err, removeSidecars(incoming), ignoreAbsent(os.Remove(incoming)))
		}
	}()
	if err := copyFile(ctx, backup, incoming, progress); err != nil {
		return err
	}
	d := dsn{path: incoming}
	// What is verified is the copy: it is what will be used. The flag is set
	// once more, in case the file was copied by other means than Backup.
	for _, step := range []func() error{
		func() error { return unusable(backup, verify(ctx, d)) },
		func() error { return flagNewEpoch(d) },
		func() error { return syncFile(incoming) },
		func() error { return setAside(target) },
		func() error { return os.Rename(incoming, target) },
		func() error { return syncDir(dir) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// unusable says which file it is that cannot be restored.
func unusable(backup string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s cannot be restored: %w", backup, err)
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeSidecars removes the journal and log that a restore left behind which
// was killed: SQLite would play them into the file that now gets their name.
func removeSidecars(path string) error {
	for _, suffix := range []string{"-journal", "-wal", "-shm"} {
		if err := ignoreAbsent(os.Remove(path + suffix)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(ctx context.Context, from, to string, progress func(done, total int64)) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	st, err := in.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", from)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for done := int64(0); ; {
		n, err := io.CopyN(out, in, 1<<20)
		done += n
		if progress != nil {
			progress(done, st.Size())
		}
		if errors.Is(err, io.EOF) {
			return out.Sync()
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
}

// setAside gives the database at path, if there is one, a second name that
// stays when another takes its place. It keeps the first until then, where the
// file system has links: a server started after a crash between two renames
// would find no database and begin an empty one. The log goes first into the
// file, where that is possible: a database that lost its log between two
// renames would lose commits, and a log that stayed behind would be played into
// the next database.
func setAside(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := emptyLog(path); err != nil {
		// A damaged file: keep both as they are.
		return keepDamaged(path)
	}
	aside := freeName(path + ".replaced")
	if os.Link(path, aside) == nil {
		return nil
	}
	return os.Rename(path, aside)
}

func keepDamaged(path string) error {
	aside := freeName(path + ".replaced")
	if err := os.Rename(path+"-wal", aside+"-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Remove(path + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(path, aside)
}

// emptyLog moves the log's content into the file and removes it.
func emptyLog(path string) error {
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	c, err := openConn(dsn{path: path}.name("mode=rw", "_busy_timeout=5000"))
	if err != nil {
		return err
	}
	// Closing the last connection removes the log.
	if err := errors.Join(c.run("PRAGMA wal_checkpoint(TRUNCATE)"), c.close()); err != nil {
		return err
	}
	if st, err := os.Stat(path + "-wal"); err == nil && st.Size() > 0 {
		return errors.New("the log is still there")
	}
	return nil
}

// freeName is name, or name with the first number that is not taken.
func freeName(name string) string {
	try := name
	for i := 2; ; i++ {
		if _, err := os.Lstat(try); errors.Is(err, fs.ErrNotExist) {
			return try
		}
		try = name + "-" + strconv.Itoa(i)
	}
}
