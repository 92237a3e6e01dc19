package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"hearth/storage/matrix"
)

// check gathers problems, each under its key.
type check struct{ problems []error }

func (c *check) that(ok bool, key, format string, args ...any) {
	if !ok {
		c.problems = append(c.problems, fmt.Errorf("%s: "+format, append([]any{key}, args...)...))
	}
}

func (c *check) oneOf(value, key string, allowed ...string) {
	c.that(slices.Contains(allowed, value), key, "%q is none of %s", value, strings.Join(allowed, ", "))
}

// Validate reports every bad value at once.
func (c *Config) Validate() error {
	var k check
	k.serverName(c.Server.Name, "server.name")
	k.that(c.Server.DataDir != "", "server.data_dir", "want a directory")
	k.url(c.Server.PublicURL, "server.public_url")
	if c.Server.Delegate != "" {
		k.serverName(c.Server.Delegate, "server.delegate")
	}
	for _, name := range c.Federation.TrustedKeyServers {
		k.serverName(name, "federation.trusted_key_servers")
	}
	c.validateListen(&k)
	c.validateAccounts(&k)
	c.validateLimits(&k)
	for _, uri := range c.VoIP.TurnURIs {
		scheme, rest, _ := strings.Cut(uri, ":")
		k.that((scheme == "turn" || scheme == "turns" || scheme == "stun" || scheme == "stuns") && rest != "",
			"voip.turn_uris", "%q is not like \"turn:turn.example.org?transport=udp\"", uri)
	}
	k.that(len(c.VoIP.TurnURIs) == 0 || c.VoIP.TurnSharedSecret != "", "voip.turn_shared_secret", "needed with voip.turn_uris")
	k.that(c.VoIP.TurnTTL > 0, "voip.turn_ttl", "must be positive")
	c.validateSupport(&k)
	k.oneOf(c.Log.Level, "log.level", "debug", "info", "warn", "error")
	k.oneOf(c.Log.Format, "log.format", "console", "json")
	return errors.Join(k.problems...)
}

func (c *Config) validateListen(k *check) {
	k.that(len(c.Listen.Client) > 0, "listen.client", "want at least one address")
	k.addresses(c.Listen.Client, "listen.client")
	k.addresses(c.Listen.Federation, "listen.federation")
	if c.Metrics.Listen != "" {
		k.addresses([]string{c.Metrics.Listen}, "metrics.listen")
	}
	for _, p := range c.Listen.TrustedProxies {
		_, err := ParsePrefix(p)
		k.that(err == nil, "listen.trusted_proxies", "%q is neither an address nor a network such as \"10.0.0.0/8\"", p)
	}
	k.that(c.TLS.Cert == "" || c.TLS.Key != "", "tls.key", "needed with tls.cert")
	k.that(c.TLS.Key == "" || c.TLS.Cert != "", "tls.cert", "needed with tls.key")
}

func (c *Config) validateAccounts(k *check) {
	r := c.Registration
	k.oneOf(r.Mode, "registration.mode", "closed", "token", "open")
	k.that(r.MinPasswordLength >= 1 && r.MinPasswordLength <= 512, "registration.min_password_length", "must be 1 to 512")
	k.url(r.TermsURL, "registration.terms_url")
	k.that(r.TermsURL == "" || r.TermsName != "", "registration.terms_name", "needed with registration.terms_url")
	k.that(r.TermsURL == "" || r.TermsVersion != "", "registration.terms_version", "needed with registration.terms_url")
	k.that(c.Sessions.AccessTokenLifetime > 0, "sessions.access_token_lifetime", "must be positive")
	k.that(c.Sessions.RefreshTokenLifetime > c.Sessions.AccessTokenLifetime, "sessions.refresh_token_lifetime",
		"must be longer than sessions.access_token_lifetime")
}

func (c *Config) validateLimits(k *check) {
	d := c.ToDevice
	k.that(d.MaxMessagesPerDevice >= 100, "to_device.max_messages_per_device", "must be at least 100")
	k.that(d.MaxBytesPerDevice >= 1<<20, "to_device.max_bytes_per_device", "must be at least 1MiB")
	k.that(d.MessageTTL >= Duration(day), "to_device.message_ttl", "must be at least 1d")
	k.that(d.SyncBatch >= 1 && d.SyncBatch <= 1000, "to_device.sync_batch", "must be 1 to 1000")
	k.that(d.MaxRecipients >= 100, "to_device.max_recipients", "must be at least 100")
	k.that(d.MaxRequestBytes >= 64<<10 && d.MaxRequestBytes <= 1<<30, "to_device.max_request_bytes", "must be 64KiB to 1GiB")
	k.that(d.MirrorBytes >= 64<<10 && d.MirrorBytes <= 1<<40, "to_device.mirror_bytes", "must be 64KiB to 1TiB")
	k.that(c.AccountData.MaxEntriesPerUser >= 100, "account_data.max_entries_per_user", "must be at least 100")
	k.that(c.Rooms.MaxInitialState >= 20, "rooms.max_initial_state", "must be at least 20")
	k.that(c.Rooms.MaxInvites >= 10, "rooms.max_invites", "must be at least 10")
	k.that(c.Rooms.MaxAliases >= 1, "rooms.max_aliases", "must be at least 1")
	k.that(c.AccountData.MaxBytesPerUser >= 64<<10, "account_data.max_bytes_per_user", "must be at least 64KiB")
	k.that(c.Federation.MaxQueuedBytesPerServer >= 1<<20, "federation.max_queued_bytes_per_server", "must be at least 1MiB")
	k.that(c.Federation.MaxRememberedBytes >= 16<<20, "federation.max_remembered_bytes", "must be at least 16MiB")
	k.that(c.Federation.MaxRememberedBytesPerServer >= 1<<20, "federation.max_remembered_bytes_per_server", "must be at least 1MiB")
	k.that(c.Limits.Memory == 0 || c.Limits.Memory >= 64<<20, "limits.memory", "must be 0 or at least 64MiB")
	k.rate(c.RateLimits.Login, "rate_limits.login")
	k.rate(c.RateLimits.Registration, "rate_limits.registration")
	k.rate(c.RateLimits.Sending, "rate_limits.sending")
	k.rate(c.RateLimits.Federation, "rate_limits.federation")
	k.rate(c.RateLimits.KeyQueries, "rate_limits.key_queries")
}

func (c *Config) validateSupport(k *check) {
	s := c.Support
	if s.Email != "" {
		a, err := mail.ParseAddress(s.Email)
		k.that(err == nil && a.Address == s.Email, "support.email", "%q is not a mail address", s.Email)
	}
	if s.MatrixID != "" {
		_, err := matrix.ParseUserID(s.MatrixID)
		k.that(err == nil, "support.matrix_id", "%q is not a user ID", s.MatrixID)
	}
	k.url(s.Page, "support.page")
}

func (c *check) serverName(s, key string) {
	_, err := matrix.ParseServerName(s)
	c.that(err == nil, key, "%q is not a server name", s)
}

func (c *check) rate(r Rate, key string) {
	c.that(r.PerSecond > 0 && !math.IsInf(r.PerSecond, 0), key+".per_second", "must be a positive number")
	c.that(r.Burst >= 1, key+".burst", "must be at least 1")
}

func (c *check) url(s, key string) {
	if s == "" {
		return
	}
	u, err := url.Parse(s)
	c.that(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.RawQuery == "" && u.Fragment == "",
		key, "%q is not a URL such as \"https://matrix.example.org\"", s)
}

func (c *check) addresses(list []string, key string) {
	for i, a := range list {
		c.that(!slices.Contains(list[:i], a) || strings.HasSuffix(a, ":0"), key, "%q stands there twice", a)
		if path, ok := strings.CutPrefix(a, "unix:"); ok {
			c.that(path != "", key, "%q names no path", a)
			continue
		}
		_, port, err := net.SplitHostPort(a)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		c.that(err == nil, key, "%q is neither \"host:port\" nor \"unix:path\"", a)
	}
}

// ParsePrefix reads a network or, as one of a single address, an address.
func ParsePrefix(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}
