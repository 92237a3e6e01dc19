package matrix

// Token is a secret: an access, refresh, registration or login token or a
// password. It prints and logs as "[redacted]"; only Reveal yields the value,
// so that every place a secret can leak from is found by searching for it.
type Token string

// Reveal yields the secret itself.
func (t Token) Reveal() string { return string(t) }

// String implements fmt.Stringer.
func (Token) String() string { return "[redacted]" }

// GoString implements fmt.GoStringer.
func (Token) GoString() string { return "[redacted]" }

// MarshalText implements encoding.TextMarshaler, so that zap and JSON logs redact too.
func (Token) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }
