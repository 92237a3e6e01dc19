package web

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.uber.org/zap"

	"hearth/storage/matrix"
)

// authenticate reads the access token in either form that v1.19 has, and asks
// whose it is. A public endpoint sees no token.
func (k *Kernel) authenticate(r *http.Request, c *Call) error {
	token := matrix.Token(c.Query.Get("access_token"))
	delete(c.Query, "access_token")
	if h := r.Header.Get("Authorization"); h != "" {
		scheme, value, _ := strings.Cut(h, " ")
		if strings.EqualFold(scheme, "Bearer") {
			token = matrix.Token(strings.TrimSpace(value))
		}
	}
	if !c.route.Handler.authed {
		c.Log = k.log.WithLazy(zap.String("request_id", c.RequestID))
		return nil
	}
	if token == "" {
		return matrix.Errorf(matrix.MissingToken, "Missing access token")
	}
	who, err := k.opt.Auth.Authenticate(r.Context(), token)
	if err != nil {
		return err
	}
	if who.Locked != nil && !c.route.Locked {
		return who.Locked
	}
	c.Caller, c.Token = who, token
	c.Log = k.log.WithLazy(
		zap.String("request_id", c.RequestID),
		zap.String("user", string(who.User)),
		zap.String("device", string(who.Device)))
	return nil
}

func parseQuery(raw string) (url.Values, error) {
	if raw == "" {
		return url.Values{}, nil
	}
	q, err := url.ParseQuery(raw)
	if err != nil {
		return nil, matrix.Errorf(matrix.InvalidParam, "The query string is malformed")
	}
	for name, values := range q {
		for _, v := range append(values[:len(values):len(values)], name) {
			if !utf8.ValidString(v) || strings.IndexByte(v, 0) >= 0 {
				return nil, matrix.Errorf(matrix.InvalidParam, "The query string is not text")
			}
		}
	}
	return q, nil
}

// requestID takes over a proxy's request ID if it is harmless, else makes one.
func (k *Kernel) requestID(r *http.Request) string {
	if v := r.Header["X-Request-Id"]; len(v) == 1 && harmlessID(v[0]) {
		return v[0]
	}
	return k.idPrefix + strconv.FormatUint(k.lastID.Add(1), 36)
}

func harmlessID(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.:", c) >= 0) {
			return false
		}
	}
	return s != "" && len(s) <= 64
}
