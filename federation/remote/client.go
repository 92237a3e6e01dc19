package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"code.dny.dev/ssrf"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage/matrix"
)

// Options configure [New].
type Options struct {
	Server matrix.ServerName    // this server's name
	Signer func() matrix.Signer // the key in use now; nil: requests are not signed
	// AllowPrivate permits private, loopback and link-local addresses.
	AllowPrivate bool
	// LoopbackOnly looks no name up and connects to no other address. For tests.
	LoopbackOnly bool
	CAFile       string        // certificates to trust beside the system's; empty: none
	Timeout      time.Duration // of a whole request; 0: 60 s
	MaxResponse  int64         // bytes read of an answer; 0: 64 MiB
	UserAgent    string
	Resolver     Resolver         // nil: the system's
	Now          func() time.Time // nil: time.Now
}

// Client calls other homeservers. It is safe for concurrent use.
type Client struct {
	opt            Options
	resolver       Resolver
	http           *http.Client
	wellKnown      *wellKnowns
	dial           func(ctx context.Context, network, addr string) (net.Conn, error)
	tls            *tls.Config
	connectTimeout time.Duration
}

// Request is one request to another homeserver.
type Request struct {
	Method      string
	Destination matrix.ServerName
	Path        string // escaped, from "/_matrix" on
	Query       url.Values
	Body        []byte // JSON; empty: none
	Unsigned    bool   // for endpoints without authentication
	MaxResponse int64  // bytes read of the answer; 0: Options.MaxResponse
}

// Error is an answer other than 2xx.
type Error struct {
	Status     int
	Code       matrix.Code // M_…, empty where the body had none
	Message    string
	RetryAfter time.Duration // 0: not said
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("remote: HTTP status %d %s %s", e.Status, e.Code, e.Message)
}

// New makes a client. An unreadable CAFile is an error.
func New(opt Options) (*Client, error) {
	if opt.Timeout == 0 {
		opt.Timeout = time.Minute
	}
	if opt.MaxResponse == 0 {
		opt.MaxResponse = 64 << 20
	}
	if opt.Now == nil {
		opt.Now = time.Now //nolint:forbidigo // the default of the injected clock
	}
	if opt.Resolver == nil {
		opt.Resolver = net.DefaultResolver
	}
	roots, err := trusted(opt.CAFile)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{}
	if !opt.AllowPrivate {
		dialer.Control = ssrf.New(ssrf.WithAnyPort(), ssrf.WithNetworks("tcp4", "tcp6")).Safe
	}
	if opt.LoopbackOnly {
		opt.Resolver, dialer.Control = nowhere{}, onlyLoopback
	}
	c := &Client{
		opt:            opt,
		resolver:       opt.Resolver,
		dial:           dialer.DialContext,
		tls:            &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}},
		connectTimeout: 10 * time.Second,
	}
	c.http = &http.Client{
		Transport:     c.transport(c.dialTarget),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.wellKnown = &wellKnowns{now: opt.Now, http: &http.Client{
		Transport: c.transport(c.dialPlain),
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= wellKnownHops || r.URL.Scheme != "https" {
				return errors.New("too many redirects, or one away from https")
			}
			return nil
		},
	}}
	return c, nil
}

// Close drops idle connections.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	c.wellKnown.http.CloseIdleConnections()
}

func trusted(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil // the system's
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("CA file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("CA file %s: no certificate in it", file)
	}
	return pool, nil
}

// transport never asks for compressed answers: what a peer sends is what is counted.
func (c *Client) transport(dialTLS func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialTLSContext:         dialTLS,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    2,
		MaxIdleConns:           256,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

type targetKey struct{}

// dialTarget connects to the target that the request's context carries.
func (c *Client) dialTarget(ctx context.Context, _, _ string) (net.Conn, error) {
	t, ok := ctx.Value(targetKey{}).(Target)
	if !ok {
		return nil, errors.New("a request without a target")
	}
	return c.secure(ctx, t.Endpoints, t.CertName)
}

// dialPlain connects to the host that a URL names.
func (c *Client) dialPlain(ctx context.Context, _, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	return c.secure(ctx, []Endpoint{{host, uint16(n)}}, host)
}

func (c *Client) secure(ctx context.Context, endpoints []Endpoint, certName string) (net.Conn, error) {
	raw, err := c.connect(ctx, endpoints)
	if err != nil {
		return nil, err
	}
	cfg := c.tls.Clone()
	cfg.ServerName = certName // an IP address is verified, and not sent as SNI
	conn := tls.Client(raw, cfg)
	ctx, cancel := context.WithTimeout(ctx, c.connectTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return conn, nil
}

// Do sends one request and returns the body of a 2xx answer. Any other answer
// is an [*Error]; whatever else goes wrong is another error, and the other
// server may or may not have acted on the request.
func (c *Client) Do(ctx context.Context, r Request) ([]byte, error) {
	if r.Destination == c.opt.Server {
		return nil, errors.New("remote: a request to this server itself")
	}
	ctx, cancel := context.WithTimeout(ctx, c.opt.Timeout)
	defer cancel()
	target, err := c.Resolve(ctx, r.Destination)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", r.Destination, err)
	}
	req, err := c.request(context.WithValue(ctx, targetKey{}, target), r, target)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", r.Destination, err)
	}
	defer func() { _ = res.Body.Close() }()
	limit := c.opt.MaxResponse
	if r.MaxResponse > 0 {
		limit = min(limit, r.MaxResponse)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("answer of %s: %w", r.Destination, err)
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("answer of %s: longer than %d bytes", r.Destination, limit)
	}
	if res.StatusCode/100 != 2 {
		return nil, errorOf(res, body)
	}
	return body, nil
}

func (c *Client) request(ctx context.Context, r Request, t Target) (*http.Request, error) {
	uri := r.Path
	if len(r.Query) > 0 {
		uri += "?" + r.Query.Encode()
	}
	// The URL names the destination, so that connections are pooled by it. Port
	// 0 stands for none: "example.org" and "example.org:443" are two servers.
	host := string(r.Destination)
	if _, _, hasPort := splitServerName(r.Destination); !hasPort {
		host += ":0"
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, "https://"+host+uri, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("request to %s: %w", r.Destination, err)
	}
	req.Host = t.Host
	req.Header.Set("User-Agent", c.opt.UserAgent)
	if len(r.Body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if !r.Unsigned && c.opt.Signer != nil {
		auth, err := authorize(r.Method, uri, r.Destination, r.Body, c.opt.Signer())
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", auth)
	}
	return req, nil
}

func errorOf(res *http.Response, body []byte) error {
	e := &Error{Status: res.StatusCode}
	var said struct {
		Code    matrix.Code `json:"errcode"`
		Message string      `json:"error"`
		RetryMS int64       `json:"retry_after_ms"`
	}
	if json.Unmarshal(body, &said) == nil {
		e.Code, e.Message = matrix.Code(clip(string(said.Code), 64)), clip(said.Message, 256)
		e.RetryAfter = time.Duration(max(0, min(said.RetryMS, maxRetryMS))) * time.Millisecond
	}
	if s, err := strconv.ParseInt(res.Header.Get("Retry-After"), 10, 32); err == nil && s > 0 {
		e.RetryAfter = time.Duration(min(s*1000, maxRetryMS)) * time.Millisecond
	}
	return e
}

// maxRetryMS bounds how long a peer may ask us to wait.
const maxRetryMS = int64(24 * time.Hour / time.Millisecond)

// clip bounds what a peer says in bytes.
func clip(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// ServerKeys fetches a server's own statement of its signing keys.
// Server-Server API, GET /_matrix/key/v2/server.
func (c *Client) ServerKeys(ctx context.Context, server matrix.ServerName) ([]byte, error) {
	return c.Do(ctx, Request{Method: http.MethodGet, Destination: server, Path: "/_matrix/key/v2/server", Unsigned: true, MaxResponse: 256 << 10})
}

// QueryKeys asks a notary for other servers' keys; query is the request's body.
// Server-Server API, POST /_matrix/key/v2/query.
func (c *Client) QueryKeys(ctx context.Context, notary matrix.ServerName, query []byte) ([]byte, error) {
	return c.Do(ctx, Request{Method: http.MethodPost, Destination: notary, Path: "/_matrix/key/v2/query", Body: query, Unsigned: true, MaxResponse: 8 << 20})
}

// SendTransaction delivers a transaction. An answer of 2xx that is no JSON object
// is an error: it comes from something that stands in front of a homeserver, or
// in its place, and what was sent is not known to have arrived.
// Server-Server API, PUT /_matrix/federation/v1/send/{txnId}.
func (c *Client) SendTransaction(ctx context.Context, to matrix.ServerName, txnID string, body []byte) ([]byte, error) {
	answer, err := c.Do(ctx, Request{
		Method:      http.MethodPut,
		Destination: to,
		Path:        "/_matrix/federation/v1/send/" + url.PathEscape(txnID),
		Body:        body,
		MaxResponse: 1 << 20,
	})
	if text := jsontext.Value(answer); err == nil && (text.Kind() != '{' || !text.IsValid(jsontext.AllowDuplicateNames(true))) {
		err = fmt.Errorf("answer of %s: not that of a homeserver", to)
	}
	return answer, err
}
