package server

import (
	"context"

	"hearth/storage/matrix"
)

// ExportKey returns the signing key in use, in the form of Synapse's
// signing.key files. Who has it can speak for this server.
func (a *Admin) ExportKey(ctx context.Context) (string, error) {
	return do[string](ctx, a, "key-export", none{}, nil)
}

func exportKey(_ context.Context, s *Server, _ none, _ Progress) (string, error) {
	return s.keys.Export().Reveal(), nil
}

// ImportKey signs with the first key of such a file from now on, and returns
// its ID. The key that was in use, and further keys of the file, are old ones.
func (a *Admin) ImportKey(ctx context.Context, file string) (matrix.KeyID, error) {
	return do[matrix.KeyID](ctx, a, "key-import", file, nil)
}

func importKey(ctx context.Context, s *Server, file string, _ Progress) (matrix.KeyID, error) {
	return s.keys.Import(ctx, matrix.Token(file))
}

// RotateKey makes a new signing key and returns its ID. The old one still
// verifies what it signed.
func (a *Admin) RotateKey(ctx context.Context) (matrix.KeyID, error) {
	return do[matrix.KeyID](ctx, a, "key-rotate", none{}, nil)
}

func rotateKey(ctx context.Context, s *Server, _ none, _ Progress) (matrix.KeyID, error) {
	return s.keys.Rotate(ctx)
}
