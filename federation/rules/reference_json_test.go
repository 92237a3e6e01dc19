package rules_test

// The reference: a second implementation of canonical JSON, hashes, redaction,
// event authorization and state resolution, made to be read beside the text of
// the specification and compared with the fast one. It keeps events as decoded
// maps, follows the text in the text's order, and copies wherever that is simpler.

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"sort"
	"strings"
)

// refDecode reads JSON into maps, slices and json.Numbers.
func refDecode(raw []byte) map[string]any {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var out map[string]any
	if err := dec.Decode(&out); err != nil {
		panic(fmt.Sprintf("reference: %v in %s", err, raw))
	}
	return out
}

// refCanonical encodes a decoded value. Appendices, "Canonical JSON".
func refCanonical(v any) []byte {
	switch v := v.(type) {
	case nil:
		return []byte("null")
	case bool:
		return fmt.Append(nil, v)
	case json.Number:
		return []byte(refNumber(string(v)))
	case int, int64:
		return fmt.Append(nil, v)
	case string:
		return []byte(refQuote(v))
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, string(refCanonical(e)))
		}
		return []byte("[" + strings.Join(parts, ",") + "]")
	case map[string]any:
		var keys []string
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys) // UTF-8 bytes sort as code points do
		var parts []string
		for _, k := range keys {
			parts = append(parts, refQuote(k)+":"+string(refCanonical(v[k])))
		}
		return []byte("{" + strings.Join(parts, ",") + "}")
	}
	panic(fmt.Sprintf("reference: cannot encode %T", v))
}

// refNumber writes integers without exponent, and zero without a sign. Fractions,
// which only room versions 1 to 5 let through, are left as they came.
func refNumber(s string) string {
	r, ok := new(big.Rat).SetString(s)
	if ok && r.IsInt() && !strings.Contains(s, ".") {
		return r.Num().String()
	}
	return s
}

func refQuote(s string) string {
	short := map[rune]string{'\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`, '"': `\"`, '\\': `\\`}
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case short[c] != "":
			b.WriteString(short[c])
		case c < 0x20:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// refClone copies a decoded value to any depth.
func refClone(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = refClone(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			out[k] = refClone(v[k])
		}
		return out
	}
	return v
}

// refWithout copies an object and leaves some keys out.
func refWithout(obj map[string]any, keys ...string) map[string]any {
	out := map[string]any{}
	for k, v := range obj {
		if !slices.Contains(keys, k) {
			out[k] = v
		}
	}
	return out
}

// refOnly copies an object's listed keys.
func refOnly(obj map[string]any, keys ...string) map[string]any {
	out := map[string]any{}
	for _, k := range keys {
		if v, ok := obj[k]; ok {
			out[k] = v
		}
	}
	return out
}

// refUnbase64 decodes either alphabet, padded or not.
func refUnbase64(s string) []byte {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	b, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil {
		return nil
	}
	return b
}

// refSign adds a signature to an object. Appendices, "Signing Details".
func refSign(obj map[string]any, server, keyID string, key ed25519.PrivateKey) {
	msg := refCanonical(refWithout(obj, "signatures", "unsigned"))
	sig := base64.RawStdEncoding.EncodeToString(ed25519.Sign(key, msg))
	all, ok := obj["signatures"].(map[string]any)
	if !ok {
		all = map[string]any{}
		obj["signatures"] = all
	}
	mine, ok := all[server].(map[string]any)
	if !ok {
		mine = map[string]any{}
		all[server] = mine
	}
	mine[keyID] = sig
}

// refSignedBy tells whether the object bears this key's signature under this name.
func refSignedBy(obj map[string]any, server, keyID string, key ed25519.PublicKey) bool {
	all, _ := obj["signatures"].(map[string]any)
	mine, _ := all[server].(map[string]any)
	sig, _ := mine[keyID].(string)
	raw := refUnbase64(sig)
	return len(raw) == ed25519.SignatureSize && len(key) == ed25519.PublicKeySize &&
		ed25519.Verify(key, refCanonical(refWithout(obj, "signatures", "unsigned")), raw)
}
