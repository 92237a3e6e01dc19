// Package config is the operator's configuration: its keys, defaults, decoding
// and validation. It reads a TOML file and, through a function it is given, the
// environment; it opens nothing and starts nothing. Sections are named for
// operators, and a package is handed its own options, never all of this.
package config

import (
	"time"

	"hearth/storage/matrix"
)

// Config is the whole configuration. homeserver.toml documents every key.
type Config struct {
	Server       Server       `toml:"server"`
	Listen       Listen       `toml:"listen"`
	TLS          TLS          `toml:"tls"`
	Registration Registration `toml:"registration"`
	Sessions     Sessions     `toml:"sessions"`
	ToDevice     ToDevice     `toml:"to_device"`
	AccountData  AccountData  `toml:"account_data"`
	Rooms        Rooms        `toml:"rooms"`
	Federation   Federation   `toml:"federation"`
	RateLimits   RateLimits   `toml:"rate_limits"`
	Security     Security     `toml:"security"`
	VoIP         VoIP         `toml:"voip"`
	Support      Support      `toml:"support"`
	Log          Log          `toml:"log"`
	Metrics      Metrics      `toml:"metrics"`
	Limits       Limits       `toml:"limits"`
}

// Server says who the server is and where it keeps its data.
type Server struct {
	Name      string `toml:"name"`
	DataDir   string `toml:"data_dir"`
	PublicURL string `toml:"public_url"`
	Delegate  string `toml:"delegate"`
}

// Listen says where requests arrive: "host:port", port 0 for any free one, or "unix:path".
type Listen struct {
	Client         []string `toml:"client"`
	Federation     []string `toml:"federation"`
	TrustedProxies []string `toml:"trusted_proxies"`
}

// TLS names the certificate of all TCP listeners. Empty: plain HTTP.
type TLS struct {
	Cert string `toml:"cert"`
	Key  string `toml:"key"`
}

// Registration says who may make an account.
type Registration struct {
	Mode              string       `toml:"mode"` // closed, token or open
	SharedSecret      matrix.Token `toml:"shared_secret"`
	MinPasswordLength int          `toml:"min_password_length"`
	TermsName         string       `toml:"terms_name"`
	TermsURL          string       `toml:"terms_url"`
	TermsVersion      string       `toml:"terms_version"`
}

// Sessions bounds the life of tokens that clients refresh.
type Sessions struct {
	AccessTokenLifetime  Duration `toml:"access_token_lifetime"`
	RefreshTokenLifetime Duration `toml:"refresh_token_lifetime"`
}

// ToDevice bounds each device's inbox, and what one request may send.
type ToDevice struct {
	MaxMessagesPerDevice int      `toml:"max_messages_per_device"`
	MaxBytesPerDevice    Size     `toml:"max_bytes_per_device"`
	MessageTTL           Duration `toml:"message_ttl"`
	SyncBatch            int      `toml:"sync_batch"`
	MirrorBytes          Size     `toml:"mirror_bytes"`
	MaxRecipients        int      `toml:"max_recipients"`
	MaxRequestBytes      Size     `toml:"max_request_bytes"`
}

// AccountData bounds what clients may keep for themselves.
type AccountData struct {
	MaxEntriesPerUser int  `toml:"max_entries_per_user"`
	MaxBytesPerUser   Size `toml:"max_bytes_per_user"`
}

// Rooms bounds what one request may put into a new room, and what a room has
// beside its events.
type Rooms struct {
	MaxInitialState int `toml:"max_initial_state"`
	MaxInvites      int `toml:"max_invites"`
	MaxAliases      int `toml:"max_aliases"`
}

// Federation bounds what waits for other servers and what is remembered of
// them, and says who vouches for their keys.
type Federation struct {
	MaxQueuedBytesPerServer     Size     `toml:"max_queued_bytes_per_server"`
	MaxRememberedBytes          Size     `toml:"max_remembered_bytes"`
	MaxRememberedBytesPerServer Size     `toml:"max_remembered_bytes_per_server"`
	TrustedKeyServers           []string `toml:"trusted_key_servers"`
}

// RateLimits bounds how often one user, address or server may do something.
type RateLimits struct {
	Enabled      bool `toml:"enabled"`
	Login        Rate `toml:"login"`
	Registration Rate `toml:"registration"`
	Sending      Rate `toml:"sending"`
	Federation   Rate `toml:"federation"`
	KeyQueries   Rate `toml:"key_queries"`
}

// Rate is one rate limit: so many per second on average, so many at once.
type Rate struct {
	PerSecond float64 `toml:"per_second"`
	Burst     int     `toml:"burst"`
}

// Security groups what guards the server.
type Security struct {
	Federation SecurityFederation `toml:"federation"`
}

// SecurityFederation says whether and how the server talks to others.
type SecurityFederation struct {
	Enabled               bool   `toml:"enabled"`
	AllowPrivateAddresses bool   `toml:"allow_private_addresses"`
	CAFile                string `toml:"ca_file"`
}

// VoIP names the TURN servers that clients are told of.
type VoIP struct {
	TurnURIs         []string     `toml:"turn_uris"`
	TurnSharedSecret matrix.Token `toml:"turn_shared_secret"`
	TurnTTL          Duration     `toml:"turn_ttl"`
}

// Support is what /.well-known/matrix/support tells.
type Support struct {
	Email    string `toml:"email"`
	MatrixID string `toml:"matrix_id"`
	Page     string `toml:"page"`
}

// Log says what is logged and how.
type Log struct {
	Level  string `toml:"level"`  // debug, info, warn, error
	Format string `toml:"format"` // console or json
}

// Metrics says where Prometheus may read. Empty: nowhere.
type Metrics struct {
	Listen string `toml:"listen"`
}

// Limits bounds the process.
type Limits struct {
	Memory Size `toml:"memory"` // 0: what the container or machine has
}

const day = 24 * time.Hour

// Default is the complete configuration of a server that is told nothing.
func Default() Config {
	return Config{
		Server: Server{Name: "localhost", DataDir: "hearth-data"},
		Listen: Listen{
			Client:         []string{"127.0.0.1:8008"},
			Federation:     []string{},
			TrustedProxies: []string{"127.0.0.0/8", "::1/128"},
		},
		Registration: Registration{Mode: "closed", MinPasswordLength: 8, TermsVersion: "1"},
		Sessions: Sessions{
			AccessTokenLifetime:  Duration(time.Hour),
			RefreshTokenLifetime: Duration(90 * day),
		},
		ToDevice: ToDevice{
			MaxMessagesPerDevice: 10_000,
			MaxBytesPerDevice:    64 << 20,
			MessageTTL:           Duration(365 * day),
			SyncBatch:            100,
			MirrorBytes:          16 << 20,
			MaxRecipients:        10_000,
			MaxRequestBytes:      8 << 20,
		},
		AccountData: AccountData{MaxEntriesPerUser: 10_000, MaxBytesPerUser: 16 << 20},
		Rooms:       Rooms{MaxInitialState: 200, MaxInvites: 100, MaxAliases: 500},
		Federation:  Federation{MaxQueuedBytesPerServer: 256 << 20, MaxRememberedBytes: 2 << 30, MaxRememberedBytesPerServer: 256 << 20, TrustedKeyServers: []string{}},
		RateLimits: RateLimits{
			Enabled:      true,
			Login:        Rate{PerSecond: 0.2, Burst: 10},
			Registration: Rate{PerSecond: 0.2, Burst: 30},
			Sending:      Rate{PerSecond: 50, Burst: 300},
			Federation:   Rate{PerSecond: 100, Burst: 500},
			KeyQueries:   Rate{PerSecond: 1, Burst: 20},
		},
		Security: Security{Federation: SecurityFederation{Enabled: true}},
		VoIP:     VoIP{TurnURIs: []string{}, TurnTTL: Duration(day)},
		Log:      Log{Level: "info", Format: "console"},
	}
}
