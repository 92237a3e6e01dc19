package testserver

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage/matrix"
)

// Peer is a homeserver that does what a test wants: it answers for its key, and
// sends requests of any kind. It signs with code of its own.
type Peer struct {
	Name  matrix.ServerName
	KeyID matrix.KeyID
	Key   ed25519.PrivateKey

	tb         testing.TB
	http       *http.Client
	validUntil atomic.Int64 // milliseconds, as its keys say
	asked      atomic.Int64
}

// NewPeer starts a peer, whose key is valid for a day. It ends with the test.
func NewPeer(tb testing.TB, a *Authority, now time.Time) *Peer {
	tb.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Peer{KeyID: "ed25519:peer", Key: key, tb: tb}
	p.ValidUntil(now.Add(24 * time.Hour))
	srv := httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	srv.TLS, srv.Config.ErrorLog = a.server(), silent()
	srv.StartTLS()
	transport := &http.Transport{TLSClientConfig: a.client(), DisableCompression: true, ExpectContinueTimeout: time.Minute}
	p.http = &http.Client{Transport: transport}
	p.Name = matrix.ServerName(strings.TrimPrefix(srv.URL, "https://"))
	tb.Cleanup(func() {
		transport.CloseIdleConnections()
		srv.Close()
	})
	return p
}

// ValidUntil sets until when its statement of keys is valid.
func (p *Peer) ValidUntil(t time.Time) { p.validUntil.Store(t.UnixMilli()) }

// Asked is how often somebody asked for its keys.
func (p *Peer) Asked() int64 { return p.asked.Load() }

// serve tells the keys, and accepts whatever else comes.
func (p *Peer) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if r.URL.Path != "/_matrix/key/v2/server" {
		_, _ = w.Write([]byte(`{"pdus":{}}`))
		return
	}
	p.asked.Add(1)
	public := matrix.EncodeBase64(p.Key.Public().(ed25519.PublicKey))
	text := fmt.Sprintf(`{"server_name":%q,"verify_keys":{%q:{"key":%q}},"old_verify_keys":{},"valid_until_ts":%d}`,
		p.Name, p.KeyID, public, p.validUntil.Load())
	signed, err := matrix.SignJSON([]byte(text), matrix.Signer{Server: p.Name, KeyID: p.KeyID, Key: p.Key})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(signed)
}

// Direct is an m.direct_to_device EDU of a user of the peer.
func (p *Peer) Direct(user, id string, to *Client, content string) string {
	return fmt.Sprintf(`{"edu_type":"m.direct_to_device","content":{"sender":"@%s:%s","type":"m.test","message_id":%q,"messages":{%q:{%q:%s}}}}`,
		user, p.Name, id, to.UserID, to.DeviceID, content)
}

// Transaction is the body of a transaction with these EDUs.
func (p *Peer) Transaction(edus ...string) string {
	return fmt.Sprintf(`{"origin":%q,"origin_server_ts":1,"pdus":[],"edus":[%s]}`, p.Name, strings.Join(edus, ","))
}

// Send sends a transaction to a server and returns the answer.
func (p *Peer) Send(to *Server, txn, body string) *Answer {
	p.tb.Helper()
	a, err := p.Try(to, txn, []byte(body), nil)
	if err != nil {
		p.tb.Fatalf("transaction %s: %v", txn, err)
	}
	return a
}

// Try sends the bytes of a transaction, after change, if it is not nil, has
// changed the request. A connection that breaks is an error.
func (p *Peer) Try(to *Server, txn string, body []byte, change func(*http.Request)) (*Answer, error) {
	uri := "/_matrix/federation/v1/send/" + txn
	req, err := http.NewRequestWithContext(p.tb.Context(), http.MethodPut, "https://"+*to.fed.at.Load()+uri, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", p.Authorize(to.Name(), http.MethodPut, uri, body))
	if change != nil {
		change(req)
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return &Answer{Status: resp.StatusCode, Header: resp.Header, Body: text}, err
}

// Authorize is the Authorization header of a request. A body that is no JSON
// is left out of what is signed.
// Server-Server API, "Request Authentication".
func (p *Peer) Authorize(to matrix.ServerName, method, uri string, body []byte) string {
	object := map[string]any{"method": method, "uri": uri, "origin": p.Name, "destination": to}
	if len(body) > 0 && jsontext.Value(body).IsValid() {
		object["content"] = jsontext.Value(body)
	}
	text, err := json.Marshal(object)
	if err != nil {
		p.tb.Fatal(err)
	}
	v := jsontext.Value(text)
	if err := v.Canonicalize(); err != nil {
		p.tb.Fatal(err)
	}
	sig := matrix.EncodeBase64(ed25519.Sign(p.Key, v))
	return fmt.Sprintf(`X-Matrix origin=%q,destination=%q,key=%q,sig=%q`, p.Name, to, p.KeyID, sig)
}
