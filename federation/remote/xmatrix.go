package remote

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"hearth/storage/matrix"
)

// scheme is the authentication scheme of requests between servers.
const scheme = "X-Matrix"

// maxAuthorization bounds an Authorization header in bytes: two server names
// of 230, a key ID and a signature leave much room.
const maxAuthorization = 4096

// XMatrix is what an Authorization header of a federation request says.
// Server-Server API, "Request Authentication".
type XMatrix struct {
	Origin      matrix.ServerName
	Destination matrix.ServerName // empty where an older server left it out
	Key         matrix.KeyID
	Sig         string // unpadded base64
}

// ParseAuthorization reads an Authorization header. It is as tolerant as the
// specification asks: names in any case and order, optional quotes, escapes,
// colons outside of quotes, blanks around commas, unknown parameters.
// A parameter that is given twice is refused, since readers would disagree.
func ParseAuthorization(header string) (XMatrix, error) {
	if len(header) > maxAuthorization {
		return XMatrix{}, fmt.Errorf("authorization header longer than %d bytes", maxAuthorization)
	}
	name, rest, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(name, scheme) {
		return XMatrix{}, fmt.Errorf("authorization scheme is not %s", scheme)
	}
	params, err := parseParams(rest)
	if err != nil {
		return XMatrix{}, err
	}
	var x XMatrix
	if x.Origin, err = matrix.ParseServerName(params["origin"]); err != nil {
		return XMatrix{}, fmt.Errorf("origin: %w", err)
	}
	if d, ok := params["destination"]; ok {
		if x.Destination, err = matrix.ParseServerName(d); err != nil {
			return XMatrix{}, fmt.Errorf("destination: %w", err)
		}
	}
	x.Key, x.Sig = matrix.KeyID(params["key"]), params["sig"]
	if x.Key.Algorithm() != "ed25519" {
		return XMatrix{}, fmt.Errorf("key %q is not an ed25519 key", x.Key)
	}
	if b, err := matrix.DecodeBase64(x.Sig); err != nil || len(b) != ed25519.SignatureSize {
		return XMatrix{}, errors.New("sig is not an ed25519 signature in base64")
	}
	return x, nil
}

func parseParams(s string) (map[string]string, error) {
	params := map[string]string{}
	for {
		s = strings.TrimLeft(s, " \t,")
		if s == "" {
			return params, nil
		}
		name, rest, ok := strings.Cut(s, "=")
		name = strings.ToLower(strings.TrimRight(name, " \t"))
		if !ok || !isToken(name, "") {
			return nil, errors.New("authorization parameters are not name=value pairs")
		}
		value, rest, err := parseValue(strings.TrimLeft(rest, " \t"))
		if err != nil {
			return nil, fmt.Errorf("authorization parameter %s: %w", name, err)
		}
		if _, twice := params[name]; twice {
			return nil, fmt.Errorf("authorization parameter %s is given twice", name)
		}
		params[name] = value
		if s = strings.TrimLeft(rest, " \t"); s != "" && s[0] != ',' {
			return nil, fmt.Errorf("no comma after authorization parameter %s", name)
		}
	}
}

// parseValue reads a token, in which colons and what base64 and IPv6 literals
// need are tolerated, or a quoted string.
func parseValue(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, ", \t")
		if end < 0 {
			end = len(s)
		}
		if end == 0 || !isToken(s[:end], ":/=[]") {
			return "", "", errors.New("illegal value outside of quotes")
		}
		return s[:end], s[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], nil
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case c < ' ' && c != '\t' || c == 0x7f:
			return "", "", errors.New("control character in quotes")
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errors.New("no closing quote")
}

// isToken checks the characters of a token. RFC 9110, section 5.6.2.
func isToken(s, also string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 && strings.IndexByte(also, c) < 0 {
			return false
		}
	}
	return s != ""
}

// Verify checks the signature of a request. body is its JSON body, or empty;
// uri is the request target as it was sent, query included; self stands for a
// destination that an older server signed and did not name. Whether pub is a
// key of the origin, and whether Destination is this server, is the caller's
// to know.
func (x XMatrix) Verify(method, uri string, self matrix.ServerName, body []byte, pub ed25519.PublicKey) error {
	dest := x.Destination
	if dest == "" {
		dest = self
	}
	object, err := requestObject(method, uri, x.Origin, dest, body)
	if err != nil {
		return err
	}
	sig, err := matrix.DecodeBase64(x.Sig)
	if err != nil {
		return fmt.Errorf("sig: %w", matrix.ErrBadSignature) // text that is none
	}
	if len(pub) != ed25519.PublicKeySize || !ed25519.Verify(pub, object, sig) {
		return matrix.ErrBadSignature
	}
	return nil
}

// authorize signs a request and returns its Authorization header.
func authorize(method, uri string, dest matrix.ServerName, body []byte, s matrix.Signer) (string, error) {
	object, err := requestObject(method, uri, s.Server, dest, body)
	if err != nil {
		return "", err
	}
	sig := matrix.EncodeBase64(ed25519.Sign(s.Key, object))
	return fmt.Sprintf(`%s origin="%s",destination="%s",key="%s",sig="%s"`, scheme, s.Server, dest, s.KeyID, sig), nil
}

// requestObject is what a request's signature covers, in canonical JSON.
func requestObject(method, uri string, origin, dest matrix.ServerName, body []byte) ([]byte, error) {
	b := []byte("{")
	field := func(name, value string) (err error) {
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, '"', ':')
		b, err = jsontext.AppendQuote(b, value)
		b = append(b, ',')
		return err
	}
	if body = bytes.TrimSpace(body); len(body) > 0 {
		b = append(append(append(b, `"content":`...), body...), ',')
	}
	err := field("destination", string(dest))
	if err == nil {
		err = field("method", method)
	}
	if err == nil {
		err = field("origin", string(origin))
	}
	if err == nil {
		err = field("uri", uri)
	}
	if err != nil {
		return nil, fmt.Errorf("request to sign: %w", err)
	}
	b[len(b)-1] = '}'
	return matrix.CanonicalJSON(b)
}
