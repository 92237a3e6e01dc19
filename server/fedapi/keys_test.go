package fedapi_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"hearth/federation/keyring"
	"hearth/server/fedapi"
	"hearth/server/web"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
)

func TestMain(m *testing.M) {
	// net/http keeps a connection that it has refused for half a second.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// world is the servers that answer for their keys, all with one key.
type world struct {
	key   ed25519.PrivateKey
	names map[matrix.ServerName]bool
}

func (w world) ServerKeys(_ context.Context, server matrix.ServerName) ([]byte, error) {
	if !w.names[server] {
		return nil, errors.New("no answer")
	}
	text := fmt.Sprintf(`{"server_name":%q,"verify_keys":{"ed25519:1":{"key":%q}},"old_verify_keys":{},"valid_until_ts":%d}`,
		server, matrix.EncodeBase64(w.key.Public().(ed25519.PublicKey)), time.Now().Add(time.Hour).UnixMilli())
	return matrix.SignJSON([]byte(text), matrix.Signer{Server: server, KeyID: "ed25519:1", Key: w.key})
}

func (world) QueryKeys(context.Context, matrix.ServerName, []byte) ([]byte, error) {
	return nil, errors.New("no answer")
}

// serve runs the surface beside servers of these names.
func serve(t *testing.T, opt fedapi.Options, names ...matrix.ServerName) (*keyring.Ring, *httptest.Server) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := world{key, map[matrix.ServerName]bool{}}
	for _, n := range names {
		w.names[n] = true
	}
	ring, err := keyring.Open(t.Context(), storagetest.Open(t), w, keyring.Options{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Close)
	api := fedapi.New(fedapi.Deps{Server: storagetest.ServerName, Keys: ring, Options: opt, Log: zap.NewNop()})
	k := web.New(web.Options{Peers: ring})
	k.Routes(api.Routes())
	k.Routes(api.Discovery())
	s := httptest.NewServer(k.Handler())
	t.Cleanup(s.Close)
	return ring, s
}

func call(t *testing.T, s *httptest.Server, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestServerKeys(t *testing.T) {
	t.Parallel()
	ring, s := serve(t, fedapi.Options{})
	for range 2 {
		signer := ring.Signer()
		status, text := call(t, s, "GET", "/_matrix/key/v2/server", "")
		if err := matrix.VerifyJSON([]byte(text), storagetest.ServerName, signer.KeyID, signer.Key.Public().(ed25519.PublicKey)); status != 200 || err != nil {
			t.Errorf("got %d %s: %v", status, text, err)
		}
		if _, err := ring.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNotary: both forms answer for the servers that can be had, each
// statement signed by it and by us.
func TestNotary(t *testing.T) {
	t.Parallel()
	ring, s := serve(t, fedapi.Options{}, "a.test", "b.test")
	signer := ring.Signer()
	check := func(what string, status int, text string, want ...matrix.ServerName) {
		t.Helper()
		var answer struct {
			Keys []jsontext.Value `json:"server_keys"`
		}
		if err := json.Unmarshal([]byte(text), &answer); status != 200 || err != nil || answer.Keys == nil {
			t.Fatalf("%s: got %d %s", what, status, text)
		}
		found := map[matrix.ServerName]bool{}
		for _, raw := range answer.Keys {
			var in struct {
				Server matrix.ServerName `json:"server_name"`
			}
			if err := json.Unmarshal(raw, &in); err != nil {
				t.Fatal(err)
			}
			found[in.Server] = true
			if err := matrix.VerifyJSON(raw, storagetest.ServerName, signer.KeyID, signer.Key.Public().(ed25519.PublicKey)); err != nil {
				t.Errorf("%s: our signature of %s: %v", what, in.Server, err)
			}
			if !strings.Contains(string(raw), `"`+string(in.Server)+`":{"ed25519:`) {
				t.Errorf("%s: %s has not signed: %s", what, in.Server, raw)
			}
		}
		if len(found) != len(want) || len(answer.Keys) != len(want) {
			t.Errorf("%s: got %v, want %v", what, found, want)
		}
		for _, name := range want {
			if !found[name] {
				t.Errorf("%s: %s is missing", what, name)
			}
		}
	}
	get := func(path string) (int, string) { return call(t, s, "GET", "/_matrix/key/v2/query/"+path, "") }
	status, text := get("a.test")
	check("one", status, text, "a.test")
	status, text = get("a.test?minimum_valid_until_ts=99999999999999")
	check("valid for longer than can be had", status, text, "a.test")
	status, text = get("gone.test")
	check("one that is gone", status, text)
	status, text = get(storagetest.ServerName)
	check("ourselves", status, text, storagetest.ServerName)

	post := func(body string) (int, string) { return call(t, s, "POST", "/_matrix/key/v2/query", body) }
	status, text = post(`{"server_keys":{"a.test":{},"gone.test":{},"no/name":{},"b.test":{"ed25519:1":{"minimum_valid_until_ts":1},"ed25519:2":{}},"` + storagetest.ServerName + `":{}}}`)
	check("many", status, text, "a.test", "b.test", storagetest.ServerName)
	status, text = post(`{"server_keys":{}}`)
	check("none", status, text)
	for body, want := range map[string]string{
		`{}`:                 "M_MISSING_PARAM",
		`{"server_keys":[]}`: "M_BAD_JSON",
		`{"server_keys":{` + strings.Repeat(" ", 64<<10) + `}}`: "M_TOO_LARGE",
	} {
		if status, text = post(body); status/100 != 4 || !strings.Contains(text, want) {
			t.Errorf("%.30s: got %d %s, want %s", body, status, text, want)
		}
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	_, s := serve(t, fedapi.Options{Delegate: "matrix.test:443", Version: "1"})
	if status, text := call(t, s, "GET", "/.well-known/matrix/server", ""); status != 200 || text != `{"m.server":"matrix.test:443"}` {
		t.Errorf("got %d %s", status, text)
	}
	if status, text := call(t, s, "GET", "/_matrix/federation/v1/version", ""); status != 200 || text != `{"server":{"name":"Hearth","version":"1"}}` {
		t.Errorf("got %d %s", status, text)
	}
	_, s = serve(t, fedapi.Options{})
	if status, text := call(t, s, "GET", "/.well-known/matrix/server", ""); status != 404 || !strings.Contains(text, "M_NOT_FOUND") {
		t.Errorf("got %d %s", status, text)
	}
}
