package storage

import "context"

func (s *Store) backupBeforeMigration(ctx context.Context, have, want int64) error { return nil }
