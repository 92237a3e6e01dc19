package web

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"hearth/federation/remote"
	"hearth/storage/matrix"
)

// Peers tells whether requests come from the servers that they name. Its errors
// are [*matrix.Error] where they do not.
type Peers interface {
	// CheckRequest decides what it can without the body. It may wait for the
	// origin to tell its keys.
	CheckRequest(ctx context.Context, x remote.XMatrix) error
	// VerifyRequest verifies the signature. uri is the request target as sent.
	VerifyRequest(ctx context.Context, x remote.XMatrix, method, uri string, body []byte) error
}

// maxAuthorizations bounds the Authorization headers of one request: a server
// may sign with several keys.
const maxAuthorizations = 4

// peerDepth is how deep the body of a server's request may nest. What a client
// may send at [MaxDepth] lies a few levels deeper in a transaction.
const peerDepth = MaxDepth + 10

// Federation makes an endpoint for other servers, whose requests are signed.
// [Call.Origin] is who sent it. In and Out are as of [Public]; the body is
// decoded after its signature was verified over the bytes that came.
//
// The route's rate limit counts twice: by address before anything else, and by
// origin, once that is sure.
// Server-Server API, "Request Authentication".
func Federation[In, Out any](fn func(context.Context, *Call, In) (Out, error)) Handler {
	_, noBody := any(*new(In)).(NoBody)
	return Handler{serve: func(k *Kernel, w *response, r *http.Request, c *Call) error {
		buf := bodies.Get().(*bytes.Buffer)
		defer freeBody(buf)
		body := &meteredBody{ReadCloser: r.Body, memory: k.memory, address: limitKey(c)}
		defer body.free()
		r.Body = body
		if err := k.authenticatePeer(w, r, c, buf); err != nil {
			return err
		}
		var in In
		if !noBody {
			if err := decodeWithin(buf.Bytes(), c.route.BodyOptional, peerDepth, &in); err != nil {
				return err
			}
			if err := validate(&in); err != nil {
				return err
			}
		}
		out, err := fn(r.Context(), c, in)
		if err != nil {
			return err
		}
		return w.answer(out)
	}}
}

// authenticatePeer reads the body into buf and sets the origin of the call.
func (k *Kernel) authenticatePeer(w *response, r *http.Request, c *Call, buf *bytes.Buffer) error {
	x, err := k.chooseSignature(r)
	if err != nil {
		return err
	}
	began := time.Now()
	k.setDeadlines(w, r, began) // keys may have taken long to fetch
	if err := readBody(w, r, c.route.MaxBody, buf); err != nil {
		return err
	}
	if err := k.opt.Peers.VerifyRequest(r.Context(), x, r.Method, target(r), buf.Bytes()); err != nil {
		return err
	}
	c.Origin = x.Origin
	c.Log = c.Log.With(zap.String("origin", string(x.Origin)))
	if l := k.limiters[c.route.Limit]; l != nil {
		return l.take("s"+string(x.Origin), k.opt.Now())
	}
	return nil
}

// chooseSignature finds the first of the request's signatures whose key is at hand.
func (k *Kernel) chooseSignature(r *http.Request) (x remote.XMatrix, err error) {
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		return x, matrix.Errorf(matrix.Unauthorized, "Requests of servers must be signed")
	}
	for _, h := range headers[:min(len(headers), maxAuthorizations)] {
		var parseErr error
		if x, parseErr = remote.ParseAuthorization(h); parseErr != nil {
			err = matrix.Errorf(matrix.Unauthorized, "Bad Authorization header: %v", parseErr)
			continue
		}
		if err = k.opt.Peers.CheckRequest(r.Context(), x); err == nil {
			return x, nil
		}
	}
	return x, err
}

// target is the request target as the peer signed it: path and query.
func target(r *http.Request) string {
	uri := r.RequestURI
	if rest, ok := strings.CutPrefix(uri, "https://"); ok { // through a proxy
		uri = rest[max(strings.IndexByte(rest, '/'), 0):]
	} else if rest, ok := strings.CutPrefix(uri, "http://"); ok {
		uri = rest[max(strings.IndexByte(rest, '/'), 0):]
	}
	return uri
}
