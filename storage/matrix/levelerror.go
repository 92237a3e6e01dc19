package matrix

// LevelError says which property of m.room.power_levels breaks the form that
// the room version demands. Authorization names its rule by it.
type LevelError struct {
	Property string // "users", "ban", …
	Err      error
}

// Error implements error.
func (e *LevelError) Error() string { return e.Property + ": " + e.Err.Error() }

// Unwrap gives errors.Is the cause.
func (e *LevelError) Unwrap() error { return e.Err }
