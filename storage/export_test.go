package storage

// What tests of this package from outside may reach into.

// WithSynchronous opens the file with another setting than FULL.
func (o Options) WithSynchronous(v string) Options {
	o.synchronous = v
	return o
}

// Exec runs a registered statement.
func (t *Tx) Exec(s *statement, args ...any) (int64, error) { return t.exec(s, args...) }

// Row runs a registered statement for one row.
func (r *Rx) Row(s *statement, args []any, dest ...any) error { return r.row(s, args, dest...) }
