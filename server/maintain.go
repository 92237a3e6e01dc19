package server

import (
	"context"

	"hearth/server/config"
	"hearth/storage"
)

// Check returns what is wrong with the data: the database's integrity, the
// invariants of its tables, and whether memory agrees with it.
func (a *Admin) Check(ctx context.Context) ([]string, error) {
	return do[[]string](ctx, a, "check", none{}, nil)
}

func check(ctx context.Context, s *Server, _ none, _ Progress) ([]string, error) {
	problems := []string{}
	for _, p := range s.store.Check(ctx) {
		problems = append(problems, string(p))
	}
	if err := s.inbox.Check(ctx); err != nil {
		problems = append(problems, err.Error())
	}
	return problems, nil
}

// Backup writes a consistent and verified copy of the database to file, an
// absolute path as the server sees it, which must not exist.
func (a *Admin) Backup(ctx context.Context, file string, p Progress) error {
	_, err := do[none](ctx, a, "backup", file, p)
	return err
}

func backup(ctx context.Context, s *Server, file string, p Progress) (none, error) {
	return none{}, s.store.Backup(ctx, file, p)
}

// Restore makes the backup file the database of the configuration's data
// directory, which no server may have open. The database that was there is kept
// beside it under a name ending in ".replaced". The next start begins a new epoch.
func Restore(ctx context.Context, cfg config.Config, file string, p Progress) error {
	return storage.Restore(ctx, file, cfg.Server.DataDir, p)
}
