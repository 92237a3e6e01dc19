package fedapi_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"hearth/federation/inbound"
	"hearth/federation/keyring"
	"hearth/server/fedapi"
	"hearth/server/web"
	"hearth/storage"
	"hearth/storage/inbox"
	"hearth/storage/matrix"
	"hearth/storage/storagetest"
	"hearth/storage/storagetest/faultvfs"
)

const (
	us   = matrix.ServerName(storagetest.ServerName)
	peer = matrix.ServerName("peer.example")
	noPD = `{"pdus":{}}`
)

// receiver is a server with the user bob and the device B, reopened at will.
type receiver struct {
	t      *testing.T
	dir    string
	key    ed25519.PrivateKey // of every other server
	device int64
	store  *storage.Store
	inbox  *inbox.Inbox
	ring   *keyring.Ring
	http   *httptest.Server
	opt    inbound.Options
}

func newReceiver(t *testing.T, opt inbound.Options) *receiver {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	r := &receiver{t: t, dir: t.TempDir(), key: key, opt: opt}
	r.must(err)
	r.open()
	t.Cleanup(r.close)
	r.must(r.store.Write(t.Context(), "test", func(tx *storage.Tx) error {
		num, err := tx.AddUser(storage.User{Localpart: "bob"})
		if err == nil {
			r.device, err = tx.AddDevice(num, "B", "")
		}
		return err
	}))
	return r
}

func (r *receiver) open() {
	r.t.Helper()
	r.store = storagetest.OpenDir(r.t, r.dir)
	r.inbox = inbox.New(r.store, inbox.Options{}, nil)
	var err error
	r.ring, err = keyring.Open(r.t.Context(), r.store, world{r.key, map[matrix.ServerName]bool{peer: true}}, keyring.Options{}, zap.NewNop())
	r.must(err)
	k := web.New(web.Options{Peers: r.ring})
	k.Routes(fedapi.New(fedapi.Deps{
		Server: us, Keys: r.ring, Inbound: inbound.New(r.store, r.inbox, r.opt, nil), Log: zap.NewNop(),
	}).Routes())
	r.http = httptest.NewServer(k.Handler())
}

func (r *receiver) close() {
	r.http.Close()
	r.ring.Close()
}

func (r *receiver) restart() {
	r.t.Helper()
	r.close()
	r.must(r.store.Close())
	r.open()
}

func (r *receiver) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// authorization signs a request. A body that is no JSON cannot be signed: then
// the signature is of another one.
func (r *receiver) authorization(uri, body string, dest matrix.ServerName) string {
	object := func(content string) []byte {
		return fmt.Appendf(nil, `{"method":"PUT","uri":%q,"origin":%q,"destination":%q,"content":%s}`, uri, peer, dest, content)
	}
	signer := matrix.Signer{Server: peer, KeyID: "ed25519:1", Key: r.key}
	text, err := matrix.SignJSON(object(body), signer)
	if err != nil {
		text, err = matrix.SignJSON(object("{}"), signer)
		r.must(err)
	}
	var signed struct {
		Signatures map[matrix.ServerName]map[string]string `json:"signatures"`
	}
	r.must(json.Unmarshal(text, &signed))
	return fmt.Sprintf(`X-Matrix origin="%s",destination="%s",key="ed25519:1",sig="%s"`, peer, dest, signed.Signatures[peer]["ed25519:1"])
}

// put sends a transaction to dest, as peer, and returns the answer.
func (r *receiver) put(txn, body string, dest matrix.ServerName) (*http.Response, string) {
	uri := "/_matrix/federation/v1/send/" + txn
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPut, r.http.URL+uri, strings.NewReader(body))
	if err != nil {
		r.t.Error(err)
		return &http.Response{}, ""
	}
	req.Header.Set("Authorization", r.authorization(uri, body, dest))
	res, err := r.http.Client().Do(req)
	if err != nil && len(body) > 8<<20 {
		// The answer to a body that is too large comes before it was read; who
		// is still writing may see the connection end instead.
		return &http.Response{StatusCode: http.StatusRequestEntityTooLarge}, `"M_TOO_LARGE"`
	}
	if err != nil {
		r.t.Error(err)
		return &http.Response{}, ""
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Error(err)
	}
	return res, string(text)
}

func (r *receiver) want(txn, body string, status int, text string) {
	r.t.Helper()
	res, got := r.put(txn, body, us)
	if res.StatusCode != status || !strings.Contains(got, text) {
		r.t.Errorf("%s: got %d %s, want %d %s", txn, res.StatusCode, got, status, text)
	}
}

// waiting is the contents in bob's inbox.
func (r *receiver) waiting() string {
	r.t.Helper()
	var all []string
	r.must(r.store.Read(r.t.Context(), "test", func(rx *storage.Rx) error {
		b, err := r.inbox.Batch(r.t.Context(), rx, r.device, 0)
		for _, m := range b.Messages {
			all = append(all, string(m.Content))
		}
		return err
	}))
	return strings.Join(all, " ")
}

func (r *receiver) wantWaiting(want string) {
	r.t.Helper()
	if got := r.waiting(); got != want {
		r.t.Errorf("bob has %s, want %s", got, want)
	}
}

func transaction(edus ...string) string {
	return fmt.Sprintf(`{"origin":%q,"origin_server_ts":1,"pdus":[],"edus":[%s]}`, peer, strings.Join(edus, ","))
}

func direct(id, content string) string {
	return fmt.Sprintf(`{"edu_type":"m.direct_to_device","content":{"sender":"@alice:%s","type":"m.test","message_id":%q,"messages":{"@bob:%s":{"B":%s}}}}`, peer, id, us, content)
}

// TestSend: a transaction delivers; sent again, or its EDU in another one, it
// delivers nothing more, after a restart too.
func TestSend(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, inbound.Options{})
	r.want("t1", transaction(direct("1", `{"n":1}`)), 200, noPD)
	r.wantWaiting(`{"n":1}`)
	for range 2 {
		r.want("t1", transaction(direct("1", `{"n":1}`)), 200, noPD)
		r.want("t1", transaction(direct("x", `{"n":"x"}`)), 200, noPD)
		r.want("t2", transaction(direct("1", `{"n":1}`)), 200, noPD)
		r.restart()
	}
	r.want("t1%2F%F0%9F%98%80", transaction(direct("2", `{"n":2}`)), 200, noPD)
	r.want("t3", fmt.Sprintf(`{"origin":%q,"pdus":[{"event_id":"$a:peer.example"}]}`, peer), 200, `"$a:peer.example":{"error"`)
	r.wantWaiting(`{"n":1} {"n":2}`)
}

// TestSendFails: a failed write is not answered 200, and the sender's retry
// delivers once.
func TestSendFails(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, inbound.Options{})
	r.want("t0", transaction(), 200, noPD) // the keys are there
	storagetest.FailCommit(t, r.store)
	r.want("t1", transaction(direct("1", `{"n":1}`)), 500, "M_UNKNOWN")
	r.wantWaiting("")
	for range 2 {
		r.want("t1", transaction(direct("1", `{"n":1}`)), 200, noPD)
		r.restart()
	}
	r.wantWaiting(`{"n":1}`)
}

// TestBadTransactions: nothing of them is applied, and the answer says why.
func TestBadTransactions(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, inbound.Options{})
	good := direct("1", `{"n":1}`)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write([]byte(transaction(good)))
	r.must(err)
	r.must(z.Close())
	for name, c := range map[string]struct {
		body   string
		status int
		code   matrix.Code
	}{
		"empty":         {"", 401, matrix.Unauthorized}, // the signature covers a body
		"not JSON":      {"{", 400, matrix.NotJSON},
		"list":          {"[]", 400, matrix.BadJSON},
		"compressed":    {zipped.String(), 400, matrix.NotJSON},
		"not UTF-8":     {transaction(direct("1", "{\"\xff\":1}")), 400, matrix.NotJSON},
		"duplicate key": {transaction(direct("1", `{"a":1,"a":2}`)), 400, matrix.BadJSON},
		"deep":          {transaction(direct("1", `{"a":`+strings.Repeat("[", 120)+strings.Repeat("]", 120)+`}`)), 400, matrix.BadJSON},
		"deepest":       {strings.Repeat(`{"a":`, 100_000), 400, matrix.NotJSON},
		"101 EDUs":      {transaction(strings.Repeat(good+",", 100) + good), 400, matrix.BadJSON},
		"many values":   {transaction(strings.Repeat("0,", 1<<20) + "0"), 400, matrix.BadJSON},
		"wrong origin":  {strings.Replace(transaction(good), `"origin":"peer.example"`, `"origin":"third.example"`, 1), 403, matrix.Forbidden},
		"no origin":     {`{"edus":[` + good + `]}`, 400, matrix.MissingParam},
		"edus: string":  {`{"origin":"peer.example","edus":"x"}`, 400, matrix.BadJSON},
	} {
		res, text := r.put("t", c.body, us)
		if res.StatusCode != c.status || !strings.Contains(text, `"`+string(c.code)+`"`) {
			t.Errorf("%s: got %d %s, want %d %s", name, res.StatusCode, text, c.status, c.code)
		}
	}
	res, text := r.put("t", transaction(good), "third.example")
	if res.StatusCode != 401 || !strings.Contains(text, "M_UNAUTHORIZED") {
		t.Errorf("to another server: got %d %s", res.StatusCode, text)
	}
	if status := r.announce(14 << 20); status != 413 {
		t.Errorf("huge: got %d, want 413", status)
	}
	r.want(strings.Repeat("x", 256), transaction(good), 400, "M_INVALID_PARAM")
	r.wantWaiting("")
	r.want("t", transaction(good), 200, noPD)
}

// announce sends only the head of a request, with the size of its body, and
// returns the status of the answer.
func (r *receiver) announce(size int) int {
	r.t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(r.t.Context(), "tcp", r.http.Listener.Addr().String())
	r.must(err)
	defer func() { _ = conn.Close() }()
	const uri = "/_matrix/federation/v1/send/t"
	_, err = fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: us\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n", uri, r.authorization(uri, "{}", us), size)
	r.must(err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	r.must(err)
	_ = res.Body.Close()
	return res.StatusCode
}

// TestSendIsBusy: what a server sends beside its transactions that wait already
// is turned away, with the time to wait.
func TestSendIsBusy(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, inbound.Options{Waiting: 1})
	r.want("t0", transaction(), 200, noPD)
	inSync, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	storagetest.Disk(t, r.store).OnCall(func(c faultvfs.Call) faultvfs.Code {
		if c.Op == faultvfs.Sync && c.WAL() {
			once.Do(func() { close(inSync); <-release })
		}
		return 0
	})
	type answer struct {
		status int
		retry  string
	}
	answers := make(chan answer, 4)
	for i := range 4 {
		go func() {
			res, _ := r.put(fmt.Sprint("t", i+1), transaction(direct(fmt.Sprint(i), `{}`)), us)
			answers <- answer{res.StatusCode, res.Header.Get("Retry-After")}
		}()
	}
	<-inSync
	for range 2 {
		if a := <-answers; a.status != 429 || a.retry != "5" {
			t.Errorf("got %+v, want 429 and 5 seconds", a)
		}
	}
	close(release)
	for range 2 {
		if a := <-answers; a.status != 200 {
			t.Errorf("got %+v, want 200", a)
		}
	}
	r.wantWaiting(`{} {}`)
}
