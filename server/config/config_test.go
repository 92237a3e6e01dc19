package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"hearth/server/config"
)

const example = "../../homeserver.toml"

func TestFileEqualsDefaults(t *testing.T) {
	got, err := config.Load(example, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := config.Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("homeserver.toml differs from the defaults:\n got %+v\nwant %+v", got, want)
	}
}

func TestFileHasEveryKeyWithAComment(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := toml.Decode(string(text), &map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range config.Keys() {
		if !meta.IsDefined(strings.Split(key, ".")...) {
			t.Errorf("homeserver.toml does not have %s", key)
		}
	}
}

// TestFixedNames holds the names that packagers and test harnesses rely on.
func TestFixedNames(t *testing.T) {
	keys := config.Keys()
	for _, want := range []string{
		"server.name", "server.data_dir", "server.public_url", "listen.client", "listen.federation",
		"tls.cert", "tls.key", "registration.mode", "registration.shared_secret", "registration.min_password_length",
		"to_device.max_messages_per_device", "to_device.max_bytes_per_device", "to_device.message_ttl",
		"to_device.sync_batch", "to_device.mirror_bytes", "rate_limits.enabled", "security.federation.enabled",
		"security.federation.allow_private_addresses", "security.federation.ca_file", "log.level", "log.format",
		"metrics.listen", "limits.memory",
	} {
		if !slices.Contains(keys, want) {
			t.Errorf("no key %s", want)
		}
	}
	if got, want := config.EnvName("security.federation.enabled"), "HEARTH_SECURITY_FEDERATION_ENABLED"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func load(t *testing.T, text string, env map[string]string) (config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "homeserver.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(path, func(k string) (string, bool) { v, ok := env[k]; return v, ok })
}

func TestBadConfiguration(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string // each must be named
	}{
		{"syntax", "[server\n", []string{"homeserver.toml", "line 2"}},
		{"unknown section", "[servre]\nname = 'x'\n", []string{"servre: unknown key"}},
		{"unknown key", "[server]\nnmae = 'x'\n", []string{"server.nmae: unknown key"}},
		{"unknown nested", "[security.federation]\non = true\n[security.x]\n", []string{"security.federation.on: unknown", "security.x: unknown"}},
		{"case", "[server]\nName = 'x'\n", []string{"server.Name: unknown key"}},
		{"not a section", "server = 1\n", []string{"server: want a section"}},
		{"section for a key", "[server.name]\nx = 1\n", []string{"server.name: want a string"}},
		{"string", "[server]\nname = 1\ndata_dir = ['x']\npublic_url = false\n", []string{"server.name: want a string", "server.data_dir: want", "server.public_url: want"}},
		{"bool", "[rate_limits]\nenabled = 'yes'\n", []string{"rate_limits.enabled: want true or false"}},
		{"int", "[to_device]\nsync_batch = '1'\nmax_messages_per_device = 1.5\n", []string{"to_device.sync_batch: want an integer", "to_device.max_messages_per_device: want an integer"}},
		{"list", "[listen]\nclient = ':1'\nfederation = [1]\n", []string{"listen.client: want a list", "listen.federation: want a list"}},
		{"number", "[rate_limits.login]\nper_second = 'x'\n", []string{"rate_limits.login.per_second: want a number"}},
		{"size", "[limits]\nmemory = '64 apples'\n[to_device]\nmirror_bytes = -1\nmax_bytes_per_device='9999999999TiB'\n", []string{"limits.memory", "to_device.mirror_bytes", "to_device.max_bytes_per_device"}},
		{"duration", "[to_device]\nmessage_ttl = 365\n[voip]\nturn_ttl = '-1h'\n", []string{"to_device.message_ttl: want a duration", "voip.turn_ttl"}},
		{"values", "[server]\nname='a b'\ndata_dir=''\npublic_url='ftp://x'\n[listen]\nclient=[]\nfederation=['x', ':99999']\ntrusted_proxies=['home']\n",
			[]string{"server.name", "server.data_dir", "server.public_url", "listen.client", "listen.federation: \"x\"", "listen.federation: \":99999\"", "listen.trusted_proxies"}},
		{"twice", "[listen]\nclient=[':1',':1']\n", []string{"listen.client: \":1\" stands there twice"}},
		{"unix", "[listen]\nclient=['unix:']\n", []string{"listen.client"}},
		{"half of TLS", "[tls]\ncert='x'\n", []string{"tls.key"}},
		{"other half", "[tls]\nkey='x'\n", []string{"tls.cert"}},
		{"registration", "[registration]\nmode='maybe'\nmin_password_length=0\nterms_url='https://x'\nterms_version=''\n",
			[]string{"registration.mode", "registration.min_password_length", "registration.terms_name", "registration.terms_version"}},
		{"sessions", "[sessions]\naccess_token_lifetime='0s'\nrefresh_token_lifetime='0s'\n", []string{"sessions.access_token_lifetime", "sessions.refresh_token_lifetime"}},
		{"bounds", "[to_device]\nmax_messages_per_device=1\nmax_bytes_per_device=1\nmessage_ttl='1h'\nsync_batch=0\n[federation]\nmax_queued_bytes_per_server=0\n[limits]\nmemory=1\n",
			[]string{"max_messages_per_device", "max_bytes_per_device", "message_ttl", "sync_batch", "max_queued_bytes_per_server", "limits.memory"}},
		{"rates", "[rate_limits.login]\nper_second=0\nburst=0\n[rate_limits.sending]\nper_second=nan\n[rate_limits.registration]\nper_second=inf\n",
			[]string{"rate_limits.login.per_second", "rate_limits.login.burst", "rate_limits.sending.per_second", "rate_limits.registration.per_second"}},
		{"voip", "[voip]\nturn_uris=['http://x']\nturn_ttl='0s'\n", []string{"voip.turn_uris", "voip.turn_shared_secret", "voip.turn_ttl"}},
		{"support", "[support]\nemail='me'\nmatrix_id='me'\npage='me'\n", []string{"support.email", "support.matrix_id", "support.page"}},
		{"log", "[log]\nlevel='loud'\nformat='xml'\n[metrics]\nlisten='x'\n", []string{"log.level", "log.format", "metrics.listen"}},
		{"all at once", "x=1\n[server]\nname=1\n[log]\nlevel='loud'\n", []string{"x: unknown", "server.name: want", "log.level"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, tt.text, nil)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not name %q", err, want)
				}
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	c, err := load(t, "[server]\nname='file.test'\n[log]\nlevel='warn'\n", map[string]string{
		"HEARTH_SERVER_NAME":                 "env.test",
		"HEARTH_LISTEN_CLIENT":               "127.0.0.1:0, unix:/run/hearth.sock",
		"HEARTH_LISTEN_TRUSTED_PROXIES":      "",
		"HEARTH_SECURITY_FEDERATION_ENABLED": "false",
		"HEARTH_TO_DEVICE_MESSAGE_TTL":       "2d12h",
		"HEARTH_TO_DEVICE_SYNC_BATCH":        "7",
		"HEARTH_LIMITS_MEMORY":               "1GiB",
		"HEARTH_RATE_LIMITS_LOGIN_BURST":     "3",
		"HEARTH_REGISTRATION_SHARED_SECRET":  "s3cret",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Server.Name = "env.test"
	want.Log.Level = "warn"
	want.Listen.Client = []string{"127.0.0.1:0", "unix:/run/hearth.sock"}
	want.Listen.TrustedProxies = []string{}
	want.Security.Federation.Enabled = false
	want.ToDevice.MessageTTL = config.Duration(60 * time.Hour)
	want.ToDevice.SyncBatch = 7
	want.Limits.Memory = 1 << 30
	want.RateLimits.Login.Burst = 3
	want.Registration.SharedSecret = "s3cret"
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v\nwant %+v", c, want)
	}
	_, err = load(t, "", map[string]string{"HEARTH_RATE_LIMITS_ENABLED": "perhaps", "HEARTH_SERVER_NAME": " ", "HEARTH_TO_DEVICE_SYNC_BATCH": "x"})
	for _, name := range []string{"HEARTH_RATE_LIMITS_ENABLED", "server.name", "HEARTH_TO_DEVICE_SYNC_BATCH"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}

func TestSet(t *testing.T) {
	c := config.Default()
	if err := c.Set("listen.client", ":0"); err != nil || len(c.Listen.Client) != 1 || c.Listen.Client[0] != ":0" {
		t.Errorf("got %v, %v", c.Listen.Client, err)
	}
	if err := c.Set("listen.nothing", ":0"); err == nil {
		t.Error("set an unknown key")
	}
}

func TestMissingFile(t *testing.T) {
	if _, err := config.Load(filepath.Join(t.TempDir(), "none.toml"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]config.Size{"0": 0, "1": 1, "64MiB": 64 << 20, "1 GB": 1e9, "3KiB": 3072, "2B": 2} {
		var got config.Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
		var again config.Size
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != want {
			t.Errorf("%q: printed as %s", text, got)
		}
	}
	for text, want := range map[string]time.Duration{"0s": 0, "365d": 365 * 24 * time.Hour, "1d1h": 25 * time.Hour, "90s": 90 * time.Second} {
		var got config.Duration
		if err := got.UnmarshalText([]byte(text)); err != nil || time.Duration(got) != want {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1s", "1.5d", "d", "1y", "999999999999d", "106751d999999h"} {
		var d config.Duration
		if err := d.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("duration %q accepted as %s", text, d)
		}
	}
}
