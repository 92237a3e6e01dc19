package storage

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"hearth/storage/matrix"
)

var (
	readState   = stmt(`SELECT pos, epoch, new_epoch, age_ms, wall_ms FROM position WHERE id = 1`)
	setEpoch    = stmt(`UPDATE position SET epoch = ?, new_epoch = 0 WHERE id = 1`)
	readMeta    = stmt(`SELECT value FROM meta WHERE name = ?`)
	insertMeta  = stmt(`INSERT INTO meta (name, value) VALUES (?, ?)`)
	metaServer  = "server_name"
	epochStride = int64(1) << 36 // more positions than a lost history can have published
)

// epochSteps is what must happen in the transaction that begins a new epoch,
// in order: everything that the lost history may have handed out a second time
// otherwise. A table's owner adds its step here.
var epochSteps = []struct {
	why string
	fn  func(*Tx) error
}{}

// ErrServerName is returned by Open where the file belongs to another server name.
var ErrServerName = errors.New("storage: the database belongs to another server name")

// load reads the position, the epoch and the clock, and begins a new epoch in a
// file that is new or a backup.
func (s *Store) load() error {
	rx := s.newRx(s.writer)
	var pos, age, wall int64
	var fresh bool
	if err := rx.row(readState, nil, &pos, &s.epoch, &fresh, &age, &wall); err != nil {
		return fmt.Errorf("read the position: %w", err)
	}
	s.position.load(pos)
	s.age.load(age, wall)
	if err := s.checkName(rx); err != nil {
		return err
	}
	if !fresh {
		return nil
	}
	return s.beginEpoch(s.epoch != 0)
}

// beginEpoch starts a new history. Its name is random: restoring one backup
// twice must give two epochs.
func (s *Store) beginEpoch(restored bool) error {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	s.epoch = int64(binary.BigEndian.Uint64(b[:])>>16) | 1
	err := s.Write(context.Background(), "new epoch", func(tx *Tx) error {
		if restored {
			s.position.next += epochStride
			for _, step := range epochSteps {
				if err := step.fn(tx); err != nil {
					return fmt.Errorf("%s: %w", step.why, err)
				}
			}
		}
		_, err := tx.exec(setEpoch, s.epoch)
		return err
	})
	if err != nil {
		return fmt.Errorf("begin a new epoch: %w", err)
	}
	if restored {
		s.log.Warn("the database was restored from a backup: a new epoch begins", zap.Int64("pos", s.Pos()))
	}
	return nil
}

// checkName holds the file to one server name. Where the caller gave none, it
// is the file's.
func (s *Store) checkName(rx *Rx) error {
	var name matrix.ServerName
	err := rx.row(readMeta, []any{metaServer}, &name)
	switch {
	case errors.Is(err, ErrNotFound) && s.name != "":
		return s.Write(context.Background(), "server name", func(tx *Tx) error {
			_, err := tx.exec(insertMeta, metaServer, s.name)
			return err
		})
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read the server name: %w", err)
	case s.name == "":
		s.name = name
	case s.name != name:
		return fmt.Errorf("%w: %s, not %s", ErrServerName, name, s.name)
	}
	return nil
}
